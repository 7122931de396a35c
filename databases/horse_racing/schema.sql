CREATE TABLE yard (
    yard_code VARCHAR PRIMARY KEY,
    yard_name VARCHAR NOT NULL,
    trainer VARCHAR NOT NULL,
    county VARCHAR NOT NULL,
    founded_year INTEGER,
    box_count INTEGER
);

CREATE TABLE horse (
    horse_id INTEGER PRIMARY KEY,
    horse_name VARCHAR NOT NULL,
    sex VARCHAR NOT NULL,
    coat_colour VARCHAR,
    foaling_year INTEGER NOT NULL,
    yard_code VARCHAR,
    FOREIGN KEY (yard_code) REFERENCES yard(yard_code)
);

CREATE TABLE race (
    race_id INTEGER PRIMARY KEY,
    race_title VARCHAR NOT NULL,
    course VARCHAR NOT NULL,
    race_date DATE NOT NULL,
    distance_m INTEGER NOT NULL,
    going VARCHAR,
    purse INTEGER NOT NULL
);

CREATE TABLE race_entry (
    entry_no INTEGER PRIMARY KEY,
    race_id INTEGER NOT NULL,
    horse_id INTEGER NOT NULL,
    jockey VARCHAR NOT NULL,
    finish_position INTEGER,
    starting_odds DOUBLE,
    prize_money INTEGER NOT NULL,
    FOREIGN KEY (race_id) REFERENCES race(race_id),
    FOREIGN KEY (horse_id) REFERENCES horse(horse_id)
);
