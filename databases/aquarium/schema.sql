CREATE TABLE tank (
    tank_code VARCHAR PRIMARY KEY,
    hall VARCHAR,
    volume_liters INTEGER NOT NULL,
    water_kind VARCHAR NOT NULL,
    target_temp DOUBLE
);

CREATE TABLE keeper (
    keeper_id INTEGER PRIMARY KEY,
    keeper_name VARCHAR NOT NULL,
    hired_on DATE NOT NULL,
    hourly_wage DECIMAL(6,2) NOT NULL,
    specialty VARCHAR
);

CREATE TABLE animal (
    animal_id INTEGER PRIMARY KEY,
    nickname VARCHAR,
    species VARCHAR NOT NULL,
    tank_code VARCHAR NOT NULL,
    arrived_on DATE NOT NULL,
    weight_kg DOUBLE,
    diet VARCHAR NOT NULL,
    FOREIGN KEY (tank_code) REFERENCES tank(tank_code)
);

CREATE TABLE feeding (
    feeding_id INTEGER PRIMARY KEY,
    animal_id INTEGER NOT NULL,
    keeper_id INTEGER NOT NULL,
    fed_at TIMESTAMP NOT NULL,
    food VARCHAR,
    grams INTEGER,
    FOREIGN KEY (animal_id) REFERENCES animal(animal_id),
    FOREIGN KEY (keeper_id) REFERENCES keeper(keeper_id)
);
