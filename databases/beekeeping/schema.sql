CREATE TABLE beekeeper (
    beekeeper_id INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    village VARCHAR NOT NULL,
    joined_on DATE NOT NULL,
    hobbyist BOOLEAN NOT NULL
);

CREATE TABLE apiary (
    apiary_code VARCHAR PRIMARY KEY,
    beekeeper_id INTEGER NOT NULL,
    site_name VARCHAR NOT NULL,
    landscape VARCHAR NOT NULL,
    altitude_m INTEGER,
    FOREIGN KEY (beekeeper_id) REFERENCES beekeeper(beekeeper_id)
);

CREATE TABLE hive (
    hive_no INTEGER PRIMARY KEY,
    apiary_code VARCHAR NOT NULL,
    hive_model VARCHAR NOT NULL,
    bee_race VARCHAR NOT NULL,
    queen_birth INTEGER,
    FOREIGN KEY (apiary_code) REFERENCES apiary(apiary_code)
);

CREATE TABLE inspection (
    inspection_id INTEGER PRIMARY KEY,
    hive_no INTEGER NOT NULL,
    inspected_on DATE NOT NULL,
    brood_frames INTEGER NOT NULL,
    mite_drop INTEGER,
    temper VARCHAR,
    FOREIGN KEY (hive_no) REFERENCES hive(hive_no)
);

CREATE TABLE honey_harvest (
    harvest_id INTEGER PRIMARY KEY,
    hive_no INTEGER NOT NULL,
    harvested_on DATE NOT NULL,
    honey_kind VARCHAR NOT NULL,
    weight_kg DECIMAL(6,2) NOT NULL,
    moisture_pct DOUBLE,
    FOREIGN KEY (hive_no) REFERENCES hive(hive_no)
);
