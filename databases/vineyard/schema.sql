CREATE TABLE grape_variety (
    variety VARCHAR PRIMARY KEY,
    berry_color VARCHAR NOT NULL,
    origin_country VARCHAR NOT NULL,
    ripening VARCHAR
);

CREATE TABLE parcel (
    parcel_id INTEGER PRIMARY KEY,
    variety VARCHAR NOT NULL,
    parcel_name VARCHAR NOT NULL,
    hectares DOUBLE,
    planted_year INTEGER NOT NULL,
    soil VARCHAR,
    FOREIGN KEY (variety) REFERENCES grape_variety(variety)
);

CREATE TABLE harvest (
    harvest_id INTEGER PRIMARY KEY,
    parcel_id INTEGER NOT NULL,
    picked_on DATE NOT NULL,
    kilograms INTEGER NOT NULL,
    sugar_brix DOUBLE,
    picker_count INTEGER NOT NULL,
    FOREIGN KEY (parcel_id) REFERENCES parcel(parcel_id)
);

CREATE TABLE wine (
    wine_id INTEGER PRIMARY KEY,
    wine_label VARCHAR NOT NULL,
    variety VARCHAR NOT NULL,
    vintage INTEGER NOT NULL,
    bottle_price DECIMAL(6,2) NOT NULL,
    bottles_made INTEGER NOT NULL,
    alcohol DOUBLE,
    FOREIGN KEY (variety) REFERENCES grape_variety(variety)
);
