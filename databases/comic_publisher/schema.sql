CREATE TABLE creator (
    creator_id INTEGER PRIMARY KEY,
    pen_name VARCHAR NOT NULL,
    nationality VARCHAR,
    birth_year INTEGER
);

CREATE TABLE comic_series (
    series_code VARCHAR PRIMARY KEY,
    title VARCHAR NOT NULL,
    genre VARCHAR,
    launched_on DATE NOT NULL,
    ended_on DATE,
    age_rating VARCHAR NOT NULL
);

CREATE TABLE comic_issue (
    issue_id INTEGER PRIMARY KEY,
    series_code VARCHAR NOT NULL,
    issue_number INTEGER NOT NULL,
    published_on DATE NOT NULL,
    page_count INTEGER,
    cover_price DECIMAL(5,2) NOT NULL,
    copies_sold INTEGER,
    FOREIGN KEY (series_code) REFERENCES comic_series(series_code)
);

CREATE TABLE credit (
    credit_id INTEGER PRIMARY KEY,
    issue_id INTEGER NOT NULL,
    creator_id INTEGER NOT NULL,
    job VARCHAR NOT NULL,
    fee INTEGER,
    FOREIGN KEY (issue_id) REFERENCES comic_issue(issue_id),
    FOREIGN KEY (creator_id) REFERENCES creator(creator_id)
);
