CREATE TABLE reef (
    reef_id INTEGER PRIMARY KEY,
    reef_name VARCHAR NOT NULL,
    region VARCHAR NOT NULL,
    reef_kind VARCHAR NOT NULL,
    max_depth_m INTEGER NOT NULL,
    marine_park BOOLEAN
);

CREATE TABLE dive_survey (
    survey_id INTEGER PRIMARY KEY,
    reef_id INTEGER NOT NULL,
    surveyed_on DATE NOT NULL,
    lead_diver VARCHAR NOT NULL,
    live_coral_pct DOUBLE NOT NULL,
    bleached_pct INTEGER,
    water_temp_c DOUBLE,
    starfish_count INTEGER NOT NULL,
    FOREIGN KEY (reef_id) REFERENCES reef(reef_id)
);
