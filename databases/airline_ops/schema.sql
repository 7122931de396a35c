CREATE TABLE airport (
    iata_code VARCHAR PRIMARY KEY,
    city VARCHAR NOT NULL,
    country VARCHAR NOT NULL,
    runway_count INTEGER,
    elevation_ft INTEGER
);

CREATE TABLE aircraft (
    tail_number VARCHAR PRIMARY KEY,
    model VARCHAR NOT NULL,
    seat_count INTEGER NOT NULL,
    delivered_on DATE,
    range_km INTEGER
);

CREATE TABLE pilot (
    pilot_id INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    seniority VARCHAR NOT NULL,
    home_airport VARCHAR,
    flight_hours INTEGER,
    hired_on DATE NOT NULL,
    FOREIGN KEY (home_airport) REFERENCES airport(iata_code)
);

CREATE TABLE flight (
    flight_id INTEGER PRIMARY KEY,
    origin VARCHAR NOT NULL,
    destination VARCHAR NOT NULL,
    tail_number VARCHAR,
    departs_at TIMESTAMP NOT NULL,
    passenger_count INTEGER,
    delay_min INTEGER,
    FOREIGN KEY (origin) REFERENCES airport(iata_code),
    FOREIGN KEY (destination) REFERENCES airport(iata_code),
    FOREIGN KEY (tail_number) REFERENCES aircraft(tail_number)
);

CREATE TABLE crew_duty (
    duty_id INTEGER PRIMARY KEY,
    flight_id INTEGER NOT NULL,
    pilot_id INTEGER NOT NULL,
    cockpit_seat VARCHAR NOT NULL,
    duty_hours DECIMAL(4,1),
    FOREIGN KEY (flight_id) REFERENCES flight(flight_id),
    FOREIGN KEY (pilot_id) REFERENCES pilot(pilot_id)
);
