CREATE TABLE donor (
    donor_id INTEGER PRIMARY KEY,
    donor_name VARCHAR NOT NULL,
    donor_kind VARCHAR NOT NULL,
    town VARCHAR,
    first_gift DATE
);

CREATE TABLE donation (
    donation_id INTEGER PRIMARY KEY,
    donor_id INTEGER NOT NULL,
    received_on DATE NOT NULL,
    food_group VARCHAR NOT NULL,
    weight_kg DOUBLE NOT NULL,
    best_before DATE,
    FOREIGN KEY (donor_id) REFERENCES donor(donor_id)
);

CREATE TABLE pantry (
    pantry_code VARCHAR PRIMARY KEY,
    pantry_name VARCHAR NOT NULL,
    neighborhood VARCHAR NOT NULL,
    manager VARCHAR,
    weekly_families INTEGER
);

CREATE TABLE delivery (
    delivery_id INTEGER PRIMARY KEY,
    pantry_code VARCHAR NOT NULL,
    delivered_on DATE NOT NULL,
    food_group VARCHAR NOT NULL,
    weight_kg DOUBLE NOT NULL,
    volunteer_hours DOUBLE,
    FOREIGN KEY (pantry_code) REFERENCES pantry(pantry_code)
);
