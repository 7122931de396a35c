CREATE TABLE station (
    station_code INTEGER PRIMARY KEY,
    street VARCHAR NOT NULL,
    neighbourhood VARCHAR NOT NULL,
    dock_count INTEGER NOT NULL,
    installed_on DATE,
    elevation_m DOUBLE
);

CREATE TABLE bike (
    bike_tag VARCHAR PRIMARY KEY,
    model VARCHAR NOT NULL,
    frame_colour VARCHAR,
    electric BOOLEAN NOT NULL,
    purchase_cost INTEGER,
    bought_on DATE NOT NULL
);

CREATE TABLE trip (
    trip_id BIGINT PRIMARY KEY,
    bike_tag VARCHAR NOT NULL,
    start_station INTEGER NOT NULL,
    end_station INTEGER,
    started_at TIMESTAMP NOT NULL,
    ride_minutes INTEGER,
    rider_plan VARCHAR NOT NULL,
    FOREIGN KEY (bike_tag) REFERENCES bike(bike_tag),
    FOREIGN KEY (start_station) REFERENCES station(station_code),
    FOREIGN KEY (end_station) REFERENCES station(station_code)
);
