CREATE TABLE dig_site (
    site_id INTEGER PRIMARY KEY,
    site_name VARCHAR NOT NULL,
    country VARCHAR NOT NULL,
    era VARCHAR NOT NULL,
    first_season INTEGER NOT NULL,
    protected BOOLEAN
);

CREATE TABLE trench (
    trench_code VARCHAR PRIMARY KEY,
    site_id INTEGER NOT NULL,
    supervisor VARCHAR NOT NULL,
    area_sqm INTEGER NOT NULL,
    max_depth_cm INTEGER,
    opened_year INTEGER NOT NULL,
    FOREIGN KEY (site_id) REFERENCES dig_site(site_id)
);

CREATE TABLE artifact (
    artifact_no INTEGER PRIMARY KEY,
    trench_code VARCHAR NOT NULL,
    found_on DATE NOT NULL,
    material VARCHAR NOT NULL,
    artifact_kind VARCHAR NOT NULL,
    weight_g DOUBLE,
    preservation VARCHAR,
    FOREIGN KEY (trench_code) REFERENCES trench(trench_code)
);
