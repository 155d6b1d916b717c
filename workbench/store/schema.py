"""The tables, their version, and the migrations of older files."""

from __future__ import annotations

import sqlite3

from workbench.errors import StoreNewer

VERSION = 24

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

# A node's cost follows from its prices over time, so that nothing is counted twice.
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

# A display has the sequence number of its output row; place 0 is a rank's last clearing.
_DISPLAYS = """
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
"""

# Deleted runs whose rows still exist, by number; no new run may get these numbers.
_RETENTION = """
CREATE TABLE doomed (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL
);
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
"""

# The fields of a run's message, so that no program has to parse the sentence.
_ENDINGS = """
ALTER TABLE runs ADD COLUMN failure TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN stopped_at INTEGER NOT NULL DEFAULT -1;
ALTER TABLE runs ADD COLUMN remark TEXT NOT NULL DEFAULT '';
"""

# The conclusion of each ended run, computed once, so that all views show the same one.
_CONCLUSIONS = """
CREATE TABLE conclusions (
    run TEXT PRIMARY KEY,
    document TEXT NOT NULL
) WITHOUT ROWID;
"""

# Which rank waits for which, and the frames that the shown traceback leaves out.
_HANGS = """
ALTER TABLE runs ADD COLUMN hang TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN traceback TEXT NOT NULL DEFAULT '';
"""

# The sustained rate of a node's network, and of one connection on it; 0 if unknown.
_NETWORKS = """
ALTER TABLE nodes ADD COLUMN network REAL NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN flow REAL NOT NULL DEFAULT 0;
"""

# What is billed beside each machine. Before, that was a disk of 50 GiB with any image.
_BESIDE = """
ALTER TABLE nodes ADD COLUMN beside REAL NOT NULL DEFAULT 0;
UPDATE nodes SET beside = 50 * 0.08 / 730 WHERE cluster IN
    (SELECT name FROM clusters WHERE fleet LIKE '%"place": "ec2"%')
"""

# $ of a node's ``spent`` for its traffic, which was not counted before.
_TRAFFIC = "ALTER TABLE nodes ADD COLUMN traffic REAL NOT NULL DEFAULT 0"

# The name of a set-up cell, which was a part of the names of its runs.
_SETUPS = """
ALTER TABLE runs ADD COLUMN setup TEXT NOT NULL DEFAULT '';
UPDATE runs SET setup = CASE
    WHEN name LIKE 'set-up %' THEN substr(name, 8)
    WHEN instr(name, ' in generation ') THEN substr(name, 1, instr(name, ' in generation ') - 1)
    ELSE name END
WHERE kind = 'setup';
"""

# The codec of an exchange was an index into a list; now each codec has its own metric.
_CODEC = """'exchange/codec ' || CASE value WHEN 0 THEN 'none' WHEN 1 THEN 'fp16'
    WHEN 2 THEN 'bf16' WHEN 3 THEN 'int8' WHEN 4 THEN 'topk' ELSE 'powersgd' END"""
_PLACE = "(SELECT number FROM metrics WHERE name = 'exchange/codec')"
_TO_MARKS = f"""SET metric = (SELECT number FROM metrics WHERE name = {_CODEC}), value = 1
WHERE metric = {_PLACE} AND value IN (0, 1, 2, 3, 4, 5)"""
_CODECS = f"""
INSERT INTO metrics (name) SELECT {_CODEC} FROM (SELECT 0 AS value UNION SELECT 1 UNION SELECT 2
    UNION SELECT 3 UNION SELECT 4 UNION SELECT 5) WHERE {_PLACE} IS NOT NULL;
UPDATE points {_TO_MARKS} AND run IN (SELECT run FROM latest WHERE metric = {_PLACE});
UPDATE latest {_TO_MARKS};
DELETE FROM metrics WHERE name = 'exchange/codec';
"""

# The library and the algorithm of an exchange were one text, such as 'workbench: ring'.
_WAYS = """
UPDATE surveys SET document = json_set(document, '$.survey.exchanges', (
    SELECT json_group_array(json(CASE WHEN text IS NULL THEN value ELSE json_remove(
        json_set(value,
            '$.way', substr(text, 1, instr(text || ': ', ': ') - 1),
            '$.choice', substr(text, instr(text || ': ', ': ') + 2)),
        '$.algorithm') END))
    FROM (SELECT value, json_extract(value, '$.algorithm') AS text
        FROM json_each(document, '$.survey.exchanges'))))
WHERE json_valid(document) AND document LIKE '%"algorithm":%'
"""

# Keys of a stored wish take the names of the options. A quote in a text is escaped by a
# backslash, so a key is found nowhere else.
_OPTION_NAMES = """
UPDATE clusters SET fleet = replace(replace(replace(replace(fleet,
    '"place": ', '"provider": '), '"least": ', '"min_nodes": '), '"most": ', '"max_nodes": '),
    '"most_price": ', '"max_price": ');
UPDATE purchases SET purchase = replace(replace(purchase,
    '"least": ', '"min_nodes": '), '"most_price": ', '"max_price": ')
"""

# A run that is resumed keeps its row; what it was before is an attempt. ``turn`` is its place in
# the queue, ``last_point`` the newest of its points when the attempt ended. The points beyond the
# snapshot that the next attempt has read are kept, with their numbers.
_ATTEMPTS = """
ALTER TABLE runs ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN resumed_at INTEGER NOT NULL DEFAULT -1;
ALTER TABLE runs ADD COLUMN resumed REAL NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET turn = number;
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
    PRIMARY KEY (run, attempt)
) WITHOUT ROWID;
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
"""

# The output of each attempt ends at a row, and a run's line says how many ranks it had before.
_CONTINUATIONS = """
ALTER TABLE attempts ADD COLUMN last_output INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN ranks_before INTEGER NOT NULL DEFAULT 0
"""

# Tables, columns, keys and metrics take the names that the code uses.
_PLAIN_NAMES = """
UPDATE OR IGNORE metrics SET name = 'gradient_noise/' || substr(name, 7) WHERE name IN
    ('gauge/signal', 'gauge/noise', 'gauge/steps');
UPDATE purchases SET purchase = replace(purchase, '"rung": ', '"number": ');
ALTER TABLE purchases RENAME COLUMN climb TO pass_number;
ALTER TABLE forecasts RENAME COLUMN teller TO predictor;
ALTER TABLE forecasts RENAME COLUMN told TO predicted_at;
ALTER TABLE nodes RENAME COLUMN beside TO extra_price;
ALTER TABLE attendance RENAME TO open_pages;
ALTER TABLE doomed RENAME TO deleted_runs
"""

# When the provider takes a node back, and the nodes that an attempt left for that.
_RECLAIMED = """
ALTER TABLE nodes ADD COLUMN reclaimed REAL NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN left_nodes TEXT NOT NULL DEFAULT ''
"""

# Deleted runs that had snapshots: nodes that are seen later may still have these.
_REMOVED_SNAPSHOTS = """
CREATE TABLE removed_snapshots (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    cluster TEXT NOT NULL
);
"""

# What a run repeats on new ranks, and since when a cluster has what its cells left.
_REPLAYS = """
ALTER TABLE runs ADD COLUMN replays TEXT NOT NULL DEFAULT '';
ALTER TABLE cluster_facts ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
"""

# The downsampled curves of long runs, up to the point ``last``.
_SAVED_CURVES = """
CREATE TABLE saved_curves (
    run INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    points INTEGER NOT NULL,
    document BLOB NOT NULL
);
"""

# When a run that trains moves to the ranks of another size.
_RESIZE_TIMES = "ALTER TABLE clusters ADD COLUMN resize_at TEXT NOT NULL DEFAULT 'step'"

# How often a run is tried again, what failed, how long its attempts took, and what would keep it
# from moving.
_RETRIES = """
ALTER TABLE runs ADD COLUMN retries INTEGER NOT NULL DEFAULT 3;
ALTER TABLE runs ADD COLUMN trained_before REAL NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN hindrance TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN failed_at INTEGER NOT NULL DEFAULT -1;
ALTER TABLE attempts ADD COLUMN failure TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN error TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN resumed REAL NOT NULL DEFAULT 0
"""

# The number of the newest generation that was begun, which is not given again.
_NEWEST = """
ALTER TABLE cluster_facts ADD COLUMN newest INTEGER NOT NULL DEFAULT 0;
UPDATE cluster_facts SET newest = generation
"""

# The name that a run was given, without the number that made it unique; and where it was requested.
_ORIGINS = """
ALTER TABLE runs ADD COLUMN label TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN origin TEXT NOT NULL DEFAULT '{}';
UPDATE runs SET label = CASE
    WHEN name GLOB '* [0-9]*' AND rtrim(name, '0123456789') GLOB '* '
        AND rtrim(rtrim(name, '0123456789'), ' ') IN (SELECT name FROM runs)
    THEN rtrim(rtrim(name, '0123456789'), ' ') ELSE name END;
CREATE INDEX runs_by_label ON runs (label)
"""

# Events of ranks, each after a point; ``iteration`` is 0 where an event has none.
_EVENTS = """
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
CREATE INDEX events_by_kind ON events (run, kind, sequence)
"""

# MIGRATIONS[n] turns version n into version n + 1, inside one transaction.
MIGRATIONS: dict[int, str] = {
    0: _TABLES,
    1: _ATTENDANCE,
    2: _FLEETS,
    3: _SURVEYS + _FORECASTS,
    4: _DISPLAYS + _RETENTION + _ENDINGS,
    5: _CONCLUSIONS,
    6: _HANGS,
    7: _NETWORKS,
    8: _BESIDE,
    9: _TRAFFIC,
    10: _SETUPS + _CODECS + _WAYS,
    11: _OPTION_NAMES,
    12: _ATTEMPTS,
    13: _CONTINUATIONS,
    14: _PLAIN_NAMES,
    15: _RECLAIMED,
    16: _REMOVED_SNAPSHOTS,
    17: _REPLAYS,
    18: _SAVED_CURVES,
    19: _RESIZE_TIMES,
    20: _RETRIES,
    21: _NEWEST,
    22: _ORIGINS,
    23: _EVENTS,
}


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Migrate the file behind ``connection`` to ``VERSION``.

    Raises:
        StoreNewer: A newer workbench wrote the file.
    """
    if check_version(connection, path) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(check_version(connection, path), VERSION):
            for statement in MIGRATIONS[version].split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has ended the transaction already
            connection.execute("ROLLBACK")
        raise


def check_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the file's version, which may have changed since the file was opened.

    Raises:
        StoreNewer: A newer workbench wrote it.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise StoreNewer(
            f"The store {path} has version {version}, newer than this workbench's {VERSION}",
            "upgrade workbench, or set WORKBENCH_HOME to another folder.",
        )
    return version
