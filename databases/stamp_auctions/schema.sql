CREATE TABLE auction_sale (
    sale_code VARCHAR PRIMARY KEY,
    held_on DATE NOT NULL,
    city VARCHAR NOT NULL,
    auctioneer VARCHAR
);

CREATE TABLE collector (
    collector_id INTEGER PRIMARY KEY,
    collector_name VARCHAR NOT NULL,
    country VARCHAR NOT NULL,
    specialty VARCHAR
);

CREATE TABLE stamp_lot (
    lot_no INTEGER PRIMARY KEY,
    sale_code VARCHAR NOT NULL,
    issuing_country VARCHAR NOT NULL,
    issue_year INTEGER,
    grade VARCHAR NOT NULL,
    estimate_usd DECIMAL(10,2) NOT NULL,
    reserve_usd DECIMAL(10,2),
    FOREIGN KEY (sale_code) REFERENCES auction_sale(sale_code)
);

CREATE TABLE bid (
    bid_id INTEGER PRIMARY KEY,
    lot_no INTEGER NOT NULL,
    collector_id INTEGER NOT NULL,
    amount_usd DECIMAL(10,2) NOT NULL,
    online BOOLEAN NOT NULL,
    FOREIGN KEY (lot_no) REFERENCES stamp_lot(lot_no),
    FOREIGN KEY (collector_id) REFERENCES collector(collector_id)
);
