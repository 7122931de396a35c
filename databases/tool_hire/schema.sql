CREATE TABLE tool (
    tool_code VARCHAR PRIMARY KEY,
    description VARCHAR NOT NULL,
    brand VARCHAR,
    category VARCHAR NOT NULL,
    day_rate DECIMAL(6,2) NOT NULL,
    deposit INTEGER,
    bought_on DATE
);

CREATE TABLE customer (
    customer_id INTEGER PRIMARY KEY,
    customer_name VARCHAR NOT NULL,
    is_trade BOOLEAN NOT NULL,
    town VARCHAR,
    credit_limit INTEGER
);

CREATE TABLE hire (
    hire_id INTEGER PRIMARY KEY,
    tool_code VARCHAR NOT NULL,
    customer_id INTEGER NOT NULL,
    hired_on DATE NOT NULL,
    due_back DATE NOT NULL,
    brought_back DATE,
    damage_charge DECIMAL(7,2),
    FOREIGN KEY (tool_code) REFERENCES tool(tool_code),
    FOREIGN KEY (customer_id) REFERENCES customer(customer_id)
);
