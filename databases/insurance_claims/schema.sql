CREATE TABLE policyholder (
    holder_id INTEGER PRIMARY KEY,
    holder_name VARCHAR NOT NULL,
    birth_date DATE,
    city VARCHAR NOT NULL,
    occupation VARCHAR
);

CREATE TABLE insurance_contract (
    contract_code VARCHAR PRIMARY KEY,
    holder_id INTEGER NOT NULL,
    product VARCHAR NOT NULL,
    signed_on DATE NOT NULL,
    yearly_premium DECIMAL(8,2) NOT NULL,
    deductible INTEGER,
    FOREIGN KEY (holder_id) REFERENCES policyholder(holder_id)
);

CREATE TABLE adjuster (
    initials VARCHAR PRIMARY KEY,
    adjuster_name VARCHAR NOT NULL,
    office VARCHAR NOT NULL,
    experience_years INTEGER
);

CREATE TABLE claim (
    claim_id INTEGER PRIMARY KEY,
    contract_code VARCHAR NOT NULL,
    adjuster_initials VARCHAR,
    claim_date DATE NOT NULL,
    cause VARCHAR NOT NULL,
    amount_claimed DECIMAL(10,2) NOT NULL,
    amount_paid DECIMAL(10,2),
    FOREIGN KEY (contract_code) REFERENCES insurance_contract(contract_code),
    FOREIGN KEY (adjuster_initials) REFERENCES adjuster(initials)
);
