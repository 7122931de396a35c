"""The tiny SQLite database the dialect cases run on, with every kind of dirt in a few rows."""

from __future__ import annotations

import sqlite3
from pathlib import Path

SCRIPT = """
CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, age INT, band_id INTEGER, born DATE);
INSERT INTO singer VALUES
 (1, 'Joe Sharp', 52, 1, '1970-01-31'), (2, 'Ann', 32, 2, '1990-12-01'), (3, 'Änne', 29, 1, '1993-06-15'),
 (4, 'rose white', 41, NULL, NULL), (5, NULL, NULL, 2, 'not known'), (6, 'Bo', 32, 2, '2000-02-29');
CREATE TABLE band (id INTEGER PRIMARY KEY, title TEXT NOT NULL, city VARCHAR(20));
INSERT INTO band VALUES (1, 'Blue', 'Leeds'), (2, 'Red', 'York'), (3, 'Grey', NULL);
CREATE TABLE show (show_id TEXT, band_id TEXT, seats TEXT, price REAL, rating INTEGER, "group" TEXT);
INSERT INTO show VALUES
 ('a1', '1', '150', 10.5, 5, 'x'), ('a2', '2', '90', 7.25, 'none', 'y'), ('a3', 'x', 'many', NULL, 3, 'x'),
 ('a4', NULL, NULL, 3.0, NULL, NULL), ('a5', '1', '1000', 0.0, 10, 'y');
CREATE TABLE visit (singer_id INTEGER, show_id TEXT, arrived TEXT, seconds INTEGER);
INSERT INTO visit VALUES
 (1, 'a1', '2020-01-31 10:30:00', 90), (2, 'a1', '2020-02-29', 0), (3, 'a2', '2019-12-31 23:59:59', 3600),
 (1, 'a3', 'soon', NULL), (6, 'a5', NULL, 61);
CREATE TABLE place (name TEXT COLLATE NOCASE, size, made INTEGER);
INSERT INTO place VALUES ('Leeds', 3, 1), ('york', 'big', 2), ('York', NULL, 3), ('Bath', 2.5, 4);
"""


def make(path: Path) -> Path:
    """Write the database to `path`."""
    with sqlite3.connect(path) as connection:
        connection.executescript(SCRIPT)
    connection.close()
    return path
