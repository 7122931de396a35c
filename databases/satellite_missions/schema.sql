CREATE TABLE agency (
    agency_code VARCHAR PRIMARY KEY,
    agency_name VARCHAR NOT NULL,
    country VARCHAR NOT NULL,
    founding_year INTEGER NOT NULL
);

CREATE TABLE rocket (
    rocket_id INTEGER PRIMARY KEY,
    rocket_name VARCHAR NOT NULL,
    builder_country VARCHAR NOT NULL,
    payload_kg INTEGER NOT NULL,
    launch_price_musd DECIMAL(6,1),
    in_service BOOLEAN NOT NULL
);

CREATE TABLE satellite (
    satellite_id INTEGER PRIMARY KEY,
    agency_code VARCHAR NOT NULL,
    rocket_id INTEGER NOT NULL,
    satellite_name VARCHAR NOT NULL,
    purpose VARCHAR NOT NULL,
    launch_date DATE NOT NULL,
    mass_kg INTEGER,
    orbit_class VARCHAR NOT NULL,
    FOREIGN KEY (agency_code) REFERENCES agency(agency_code),
    FOREIGN KEY (rocket_id) REFERENCES rocket(rocket_id)
);

CREATE TABLE ground_contact (
    contact_id INTEGER PRIMARY KEY,
    satellite_id INTEGER NOT NULL,
    antenna_site VARCHAR NOT NULL,
    contact_date DATE NOT NULL,
    minutes_tracked INTEGER NOT NULL,
    data_gb DOUBLE,
    outcome VARCHAR NOT NULL,
    FOREIGN KEY (satellite_id) REFERENCES satellite(satellite_id)
);
