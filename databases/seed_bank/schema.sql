CREATE TABLE plant_species (
    species_code VARCHAR PRIMARY KEY,
    latin_name VARCHAR NOT NULL,
    common_name VARCHAR,
    plant_family VARCHAR,
    threat_level VARCHAR NOT NULL
);

CREATE TABLE accession (
    accession_number INTEGER PRIMARY KEY,
    species_code VARCHAR NOT NULL,
    collected_on DATE NOT NULL,
    source_country VARCHAR,
    altitude_m INTEGER,
    seed_count BIGINT,
    FOREIGN KEY (species_code) REFERENCES plant_species(species_code)
);

CREATE TABLE germination_test (
    test_id INTEGER PRIMARY KEY,
    accession_number INTEGER NOT NULL,
    tested_on DATE NOT NULL,
    seeds_sown INTEGER NOT NULL,
    seeds_sprouted INTEGER,
    chill_days INTEGER NOT NULL,
    medium VARCHAR,
    FOREIGN KEY (accession_number) REFERENCES accession(accession_number)
);
