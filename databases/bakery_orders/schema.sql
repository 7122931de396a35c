CREATE TABLE customer (
    customer_no INTEGER PRIMARY KEY,
    full_name VARCHAR NOT NULL,
    postcode VARCHAR,
    loyalty_tier VARCHAR,
    member_since DATE
);

CREATE TABLE baked_good (
    product_code VARCHAR PRIMARY KEY,
    product_label VARCHAR NOT NULL,
    product_family VARCHAR NOT NULL,
    unit_price DECIMAL(5,2) NOT NULL,
    weight_g INTEGER,
    vegan BOOLEAN NOT NULL
);

CREATE TABLE bakery_order (
    order_no INTEGER PRIMARY KEY,
    customer_no INTEGER,
    ordered_on DATE NOT NULL,
    channel VARCHAR NOT NULL,
    tip DECIMAL(5,2),
    FOREIGN KEY (customer_no) REFERENCES customer(customer_no)
);

CREATE TABLE order_line (
    line_id INTEGER PRIMARY KEY,
    order_no INTEGER NOT NULL,
    product_code VARCHAR NOT NULL,
    quantity INTEGER NOT NULL,
    discount_pct INTEGER,
    FOREIGN KEY (order_no) REFERENCES bakery_order(order_no),
    FOREIGN KEY (product_code) REFERENCES baked_good(product_code)
);
