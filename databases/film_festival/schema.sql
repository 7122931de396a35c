CREATE TABLE film (
    film_id INTEGER PRIMARY KEY,
    title VARCHAR NOT NULL,
    director VARCHAR NOT NULL,
    country VARCHAR,
    runtime_min INTEGER,
    release_year INTEGER NOT NULL,
    budget BIGINT
);

CREATE TABLE venue (
    venue_code VARCHAR PRIMARY KEY,
    venue_name VARCHAR NOT NULL,
    seat_count INTEGER NOT NULL,
    opened_year INTEGER
);

CREATE TABLE screening (
    screening_no INTEGER PRIMARY KEY,
    film_id INTEGER NOT NULL,
    venue_code VARCHAR NOT NULL,
    starts_at TIMESTAMP NOT NULL,
    ticket_price DECIMAL(5,2),
    tickets_sold INTEGER,
    FOREIGN KEY (film_id) REFERENCES film(film_id),
    FOREIGN KEY (venue_code) REFERENCES venue(venue_code)
);

CREATE TABLE nomination (
    nomination_id INTEGER PRIMARY KEY,
    film_id INTEGER NOT NULL,
    award VARCHAR NOT NULL,
    festival_year INTEGER NOT NULL,
    jury_score DOUBLE,
    won BOOLEAN NOT NULL,
    FOREIGN KEY (film_id) REFERENCES film(film_id)
);
