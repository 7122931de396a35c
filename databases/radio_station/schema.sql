CREATE TABLE presenter (
    presenter_id INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    joined_on DATE NOT NULL,
    home_town VARCHAR,
    is_volunteer BOOLEAN NOT NULL
);

CREATE TABLE radio_program (
    program_code VARCHAR PRIMARY KEY,
    title VARCHAR NOT NULL,
    presenter_id INTEGER,
    genre VARCHAR,
    weekly_hours DOUBLE NOT NULL,
    first_aired DATE NOT NULL,
    FOREIGN KEY (presenter_id) REFERENCES presenter(presenter_id)
);

CREATE TABLE broadcast (
    broadcast_id INTEGER PRIMARY KEY,
    program_code VARCHAR NOT NULL,
    aired_on DATE NOT NULL,
    listeners INTEGER,
    guest_name VARCHAR,
    duration_minutes INTEGER NOT NULL,
    FOREIGN KEY (program_code) REFERENCES radio_program(program_code)
);

CREATE TABLE ad_spot (
    spot_id INTEGER PRIMARY KEY,
    program_code VARCHAR NOT NULL,
    advertiser VARCHAR NOT NULL,
    sold_on DATE NOT NULL,
    spot_seconds INTEGER NOT NULL,
    price DECIMAL(8,2),
    FOREIGN KEY (program_code) REFERENCES radio_program(program_code)
);
