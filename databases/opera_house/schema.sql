CREATE TABLE composer (
    composer_id INTEGER PRIMARY KEY,
    given_name VARCHAR NOT NULL,
    surname VARCHAR NOT NULL,
    nationality VARCHAR NOT NULL,
    birth_year INTEGER
);

CREATE TABLE opera (
    opera_id INTEGER PRIMARY KEY,
    composer_id INTEGER NOT NULL,
    title VARCHAR NOT NULL,
    sung_language VARCHAR NOT NULL,
    premiere_year INTEGER NOT NULL,
    act_count INTEGER,
    FOREIGN KEY (composer_id) REFERENCES composer(composer_id)
);

CREATE TABLE production (
    production_id INTEGER PRIMARY KEY,
    opera_id INTEGER NOT NULL,
    director VARCHAR NOT NULL,
    opening_date DATE NOT NULL,
    budget_eur BIGINT,
    is_revival BOOLEAN NOT NULL,
    FOREIGN KEY (opera_id) REFERENCES opera(opera_id)
);

CREATE TABLE performance (
    performance_id INTEGER PRIMARY KEY,
    production_id INTEGER NOT NULL,
    curtain_time TIMESTAMP NOT NULL,
    seats_sold INTEGER NOT NULL,
    top_price DECIMAL(7,2) NOT NULL,
    conductor VARCHAR,
    FOREIGN KEY (production_id) REFERENCES production(production_id)
);
