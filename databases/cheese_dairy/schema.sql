CREATE TABLE milk_farm (
    farm_id INTEGER PRIMARY KEY,
    farm_name VARCHAR NOT NULL,
    valley VARCHAR NOT NULL,
    animal VARCHAR NOT NULL,
    contract_since DATE NOT NULL
);

CREATE TABLE milk_delivery (
    delivery_id INTEGER PRIMARY KEY,
    farm_id INTEGER NOT NULL,
    delivered_on DATE NOT NULL,
    litres INTEGER NOT NULL,
    fat_pct DOUBLE,
    rejected BOOLEAN NOT NULL,
    FOREIGN KEY (farm_id) REFERENCES milk_farm(farm_id)
);

CREATE TABLE cheese (
    cheese_code VARCHAR PRIMARY KEY,
    cheese_name VARCHAR NOT NULL,
    milk_animal VARCHAR NOT NULL,
    texture VARCHAR NOT NULL,
    ripening_days INTEGER,
    list_price DECIMAL(6,2) NOT NULL
);

CREATE TABLE cheese_batch (
    batch_no INTEGER PRIMARY KEY,
    cheese_code VARCHAR NOT NULL,
    made_on DATE NOT NULL,
    wheel_count INTEGER NOT NULL,
    milk_used_l INTEGER NOT NULL,
    grade VARCHAR,
    FOREIGN KEY (cheese_code) REFERENCES cheese(cheese_code)
);

CREATE TABLE cheese_sale (
    sale_id INTEGER PRIMARY KEY,
    batch_no INTEGER NOT NULL,
    buyer VARCHAR NOT NULL,
    sold_on DATE NOT NULL,
    weight_kg DECIMAL(7,1) NOT NULL,
    price_per_kg DECIMAL(6,2) NOT NULL,
    FOREIGN KEY (batch_no) REFERENCES cheese_batch(batch_no)
);
