CREATE TABLE pet_owner (
    owner_id INTEGER PRIMARY KEY,
    owner_name VARCHAR NOT NULL,
    suburb VARCHAR,
    phone VARCHAR,
    registered_on DATE NOT NULL
);

CREATE TABLE animal (
    chip_no BIGINT PRIMARY KEY,
    call_name VARCHAR NOT NULL,
    species VARCHAR NOT NULL,
    breed VARCHAR,
    birth_date DATE,
    weight_kg DECIMAL(5,2),
    owner_id INTEGER NOT NULL,
    FOREIGN KEY (owner_id) REFERENCES pet_owner(owner_id)
);

CREATE TABLE visit (
    visit_no INTEGER PRIMARY KEY,
    chip_no BIGINT NOT NULL,
    vet_name VARCHAR NOT NULL,
    visit_date DATE NOT NULL,
    reason VARCHAR NOT NULL,
    bill DECIMAL(8,2),
    FOREIGN KEY (chip_no) REFERENCES animal(chip_no)
);

CREATE TABLE prescription (
    script_id INTEGER PRIMARY KEY,
    visit_no INTEGER NOT NULL,
    drug VARCHAR NOT NULL,
    dose_mg DOUBLE,
    day_count INTEGER NOT NULL,
    FOREIGN KEY (visit_no) REFERENCES visit(visit_no)
);
