"""The tables, their version, and how an older file becomes a newer one."""

from __future__ import annotations

import sqlite3

from workbench.errors import StoreError

VERSION = 4

_TABLES = """
CREATE TABLE clusters (
    name TEXT PRIMARY KEY,
    up INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    oversubscribe INTEGER NOT NULL,
    revision INTEGER NOT NULL
);
CREATE TABLE cluster_facts (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    ranks INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    message TEXT NOT NULL,
    supervisor INTEGER NOT NULL,
    connection_file TEXT NOT NULL,
    updated REAL NOT NULL
);
CREATE TABLE ranks (
    cluster TEXT NOT NULL,
    generation INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    engine INTEGER NOT NULL,
    python TEXT NOT NULL,
    mpi TEXT NOT NULL,
    blas_threads INTEGER NOT NULL,
    versions TEXT NOT NULL,
    PRIMARY KEY (cluster, generation, rank)
);
CREATE TABLE setups (
    cluster TEXT NOT NULL,
    name TEXT NOT NULL,
    position INTEGER NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (cluster, name)
);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    cluster TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    path TEXT NOT NULL,
    folder TEXT NOT NULL,
    arguments TEXT NOT NULL,
    parameters TEXT NOT NULL,
    environment TEXT NOT NULL,
    wished_ranks INTEGER NOT NULL,
    grace REAL NOT NULL,
    wall_clock_limit REAL NOT NULL,
    created REAL NOT NULL,
    stop INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'queued',
    generation INTEGER NOT NULL DEFAULT 0,
    ranks INTEGER NOT NULL DEFAULT 0,
    started REAL NOT NULL DEFAULT 0,
    ended REAL NOT NULL DEFAULT 0,
    iteration INTEGER NOT NULL DEFAULT 0,
    iterations_total INTEGER NOT NULL DEFAULT 0,
    epoch REAL NOT NULL DEFAULT 0,
    epochs_total REAL NOT NULL DEFAULT 0,
    failed_rank INTEGER NOT NULL DEFAULT -1,
    failed_host TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    message TEXT NOT NULL DEFAULT ''
);
CREATE INDEX runs_by_state ON runs (cluster, state);
CREATE TABLE metrics (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE points (
    run INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    time REAL NOT NULL,
    metric INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY (run, sequence)
) WITHOUT ROWID;
CREATE TABLE latest (
    run INTEGER NOT NULL,
    metric INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY (run, metric, rank)
) WITHOUT ROWID;
CREATE TABLE output (
    run INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    stream TEXT NOT NULL,
    time REAL NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, sequence)
) WITHOUT ROWID;
CREATE TABLE deliveries (
    run INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    ending TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run, rank)
) WITHOUT ROWID;
"""

_ATTENDANCE = """
CREATE TABLE attendance (
    run TEXT NOT NULL,
    server TEXT NOT NULL,
    pages INTEGER NOT NULL,
    seen REAL NOT NULL,
    PRIMARY KEY (run, server)
) WITHOUT ROWID;
"""

# A node's money follows from its prices over time, so that none of it is added up twice.
_FLEETS = """
ALTER TABLE clusters ADD COLUMN fleet TEXT NOT NULL DEFAULT '';
ALTER TABLE ranks ADD COLUMN address TEXT NOT NULL DEFAULT 'localhost';
CREATE TABLE nodes (
    cluster TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    address TEXT NOT NULL,
    slots INTEGER NOT NULL,
    type TEXT NOT NULL,
    zone TEXT NOT NULL,
    price REAL NOT NULL,
    spent REAL NOT NULL,
    launched REAL NOT NULL,
    ended REAL NOT NULL,
    head INTEGER NOT NULL,
    message TEXT NOT NULL,
    since REAL NOT NULL,
    failed INTEGER NOT NULL,
    PRIMARY KEY (cluster, id)
) WITHOUT ROWID;
CREATE TABLE prices (
    cluster TEXT NOT NULL,
    node TEXT NOT NULL,
    since REAL NOT NULL,
    price REAL NOT NULL,
    PRIMARY KEY (cluster, node, since)
) WITHOUT ROWID;
CREATE TABLE purchases (
    number INTEGER PRIMARY KEY,
    cluster TEXT NOT NULL,
    token TEXT NOT NULL,
    purchase TEXT NOT NULL,
    climb INTEGER NOT NULL,
    at REAL NOT NULL,
    outcome TEXT NOT NULL,
    tries INTEGER NOT NULL,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    user_data TEXT NOT NULL,
    tags TEXT NOT NULL,
    UNIQUE (cluster, token)
);
CREATE TABLE accounts (
    cluster TEXT PRIMARY KEY,
    founded REAL NOT NULL,
    revision INTEGER NOT NULL,
    asked REAL NOT NULL,
    spent REAL NOT NULL
);
"""

_SURVEYS = """
CREATE TABLE surveys (
    run TEXT PRIMARY KEY,
    cluster TEXT NOT NULL,
    time REAL NOT NULL,
    document TEXT NOT NULL
) WITHOUT ROWID;
"""

_FORECASTS = """
CREATE TABLE forecasts (
    number INTEGER PRIMARY KEY,
    cluster TEXT NOT NULL,
    source TEXT NOT NULL,
    teller TEXT NOT NULL,
    document TEXT NOT NULL,
    told REAL NOT NULL
);
CREATE INDEX forecasts_by_time ON forecasts (cluster, told);
"""

# MIGRATIONS[n] turns version n into version n + 1, inside one transaction.
MIGRATIONS: dict[int, str] = {0: _TABLES, 1: _ATTENDANCE, 2: _FLEETS, 3: _SURVEYS + _FORECASTS}


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the file behind ``connection`` to ``VERSION``.

    Raises:
        StoreError: A newer workbench wrote the file.
    """
    if _version(connection, path) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(_version(connection, path), VERSION):
            for statement in MIGRATIONS[version].split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection, path: str) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise StoreError(
            f"The store {path} has version {version}, newer than this workbench's {VERSION}; "
            "upgrade workbench, or set WORKBENCH_HOME to another folder."
        )
    return version
