CREATE TABLE lighthouse (
    light_id INTEGER PRIMARY KEY,
    station_name VARCHAR NOT NULL,
    coast VARCHAR NOT NULL,
    tower_height_m DOUBLE NOT NULL,
    range_nm INTEGER NOT NULL,
    built_year INTEGER,
    automated_on DATE
);

CREATE TABLE keeper (
    keeper_id INTEGER PRIMARY KEY,
    keeper_name VARCHAR NOT NULL,
    birthplace VARCHAR,
    hire_year INTEGER NOT NULL
);

CREATE TABLE posting (
    posting_id INTEGER PRIMARY KEY,
    keeper_id INTEGER NOT NULL,
    light_id INTEGER NOT NULL,
    began_on DATE NOT NULL,
    left_on DATE,
    keeper_rank VARCHAR NOT NULL,
    FOREIGN KEY (keeper_id) REFERENCES keeper(keeper_id),
    FOREIGN KEY (light_id) REFERENCES lighthouse(light_id)
);

CREATE TABLE outage (
    outage_id INTEGER PRIMARY KEY,
    light_id INTEGER NOT NULL,
    failed_at TIMESTAMP NOT NULL,
    hours_dark DOUBLE NOT NULL,
    cause VARCHAR,
    FOREIGN KEY (light_id) REFERENCES lighthouse(light_id)
);
