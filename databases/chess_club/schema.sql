CREATE TABLE club_member (
    member_no INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    rating INTEGER,
    birth_year INTEGER,
    joined_on DATE NOT NULL,
    membership VARCHAR NOT NULL
);

CREATE TABLE tournament (
    event_code VARCHAR PRIMARY KEY,
    event_title VARCHAR NOT NULL,
    time_control VARCHAR NOT NULL,
    start_date DATE NOT NULL,
    entry_fee DECIMAL(5,2),
    round_count INTEGER NOT NULL
);

CREATE TABLE chess_game (
    game_id INTEGER PRIMARY KEY,
    event_code VARCHAR,
    white_player INTEGER NOT NULL,
    black_player INTEGER NOT NULL,
    opening VARCHAR,
    outcome VARCHAR NOT NULL,
    move_count INTEGER,
    FOREIGN KEY (event_code) REFERENCES tournament(event_code),
    FOREIGN KEY (white_player) REFERENCES club_member(member_no),
    FOREIGN KEY (black_player) REFERENCES club_member(member_no)
);
