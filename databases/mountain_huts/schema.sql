CREATE TABLE hut (
    hut_code VARCHAR PRIMARY KEY,
    hut_name VARCHAR NOT NULL,
    massif VARCHAR NOT NULL,
    elevation_m INTEGER NOT NULL,
    bed_count INTEGER NOT NULL,
    warden VARCHAR,
    winter_room BOOLEAN NOT NULL
);

CREATE TABLE overnight_stay (
    stay_id INTEGER PRIMARY KEY,
    hut_code VARCHAR NOT NULL,
    guest_name VARCHAR NOT NULL,
    arrival_date DATE NOT NULL,
    nights INTEGER NOT NULL,
    party_size INTEGER NOT NULL,
    meal_plan VARCHAR,
    FOREIGN KEY (hut_code) REFERENCES hut(hut_code)
);

CREATE TABLE trail (
    trail_no INTEGER PRIMARY KEY,
    from_hut VARCHAR NOT NULL,
    to_hut VARCHAR NOT NULL,
    walking_hours DOUBLE NOT NULL,
    climb_m INTEGER,
    difficulty VARCHAR NOT NULL,
    FOREIGN KEY (from_hut) REFERENCES hut(hut_code),
    FOREIGN KEY (to_hut) REFERENCES hut(hut_code)
);
