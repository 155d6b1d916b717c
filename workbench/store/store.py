"""Read and write wishes, facts, points and output in one SQLite file.

Several processes write. Each write is one short ``BEGIN IMMEDIATE`` transaction that waits up to
``BUSY_SECONDS`` for its turn; readers never wait, the journal is a write-ahead log.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from workbench.core.cluster import ClusterFact, ClusterState, ClusterWish, RankFact
from workbench.core.report import Batch, Chunk, Sample
from workbench.core.run import ENDED, Run, RunFact, RunKind, RunState, RunWish
from workbench.errors import StateError, StoreError
from workbench.store.home import home_directory
from workbench.store.schema import migrate

BUSY_SECONDS = 10.0
FILE_NAME = "store.sqlite3"

_ENDED = tuple(sorted(ENDED))
_FACT_COLUMNS = tuple(RunFact.__dataclass_fields__)


class PointRow(NamedTuple):
    """A reported value as the store holds it; follow by ``sequence``. ``nan`` for no number."""

    sequence: int
    rank: int
    iteration: int
    time: float
    name: str
    value: float


class OutputRow(NamedTuple):
    """A piece of a rank's output as the store holds it; follow by ``sequence``."""

    sequence: int
    rank: int
    stream: str
    time: float
    text: str


class Store:
    """One process's connection to the store.

    A store may be used by several threads of one process; each gets a connection of its own.

    Args:
        path: The SQLite file; by default the one in ``home_directory()``.

    Raises:
        StoreError: The file cannot be opened, or a newer workbench wrote it.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else home_directory() / FILE_NAME
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._metrics: dict[str, int] = {}
        self._metric_names: dict[int, str] = {}
        with _explained(self.path):
            migrate(self._connection, str(self.path))

    def __repr__(self) -> str:
        return f"<Store {self.path}>"

    def close(self) -> None:
        """Close this process's connections."""
        while self._open:
            self._open.pop().close()
        self._local = threading.local()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- clusters

    def wish_cluster(
        self, name: str, *, up: bool, ranks: int, oversubscribe: bool = False
    ) -> ClusterWish:
        """Write what is wanted of cluster ``name``; the later wish stands."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO clusters VALUES (?, ?, ?, ?, 1) ON CONFLICT (name) DO UPDATE SET "
                "up = excluded.up, ranks = excluded.ranks, "
                "oversubscribe = excluded.oversubscribe, revision = revision + 1",
                (name, up, ranks, oversubscribe),
            )
        wish = self.cluster_wish(name)
        assert wish is not None
        return wish

    def cluster_wish(self, name: str) -> ClusterWish | None:
        """Return the standing wish, or None when nobody ever asked."""
        row = self._one("SELECT * FROM clusters WHERE name = ?", (name,))
        if row is None:
            return None
        return ClusterWish(row[0], bool(row[1]), row[2], bool(row[3]), row[4])

    def cluster_fact(self, name: str) -> ClusterFact:
        """Return what was last seen of the cluster (down, when nothing was)."""
        row = self._one("SELECT * FROM cluster_facts WHERE name = ?", (name,))
        if row is None:
            return ClusterFact(name)
        return ClusterFact(row[0], ClusterState(row[1]), *row[2:])

    def clusters(self) -> list[ClusterWish]:
        """Return the standing wishes of all clusters, by name."""
        names = self._all("SELECT name FROM clusters ORDER BY name")
        return [wish for (name,) in names if (wish := self.cluster_wish(name))]

    def put_cluster_fact(self, fact: ClusterFact) -> None:
        """Write what was seen of a cluster."""
        values = tuple(asdict(fact).values())
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO cluster_facts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values
            )

    def put_ranks(self, cluster: str, ranks: Sequence[RankFact]) -> None:
        """Write the ranks of one generation, and forget those of all but the last two."""
        rows = [
            (cluster, *list(asdict(rank).values())[:-1], json.dumps(rank.versions))
            for rank in ranks
        ]
        newest = max(rank.generation for rank in ranks)
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO ranks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )
            connection.execute(
                "DELETE FROM ranks WHERE cluster = ? AND generation < ?", (cluster, newest - 1)
            )

    def ranks(self, cluster: str, generation: int) -> list[RankFact]:
        """Return the ranks of one generation, in rank order."""
        rows = self._all(
            "SELECT generation, rank, host, pid, engine, python, mpi, blas_threads, versions "
            "FROM ranks WHERE cluster = ? AND generation = ? ORDER BY rank",
            (cluster, generation),
        )
        return [
            RankFact(*row[:-1], versions=tuple((n, v) for n, v in json.loads(row[-1])))
            for row in rows
        ]

    def put_setup(self, cluster: str, name: str, source: str) -> None:
        """Keep a cell that is repeated in each new generation; the same name replaces it."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO setups VALUES (?, ?, "
                "(SELECT coalesce(max(position), 0) + 1 FROM setups WHERE cluster = ?), ?) "
                "ON CONFLICT (cluster, name) DO UPDATE SET source = excluded.source",
                (cluster, name, cluster, source),
            )

    def setups(self, cluster: str) -> list[tuple[str, str]]:
        """Return (name, source) of the set-up cells, in the order in which they were given."""
        return self._all(
            "SELECT name, source FROM setups WHERE cluster = ? ORDER BY position", (cluster,)
        )

    def clear_setups(self, cluster: str) -> None:
        """Forget the set-up cells of ``cluster``."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM setups WHERE cluster = ?", (cluster,))

    # -- runs

    def wish_run(self, wish: RunWish) -> RunWish:
        """Queue a run; a name that an ended run bears gets a number added.

        Returns:
            The wish as it was written, with the name that it got.

        Raises:
            StateError: An unfinished run bears the name.
        """
        with self._transaction() as connection:
            wish = replace(wish, name=_free_name(connection, wish.name))
            connection.execute(
                "INSERT INTO runs (id, name, cluster, kind, source, path, folder, arguments, "
                "parameters, environment, wished_ranks, grace, wall_clock_limit, created) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    wish.id,
                    wish.name,
                    wish.cluster,
                    wish.kind,
                    wish.source,
                    wish.path,
                    wish.folder,
                    json.dumps(wish.arguments),
                    json.dumps(wish.parameters),
                    json.dumps(wish.environment),
                    wish.ranks,
                    wish.grace,
                    wish.wall_clock_limit,
                    wish.created,
                ),
            )
        return wish

    def wish_stop(self, run: str) -> None:
        """Ask for ``run`` to stop; it makes no difference to one that has ended."""
        with self._transaction() as connection:
            connection.execute("UPDATE runs SET stop = 1 WHERE id = ?", (run,))

    def run(self, name_or_id: str) -> Run:
        """Return one run.

        Raises:
            StateError: No run has this id or name.
        """
        row = self._one("SELECT * FROM runs WHERE id = ? OR name = ?", (name_or_id, name_or_id))
        if row is None:
            raise StateError(
                f"No run is called {name_or_id!r} in {self.path}; "
                "%dist_runs or `workbench runs` lists those that are."
            )
        return _run(row)

    def runs(
        self, cluster: str | None = None, *, limit: int = 50, setups: bool = False
    ) -> list[Run]:
        """Return the newest runs first; the repeats of set-up cells only when asked."""
        rows = self._all(
            "SELECT * FROM runs WHERE (? IS NULL OR cluster = ?) AND (? OR kind != 'setup') "
            "ORDER BY number DESC LIMIT ?",
            (cluster, cluster, setups, limit),
        )
        return [_run(row) for row in rows]

    def unfinished(self, cluster: str) -> list[Run]:
        """Return the runs of ``cluster`` that have not ended, oldest first."""
        marks = ", ".join("?" * len(_ENDED))
        rows = self._all(
            f"SELECT * FROM runs WHERE cluster = ? AND state NOT IN ({marks}) ORDER BY number",
            (cluster, *_ENDED),
        )
        return [_run(row) for row in rows]

    def put_run_fact(self, run: str, **changes: object) -> None:
        """Write the named fields of the run's fact."""
        assert changes.keys() <= set(_FACT_COLUMNS), changes
        assignments = ", ".join(f"{column} = ?" for column in changes)
        with self._transaction() as connection:
            connection.execute(
                f"UPDATE runs SET {assignments} WHERE id = ?", (*changes.values(), run)
            )

    # -- points and output

    def add_batches(self, batches: Iterable[Batch]) -> dict[tuple[str, int], int]:
        """Add what ranks gathered, each batch once and in order, in one transaction.

        A batch that was added before is skipped; so is one whose predecessor is missing.

        Returns:
            For each (run, rank) the sequence number up to which the store has all batches.
        """
        kept: dict[tuple[str, int], int] = {}
        numbers: dict[str, int] = {}
        with self._transaction() as connection:
            for batch in batches:
                number = numbers.setdefault(batch.run, _run_number(connection, batch.run))
                key = (batch.run, batch.rank)
                if key not in kept:
                    kept[key] = _delivered(connection, number, batch.rank)
                if batch.sequence != kept[key] + 1:
                    continue
                self._add_samples(connection, number, batch.rank, batch.samples)
                _add_chunks(connection, number, batch.rank, batch.chunks)
                connection.execute(
                    "INSERT OR REPLACE INTO deliveries VALUES (?, ?, ?)",
                    (number, batch.rank, batch.sequence),
                )
                kept[key] = batch.sequence
        return kept

    def delivered(self, run: str, rank: int) -> int:
        """Return the sequence number up to which the store has all of a rank's batches."""
        with _explained(self.path):
            return _delivered(self._connection, _run_number(self._connection, run), rank)

    def points(self, run: str, after: int = 0, limit: int = 100_000) -> list[PointRow]:
        """Return at most ``limit`` points with a sequence number above ``after``, in order."""
        rows = self._all(
            "SELECT sequence, rank, iteration, time, metric, value FROM points "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
            "ORDER BY sequence LIMIT ?",
            (run, after, limit),
        )
        names = self._names({row[4] for row in rows})
        return [
            PointRow(s, r, i, t, names[m], math.nan if v is None else v) for s, r, i, t, m, v in rows
        ]

    def output(self, run: str, after: int = 0, limit: int = 10_000) -> list[OutputRow]:
        """Return at most ``limit`` pieces of output above ``after``, in order."""
        rows = self._all(
            "SELECT sequence, rank, stream, time, text FROM output "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
            "ORDER BY sequence LIMIT ?",
            (run, after, limit),
        )
        return [OutputRow(*row) for row in rows]

    def final_values(self, run: str) -> dict[str, float]:
        """Return the last value of every name, averaged over the ranks that reported it."""
        rows = self._all(
            "SELECT metrics.name, avg(value) FROM latest JOIN metrics ON number = metric "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) GROUP BY metric ORDER BY 1",
            (run,),
        )
        return {name: math.nan if value is None else value for name, value in rows}

    def data_version(self) -> int:
        """Return a number that changes whenever another connection has committed."""
        row = self._one("PRAGMA data_version")
        assert row is not None
        return int(row[0])

    # -- inside

    def _add_samples(
        self, connection: sqlite3.Connection, run: int, rank: int, samples: Sequence[Sample]
    ) -> None:
        if not samples:
            return
        numbers = {name: self._metric(connection, name) for name in {s.name for s in samples}}
        start = _last_sequence(connection, "points", run)
        connection.executemany(
            "INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (run, start + i, rank, s.iteration, s.time, numbers[s.name], s.value)
                for i, s in enumerate(samples, 1)
            ],
        )
        last = {s.name: s for s in samples}
        connection.executemany(
            "INSERT OR REPLACE INTO latest VALUES (?, ?, ?, ?, ?)",
            [(run, numbers[name], rank, s.iteration, s.value) for name, s in last.items()],
        )

    def _metric(self, connection: sqlite3.Connection, name: str) -> int:
        if name not in self._metrics:
            connection.execute("INSERT OR IGNORE INTO metrics (name) VALUES (?)", (name,))
            row = connection.execute("SELECT number FROM metrics WHERE name = ?", (name,))
            self._metrics[name] = row.fetchone()[0]
        return self._metrics[name]

    def _names(self, numbers: set[int]) -> dict[int, str]:
        if not numbers <= self._metric_names.keys():
            self._metric_names = dict(self._all("SELECT number, name FROM metrics"))
        return self._metric_names

    @property
    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = _connect(self.path)
            self._local.connection = connection
            self._open.append(connection)
        return connection

    def _one(self, query: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        with _explained(self.path):
            row: tuple[Any, ...] | None = self._connection.execute(query, values).fetchone()
            return row

    def _all(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with _explained(self.path):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _explained(self.path):
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # A rolled-back insert must not leave its number behind.
                self._metrics.clear()
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _connect(path: Path) -> sqlite3.Connection:
    fresh = not path.exists()
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    if fresh:
        os.chmod(path, 0o600)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into sentences with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"The store {path} {_remedy(str(error))}") from error


def _remedy(reason: str) -> str:
    remedies = {
        "full": "is on a full disk; make room, or set WORKBENCH_HOME to another disk.",
        "readonly": "cannot be written; mend its permissions, or set WORKBENCH_HOME.",
        "unable to open": "cannot be opened; mend its permissions, or set WORKBENCH_HOME.",
        "locked": f"was busy for {BUSY_SECONDS:.0f} s; end the program that holds it, try again.",
        "not a database": "is not a workbench store; move the file away, or set WORKBENCH_HOME.",
        "malformed": "is damaged; move the file away, or set WORKBENCH_HOME to another folder.",
        "disk I/O": "cannot be read or written (disk I/O error); see whether the disk is full.",
    }
    for part, remedy in remedies.items():
        if part in reason:
            return remedy
    return f"answered: {reason}; set WORKBENCH_HOME to another folder to start afresh."


def _free_name(connection: sqlite3.Connection, name: str) -> str:
    states = dict(
        connection.execute(
            "SELECT name, state FROM runs WHERE name = ? OR name GLOB ? || ' [0-9]*'", (name, name)
        )
    )
    if name not in states:
        return name
    if states[name] not in _ENDED:
        raise StateError(
            f"A run called {name!r} is {states[name]}; wait for it, stop it, or choose another name."
        )
    number = 2
    while f"{name} {number}" in states:
        number += 1
    return f"{name} {number}"


def _run_number(connection: sqlite3.Connection, run: str) -> int:
    row = connection.execute("SELECT number FROM runs WHERE id = ?", (run,)).fetchone()
    if row is None:
        raise StateError(f"No run has the id {run!r}.")
    return int(row[0])


def _delivered(connection: sqlite3.Connection, run: int, rank: int) -> int:
    row = connection.execute(
        "SELECT sequence FROM deliveries WHERE run = ? AND rank = ?", (run, rank)
    ).fetchone()
    return int(row[0]) if row else 0


def _last_sequence(connection: sqlite3.Connection, table: str, run: int) -> int:
    query = f"SELECT sequence FROM {table} WHERE run = ? ORDER BY sequence DESC LIMIT 1"
    row = connection.execute(query, (run,)).fetchone()
    return int(row[0]) if row else 0


def _add_chunks(
    connection: sqlite3.Connection, run: int, rank: int, chunks: Sequence[Chunk]
) -> None:
    if not chunks:
        return
    start = _last_sequence(connection, "output", run)
    connection.executemany(
        "INSERT INTO output VALUES (?, ?, ?, ?, ?, ?)",
        [(run, start + i, rank, c.stream, c.time, c.text) for i, c in enumerate(chunks, 1)],
    )


def _run(row: tuple[Any, ...]) -> Run:
    # The columns of the table, in its order: number, the wish's, then the fact's.
    (_, id_, name, cluster, kind, source, path, folder, arguments, parameters) = row[:10]
    (environment, wished_ranks, grace, limit, created, stop, state) = row[10:17]
    wish = RunWish(
        id=id_,
        name=name,
        kind=RunKind(kind),
        source=source,
        cluster=cluster,
        path=path,
        folder=folder,
        arguments=tuple(json.loads(arguments)),
        parameters=tuple((k, v) for k, v in json.loads(parameters)),
        environment=tuple((k, v) for k, v in json.loads(environment)),
        ranks=wished_ranks,
        grace=grace,
        wall_clock_limit=limit,
        created=created,
        stop=bool(stop),
    )
    return Run(wish, RunFact(id_, RunState(state), *row[17:]))
