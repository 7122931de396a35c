CREATE TABLE port (
    port_code VARCHAR PRIMARY KEY,
    port_name VARCHAR NOT NULL,
    country VARCHAR NOT NULL,
    berth_count INTEGER,
    harbor_depth VARCHAR
);

CREATE TABLE ship (
    imo_number BIGINT PRIMARY KEY,
    ship_name VARCHAR NOT NULL,
    built_year INTEGER NOT NULL,
    passenger_capacity INTEGER NOT NULL,
    car_capacity INTEGER,
    cruising_speed DOUBLE
);

CREATE TABLE ferry_route (
    route_id INTEGER PRIMARY KEY,
    origin_port VARCHAR NOT NULL,
    destination_port VARCHAR NOT NULL,
    distance_miles INTEGER NOT NULL,
    planned_minutes INTEGER,
    FOREIGN KEY (origin_port) REFERENCES port(port_code),
    FOREIGN KEY (destination_port) REFERENCES port(port_code)
);

CREATE TABLE sailing (
    sailing_id INTEGER PRIMARY KEY,
    route_id INTEGER NOT NULL,
    imo_number BIGINT NOT NULL,
    departed_at TIMESTAMP NOT NULL,
    passengers INTEGER,
    vehicles INTEGER,
    delay_minutes INTEGER,
    FOREIGN KEY (route_id) REFERENCES ferry_route(route_id),
    FOREIGN KEY (imo_number) REFERENCES ship(imo_number)
);
