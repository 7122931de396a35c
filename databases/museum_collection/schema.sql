CREATE TABLE artist (
    artist_id INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    birth_year INTEGER,
    death_year INTEGER,
    nationality VARCHAR
);

CREATE TABLE artwork (
    accession_no VARCHAR PRIMARY KEY,
    title VARCHAR NOT NULL,
    artist_id INTEGER,
    medium VARCHAR,
    year_made INTEGER,
    height_cm DECIMAL(6,1),
    insured_value BIGINT,
    FOREIGN KEY (artist_id) REFERENCES artist(artist_id)
);

CREATE TABLE exhibition (
    exhibition_id INTEGER PRIMARY KEY,
    theme VARCHAR NOT NULL,
    gallery VARCHAR NOT NULL,
    opened_on DATE NOT NULL,
    closed_on DATE,
    visitor_count INTEGER
);

CREATE TABLE display (
    display_id INTEGER PRIMARY KEY,
    exhibition_id INTEGER NOT NULL,
    accession_no VARCHAR NOT NULL,
    wall_position INTEGER,
    lender VARCHAR,
    FOREIGN KEY (exhibition_id) REFERENCES exhibition(exhibition_id),
    FOREIGN KEY (accession_no) REFERENCES artwork(accession_no)
);
