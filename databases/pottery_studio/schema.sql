CREATE TABLE member (
    member_id INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    joined_on DATE NOT NULL,
    membership VARCHAR NOT NULL,
    monthly_fee INTEGER,
    storage_place VARCHAR
);

CREATE TABLE piece (
    piece_id INTEGER PRIMARY KEY,
    member_id INTEGER NOT NULL,
    form VARCHAR NOT NULL,
    glaze VARCHAR,
    made_on DATE NOT NULL,
    weight_grams INTEGER,
    outcome VARCHAR,
    FOREIGN KEY (member_id) REFERENCES member(member_id)
);
