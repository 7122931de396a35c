CREATE TABLE coffee_farm (
    farm_id INTEGER PRIMARY KEY,
    farm_name VARCHAR NOT NULL,
    country VARCHAR NOT NULL,
    altitude_m INTEGER,
    certified BOOLEAN
);

CREATE TABLE green_lot (
    lot_code VARCHAR PRIMARY KEY,
    farm_id INTEGER NOT NULL,
    variety VARCHAR,
    washing_method VARCHAR NOT NULL,
    arrival_date DATE NOT NULL,
    weight_kg INTEGER NOT NULL,
    kilo_cost DECIMAL(6,2),
    FOREIGN KEY (farm_id) REFERENCES coffee_farm(farm_id)
);

CREATE TABLE roast_batch (
    batch_no INTEGER PRIMARY KEY,
    lot_code VARCHAR NOT NULL,
    roaster VARCHAR NOT NULL,
    roast_level VARCHAR NOT NULL,
    roasted_on DATE NOT NULL,
    duration_s INTEGER,
    cupping_score DOUBLE,
    FOREIGN KEY (lot_code) REFERENCES green_lot(lot_code)
);

CREATE TABLE wholesale_sale (
    sale_id INTEGER PRIMARY KEY,
    batch_no INTEGER NOT NULL,
    cafe VARCHAR NOT NULL,
    city VARCHAR,
    sold_on DATE NOT NULL,
    bag_count INTEGER NOT NULL,
    total_price DECIMAL(8,2) NOT NULL,
    FOREIGN KEY (batch_no) REFERENCES roast_batch(batch_no)
);
