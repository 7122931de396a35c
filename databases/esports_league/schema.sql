CREATE TABLE team (
    team_tag VARCHAR PRIMARY KEY,
    team_name VARCHAR NOT NULL,
    region VARCHAR NOT NULL,
    founded_year INTEGER,
    budget INTEGER
);

CREATE TABLE player (
    handle VARCHAR PRIMARY KEY,
    real_name VARCHAR NOT NULL,
    team_tag VARCHAR,
    play_style VARCHAR NOT NULL,
    birth_date DATE,
    salary INTEGER,
    FOREIGN KEY (team_tag) REFERENCES team(team_tag)
);

CREATE TABLE league_match (
    match_id INTEGER PRIMARY KEY,
    home_tag VARCHAR NOT NULL,
    guest_tag VARCHAR NOT NULL,
    played_on DATE NOT NULL,
    stage VARCHAR NOT NULL,
    home_score INTEGER NOT NULL,
    guest_score INTEGER NOT NULL,
    FOREIGN KEY (home_tag) REFERENCES team(team_tag),
    FOREIGN KEY (guest_tag) REFERENCES team(team_tag)
);

CREATE TABLE match_stat (
    match_id INTEGER NOT NULL,
    handle VARCHAR NOT NULL,
    kills INTEGER NOT NULL,
    deaths INTEGER NOT NULL,
    assists INTEGER,
    PRIMARY KEY (match_id, handle),
    FOREIGN KEY (match_id) REFERENCES league_match(match_id),
    FOREIGN KEY (handle) REFERENCES player(handle)
);

CREATE TABLE sponsorship (
    deal_id INTEGER PRIMARY KEY,
    team_tag VARCHAR NOT NULL,
    sponsor VARCHAR NOT NULL,
    industry VARCHAR NOT NULL,
    yearly_amount INTEGER,
    signed_on DATE NOT NULL,
    FOREIGN KEY (team_tag) REFERENCES team(team_tag)
);
