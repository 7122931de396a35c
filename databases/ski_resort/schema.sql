CREATE TABLE ski_lift (
    lift_no INTEGER PRIMARY KEY,
    lift_name VARCHAR NOT NULL,
    lift_type VARCHAR NOT NULL,
    built_year INTEGER,
    hourly_capacity INTEGER,
    top_altitude INTEGER NOT NULL
);

CREATE TABLE slope (
    slope_code VARCHAR PRIMARY KEY,
    slope_name VARCHAR NOT NULL,
    difficulty VARCHAR NOT NULL,
    length_m INTEGER,
    snowmaking BOOLEAN,
    lift_no INTEGER,
    FOREIGN KEY (lift_no) REFERENCES ski_lift(lift_no)
);

CREATE TABLE instructor (
    badge VARCHAR PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    discipline VARCHAR NOT NULL,
    second_language VARCHAR,
    first_season INTEGER
);

CREATE TABLE lesson (
    lesson_id INTEGER PRIMARY KEY,
    badge VARCHAR NOT NULL,
    slope_code VARCHAR,
    lesson_date DATE NOT NULL,
    pupil_count INTEGER NOT NULL,
    fee DECIMAL(7,2),
    FOREIGN KEY (badge) REFERENCES instructor(badge),
    FOREIGN KEY (slope_code) REFERENCES slope(slope_code)
);
