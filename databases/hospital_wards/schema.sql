CREATE TABLE ward (
    ward_code VARCHAR PRIMARY KEY,
    ward_name VARCHAR NOT NULL,
    floor_number INTEGER NOT NULL,
    bed_count INTEGER,
    specialty VARCHAR NOT NULL
);

CREATE TABLE nurse (
    badge VARCHAR PRIMARY KEY,
    nurse_name VARCHAR NOT NULL,
    ward_code VARCHAR NOT NULL,
    hired_on DATE NOT NULL,
    grade VARCHAR NOT NULL,
    weekly_hours DOUBLE,
    FOREIGN KEY (ward_code) REFERENCES ward(ward_code)
);

CREATE TABLE patient (
    patient_id INTEGER PRIMARY KEY,
    patient_name VARCHAR NOT NULL,
    birth_date DATE,
    blood_group VARCHAR,
    home_town VARCHAR NOT NULL,
    insurance VARCHAR NOT NULL
);

CREATE TABLE admission (
    admission_id INTEGER PRIMARY KEY,
    patient_id INTEGER NOT NULL,
    ward_code VARCHAR NOT NULL,
    admitted_at TIMESTAMP NOT NULL,
    discharged_on DATE,
    reason VARCHAR,
    arrival_kind VARCHAR NOT NULL,
    FOREIGN KEY (patient_id) REFERENCES patient(patient_id),
    FOREIGN KEY (ward_code) REFERENCES ward(ward_code)
);

CREATE TABLE vital_reading (
    reading_id INTEGER PRIMARY KEY,
    admission_id INTEGER NOT NULL,
    taken_at TIMESTAMP NOT NULL,
    heart_rate INTEGER,
    body_temperature DOUBLE,
    oxygen_saturation INTEGER,
    FOREIGN KEY (admission_id) REFERENCES admission(admission_id)
);
