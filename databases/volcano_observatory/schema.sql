CREATE TABLE volcano (
    volcano_id INTEGER PRIMARY KEY,
    volcano_name VARCHAR NOT NULL,
    country VARCHAR NOT NULL,
    summit_m INTEGER,
    volcano_shape VARCHAR NOT NULL
);

CREATE TABLE eruption (
    eruption_id INTEGER PRIMARY KEY,
    volcano_id INTEGER NOT NULL,
    began_on DATE NOT NULL,
    ended_on DATE,
    explosivity INTEGER,
    plume_km DOUBLE,
    FOREIGN KEY (volcano_id) REFERENCES volcano(volcano_id)
);

CREATE TABLE seismic_station (
    station_code VARCHAR PRIMARY KEY,
    volcano_id INTEGER NOT NULL,
    installed_on DATE NOT NULL,
    distance_km DOUBLE NOT NULL,
    operating BOOLEAN NOT NULL,
    FOREIGN KEY (volcano_id) REFERENCES volcano(volcano_id)
);

CREATE TABLE tremor (
    tremor_id INTEGER PRIMARY KEY,
    station_code VARCHAR NOT NULL,
    recorded_at TIMESTAMP NOT NULL,
    magnitude DOUBLE NOT NULL,
    depth_km DOUBLE,
    signal_kind VARCHAR,
    FOREIGN KEY (station_code) REFERENCES seismic_station(station_code)
);
