CREATE TABLE branch (
    branch_code VARCHAR PRIMARY KEY,
    city VARCHAR NOT NULL,
    country VARCHAR NOT NULL,
    opened_on DATE,
    parking_spaces INTEGER
);

CREATE TABLE vehicle (
    plate VARCHAR PRIMARY KEY,
    branch_code VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    vehicle_class VARCHAR NOT NULL,
    model_year INTEGER NOT NULL,
    odometer_km INTEGER,
    daily_rate DECIMAL(7,2) NOT NULL,
    FOREIGN KEY (branch_code) REFERENCES branch(branch_code)
);

CREATE TABLE renter (
    renter_id INTEGER PRIMARY KEY,
    renter_name VARCHAR NOT NULL,
    home_country VARCHAR,
    birth_year INTEGER,
    loyalty_tier VARCHAR
);

CREATE TABLE rental (
    rental_id INTEGER PRIMARY KEY,
    plate VARCHAR NOT NULL,
    renter_id INTEGER NOT NULL,
    picked_up DATE NOT NULL,
    brought_back DATE,
    total_price DECIMAL(8,2),
    payment_status VARCHAR NOT NULL,
    FOREIGN KEY (plate) REFERENCES vehicle(plate),
    FOREIGN KEY (renter_id) REFERENCES renter(renter_id)
);
