CREATE TABLE marathon (
    marathon_id INTEGER PRIMARY KEY,
    event_name VARCHAR NOT NULL,
    city VARCHAR NOT NULL,
    country VARCHAR NOT NULL,
    held_on DATE NOT NULL,
    entry_fee INTEGER
);

CREATE TABLE runner (
    runner_id INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    nationality VARCHAR,
    birth_year INTEGER,
    running_club VARCHAR
);

CREATE TABLE race_result (
    marathon_id INTEGER NOT NULL,
    runner_id INTEGER NOT NULL,
    halfway_seconds INTEGER,
    finish_seconds INTEGER,
    start_wave VARCHAR NOT NULL,
    prize INTEGER,
    PRIMARY KEY (marathon_id, runner_id),
    FOREIGN KEY (marathon_id) REFERENCES marathon(marathon_id),
    FOREIGN KEY (runner_id) REFERENCES runner(runner_id)
);
