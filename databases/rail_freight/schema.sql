CREATE TABLE depot (
    depot_code VARCHAR PRIMARY KEY,
    town VARCHAR NOT NULL,
    region VARCHAR NOT NULL,
    siding_length INTEGER,
    crane BOOLEAN
);

CREATE TABLE locomotive (
    loco_no INTEGER PRIMARY KEY,
    loco_class VARCHAR NOT NULL,
    nickname VARCHAR,
    power_kw INTEGER,
    built_year INTEGER NOT NULL,
    home_depot VARCHAR,
    FOREIGN KEY (home_depot) REFERENCES depot(depot_code)
);

CREATE TABLE freight_run (
    run_id INTEGER PRIMARY KEY,
    loco_no INTEGER NOT NULL,
    from_depot VARCHAR NOT NULL,
    to_depot VARCHAR NOT NULL,
    run_date DATE NOT NULL,
    distance_km INTEGER,
    late_minutes INTEGER,
    FOREIGN KEY (loco_no) REFERENCES locomotive(loco_no),
    FOREIGN KEY (from_depot) REFERENCES depot(depot_code),
    FOREIGN KEY (to_depot) REFERENCES depot(depot_code)
);

CREATE TABLE consignment (
    waybill BIGINT PRIMARY KEY,
    run_id INTEGER NOT NULL,
    shipper VARCHAR NOT NULL,
    cargo VARCHAR,
    wagon_count INTEGER NOT NULL,
    net_tonnes DECIMAL(7,1),
    charge DECIMAL(10,2),
    FOREIGN KEY (run_id) REFERENCES freight_run(run_id)
);
