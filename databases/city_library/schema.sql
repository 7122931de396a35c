CREATE TABLE branch (
    branch_code VARCHAR PRIMARY KEY,
    branch_name VARCHAR NOT NULL,
    district VARCHAR NOT NULL,
    opened_on DATE,
    floor_area INTEGER
);

CREATE TABLE author (
    author_id INTEGER PRIMARY KEY,
    pen_name VARCHAR NOT NULL,
    birth_year INTEGER,
    country VARCHAR
);

CREATE TABLE book (
    isbn BIGINT PRIMARY KEY,
    title VARCHAR NOT NULL,
    author_id INTEGER,
    genre VARCHAR NOT NULL,
    page_count INTEGER,
    publish_year INTEGER NOT NULL,
    FOREIGN KEY (author_id) REFERENCES author(author_id)
);

CREATE TABLE reader (
    card_no INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    age_group VARCHAR NOT NULL,
    joined_on DATE NOT NULL,
    home_branch VARCHAR,
    FOREIGN KEY (home_branch) REFERENCES branch(branch_code)
);

CREATE TABLE loan (
    loan_id INTEGER PRIMARY KEY,
    isbn BIGINT NOT NULL,
    card_no INTEGER NOT NULL,
    borrowed_on DATE NOT NULL,
    returned_on DATE,
    late_fee DECIMAL(6,2),
    renewal_count INTEGER NOT NULL,
    FOREIGN KEY (isbn) REFERENCES book(isbn),
    FOREIGN KEY (card_no) REFERENCES reader(card_no)
);
