CREATE TABLE wind_farm (
    farm_code VARCHAR PRIMARY KEY,
    farm_name VARCHAR NOT NULL,
    region VARCHAR NOT NULL,
    opened_on DATE,
    site_area DOUBLE,
    is_offshore BOOLEAN NOT NULL
);

CREATE TABLE turbine (
    turbine_id INTEGER PRIMARY KEY,
    farm_code VARCHAR NOT NULL,
    maker VARCHAR NOT NULL,
    rated_power INTEGER NOT NULL,
    hub_height DOUBLE,
    rotor_diameter INTEGER NOT NULL,
    FOREIGN KEY (farm_code) REFERENCES wind_farm(farm_code)
);

CREATE TABLE service_visit (
    visit_id INTEGER PRIMARY KEY,
    turbine_id INTEGER NOT NULL,
    visit_date DATE NOT NULL,
    work_kind VARCHAR NOT NULL,
    hours_stopped DOUBLE,
    visit_cost DECIMAL(10,2),
    contractor VARCHAR NOT NULL,
    FOREIGN KEY (turbine_id) REFERENCES turbine(turbine_id)
);
