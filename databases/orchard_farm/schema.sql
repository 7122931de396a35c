CREATE TABLE orchard_block (
    block_code VARCHAR PRIMARY KEY,
    fruit VARCHAR NOT NULL,
    cultivar VARCHAR,
    area_ha DECIMAL(5,2) NOT NULL,
    tree_count INTEGER,
    planted_year INTEGER,
    soil VARCHAR
);

CREATE TABLE picker (
    picker_id INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    home_country VARCHAR,
    hired_on DATE NOT NULL,
    piece_rate DOUBLE
);

CREATE TABLE harvest (
    harvest_id INTEGER PRIMARY KEY,
    block_code VARCHAR NOT NULL,
    picker_id INTEGER,
    picked_on DATE NOT NULL,
    crate_count INTEGER NOT NULL,
    grade VARCHAR,
    FOREIGN KEY (block_code) REFERENCES orchard_block(block_code),
    FOREIGN KEY (picker_id) REFERENCES picker(picker_id)
);
