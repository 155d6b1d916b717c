"""The tables, and their version.

A column has the name of the field that it keeps; what is no number and no text is JSON. A change of
the tables, or of the fields in JSON, increases ``FIRST`` before the first release; from then on it
is a migration.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from workbench.errors import StoreError, StoreNewer

FIRST = 31
"""The version that ``TABLES`` creates. Stores of lower ones are of development versions."""

MIGRATIONS: tuple[str, ...] = ()
"""Statements, separated by semicolons: the one at n turns version FIRST + n into the next one."""

VERSION = FIRST + len(MIGRATIONS)

TABLES = """
CREATE TABLE clusters (
    name TEXT PRIMARY KEY,
    up INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    oversubscribe INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    fleet TEXT NOT NULL,
    resize_at TEXT NOT NULL
);
CREATE TABLE cluster_facts (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    ranks INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    message TEXT NOT NULL,
    supervisor INTEGER NOT NULL,
    connection_file TEXT NOT NULL,
    updated REAL NOT NULL,
    since INTEGER NOT NULL,
    newest INTEGER NOT NULL,
    settled REAL NOT NULL,
    released REAL NOT NULL,
    releases REAL NOT NULL,
    beside TEXT NOT NULL
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
    address TEXT NOT NULL,
    PRIMARY KEY (cluster, generation, rank)
);
CREATE TABLE setups (
    cluster TEXT NOT NULL,
    name TEXT NOT NULL,
    position INTEGER NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (cluster, name)
);

-- A run's wish, up to ``origin``, and its fact. ``label`` is the name that it was given, without
-- the number that made it unique, and ``turn`` its place in the queue.
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL,
    turn INTEGER NOT NULL,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    cluster TEXT NOT NULL,
    path TEXT NOT NULL,
    folder TEXT NOT NULL,
    options TEXT NOT NULL,
    created REAL NOT NULL,
    stop INTEGER NOT NULL,
    setup TEXT NOT NULL,
    replays TEXT NOT NULL,
    origin TEXT NOT NULL,
    state TEXT NOT NULL,
    generation INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    started REAL NOT NULL,
    ended REAL NOT NULL,
    iteration INTEGER NOT NULL,
    iterations_total INTEGER NOT NULL,
    epoch REAL NOT NULL,
    epochs_total REAL NOT NULL,
    failed_rank INTEGER NOT NULL,
    failed_host TEXT NOT NULL,
    error TEXT NOT NULL,
    message TEXT NOT NULL,
    failure TEXT NOT NULL,
    stopped_at INTEGER NOT NULL,
    remark TEXT NOT NULL,
    hang TEXT NOT NULL,
    traceback TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    resumed_at INTEGER NOT NULL,
    resumed REAL NOT NULL,
    ranks_before INTEGER NOT NULL,
    trained_before REAL NOT NULL,
    hindrance TEXT NOT NULL
);
CREATE INDEX runs_by_state ON runs (cluster, state);
CREATE INDEX runs_by_label ON runs (label);

-- What a run was before it was resumed, with the numbers of its newest rows then.
CREATE TABLE attempts (
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    started REAL NOT NULL,
    ended REAL NOT NULL,
    state TEXT NOT NULL,
    message TEXT NOT NULL,
    resumed_at INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    snapshot INTEGER NOT NULL,
    last_point INTEGER NOT NULL,
    is_automatic INTEGER NOT NULL,
    last_output INTEGER NOT NULL,
    left_nodes TEXT NOT NULL,
    failed_at INTEGER NOT NULL,
    failure TEXT NOT NULL,
    error TEXT NOT NULL,
    resumed REAL NOT NULL,
    PRIMARY KEY (run, attempt)
) WITHOUT ROWID;
CREATE TABLE conclusions (
    run TEXT PRIMARY KEY,
    document TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE open_pages (
    run TEXT NOT NULL,
    server TEXT NOT NULL,
    pages INTEGER NOT NULL,
    seen REAL NOT NULL,
    PRIMARY KEY (run, server)
) WITHOUT ROWID;

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
-- The points beyond the snapshot that a later attempt has read, with their numbers.
CREATE TABLE superseded (
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
-- What ranks reported beside their points, with the newest point before it.
CREATE TABLE events (
    run INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    kind TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    point INTEGER NOT NULL,
    time REAL NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (run, sequence)
) WITHOUT ROWID;
CREATE INDEX events_by_kind ON events (run, kind, sequence);
-- The downsampled curves of long runs, up to the point ``last``.
CREATE TABLE saved_curves (
    run INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    points INTEGER NOT NULL,
    document BLOB NOT NULL
);
CREATE TABLE output (
    run INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    stream TEXT NOT NULL,
    time REAL NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, sequence)
) WITHOUT ROWID;
-- A display has the sequence number of its output row, and place 0 is a rank's last clearing.
CREATE TABLE displays (
    run INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    place INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    size INTEGER NOT NULL,
    data TEXT NOT NULL,
    metadata TEXT NOT NULL,
    PRIMARY KEY (run, sequence)
);
CREATE INDEX displays_by_rank ON displays (run, rank, place);
CREATE TABLE deliveries (
    run INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    ending TEXT NOT NULL,
    PRIMARY KEY (run, rank)
) WITHOUT ROWID;

-- A node's cost follows from its prices over time, so that nothing is counted twice.
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
    network REAL NOT NULL,
    flow REAL NOT NULL,
    extra_price REAL NOT NULL,
    traffic REAL NOT NULL,
    reclaimed REAL NOT NULL,
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
    pass_number INTEGER NOT NULL,
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
    spent_before REAL NOT NULL
);

CREATE TABLE surveys (
    run TEXT PRIMARY KEY,
    cluster TEXT NOT NULL,
    time REAL NOT NULL,
    document TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE forecasts (
    number INTEGER PRIMARY KEY,
    cluster TEXT NOT NULL,
    source TEXT NOT NULL,
    predictor TEXT NOT NULL,
    time REAL NOT NULL,
    found TEXT NOT NULL
);
CREATE INDEX forecasts_by_time ON forecasts (cluster, time);

CREATE TABLE sweeps (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    run TEXT NOT NULL,
    spaces TEXT NOT NULL,
    trials INTEGER NOT NULL,
    metric TEXT NOT NULL,
    goal TEXT NOT NULL,
    sampler TEXT NOT NULL,
    pruner TEXT NOT NULL,
    seed INTEGER NOT NULL,
    ranks TEXT NOT NULL,
    wall_clock_limit REAL NOT NULL,
    budget REAL NOT NULL,
    created REAL NOT NULL,
    began REAL NOT NULL,
    base REAL NOT NULL,
    stop INTEGER NOT NULL,
    cluster TEXT NOT NULL,
    over TEXT NOT NULL DEFAULT '',
    has_failed INTEGER NOT NULL DEFAULT 0,
    spent REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE trials (
    sweep TEXT NOT NULL,
    number INTEGER NOT NULL,
    parameters TEXT NOT NULL,
    run TEXT NOT NULL,
    outcome TEXT NOT NULL,
    value TEXT NOT NULL,
    failure TEXT NOT NULL,
    began REAL NOT NULL,
    ended REAL NOT NULL,
    is_pruned INTEGER NOT NULL,
    PRIMARY KEY (sweep, number)
) WITHOUT ROWID;

-- Deleted runs whose rows still exist, by number, which no new run may get.
CREATE TABLE deleted_runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL
);
-- Deleted runs that had snapshots: nodes that are seen later may still have these.
CREATE TABLE removed_snapshots (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    cluster TEXT NOT NULL
);
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
"""


def prepare(
    connection: sqlite3.Connection, path: str, migrations: Sequence[str] = MIGRATIONS
) -> None:
    """Create the tables in a new file, or migrate those of an earlier release, all or none.

    Args:
        migrations: Those from ``FIRST`` on.

    Raises:
        StoreNewer: A newer workbench wrote the file.
        StoreError: A development version wrote it, before the first release.
    """
    newest = FIRST + len(migrations)
    if check_version(connection, path, newest) == newest:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = check_version(connection, path, newest)  # another process may have been faster
        steps = migrations[version - FIRST :] if version else (TABLES, *migrations)
        for statement in ";".join(steps).split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has ended the transaction already
            connection.execute("ROLLBACK")
        raise


def check_version(connection: sqlite3.Connection, path: str, newest: int = VERSION) -> int:
    """Return the file's version, which may have changed since the file was opened; 0 if it is new.

    Raises:
        StoreNewer: A newer workbench wrote it.
        StoreError: A development version wrote it, before the first release.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > newest:
        raise StoreNewer(
            f"The store {path} has version {version}, newer than this workbench's {newest}",
            "upgrade workbench, or set WORKBENCH_HOME to another folder.",
        )
    if 0 < version < FIRST:
        raise StoreError(
            f"The store {path} has version {version}, which a development version of workbench "
            f"wrote before the first release, and this one reads {FIRST} and later",
            "keep its folder, and set WORKBENCH_HOME to a new one.",
        )
    return version
