"""Keep what ranks reported and printed: each batch once, in order, followed by sequence number."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.core.measurement import RESULT_STREAM
from workbench.core.report import Batch, Chunk, Ending, Sample
from workbench.errors import StateError
from workbench.store.database import Database
from workbench.store.surveys import put_survey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_ANY_ITERATION = 2**63 - 1
_NEARBY = 2_000  # points
_TAIL_PIECES = 5_000


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


class Columns(NamedTuple):
    """Points of one name: each one's rank, iteration and value, arrays of equal length."""

    ranks: NDArray[np.int64]
    iterations: NDArray[np.int64]
    values: NDArray[np.float64]


class Points(Database):
    """The part of the store that holds points and output."""

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
                ending = json.dumps(asdict(batch.ending)) if batch.ending else ""
                self._add_samples(connection, number, batch.rank, batch.samples)
                _add_chunks(connection, number, batch.rank, batch.chunks)
                connection.execute(
                    "INSERT OR REPLACE INTO deliveries VALUES (?, ?, ?, ?)",
                    (number, batch.rank, batch.sequence, ending),
                )
                kept[key] = batch.sequence
        return kept

    def points(self, run: str, after: int = 0, limit: int = 100_000) -> list[PointRow]:
        """Return at most ``limit`` points with a sequence number above ``after``, in order."""
        rows = self._all(
            "SELECT sequence, rank, iteration, time, metric, value FROM points "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
            "ORDER BY sequence LIMIT ?",
            (run, after, limit),
        )
        names = self._names()
        return [
            PointRow(s, r, i, t, names[m], math.nan if v is None else v)
            for s, r, i, t, m, v in rows
        ]

    def point_columns(
        self,
        run: str,
        after: int = 0,
        limit: int = 20_000,
        *,
        first: int = 0,
        last: int = _ANY_ITERATION,
    ) -> tuple[int, dict[str, Columns]]:
        """Return at most ``limit`` points above ``after`` by name, and the last one's number.

        It is what ``points`` returns one by one, but several times as fast. Without any points
        the number is ``after``.

        Args:
            first: Leaves out the iterations before.
            last: Leaves out the iterations behind.
        """
        rows = self._all(
            "SELECT sequence, metric, rank, iteration, value FROM points "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
            "AND iteration BETWEEN ? AND ? ORDER BY sequence LIMIT ?",
            (run, after, first, last, limit),
        )
        return (rows[-1][0], self._by_name(rows)) if rows else (after, {})

    def output(self, run: str, after: int = 0, limit: int = 10_000) -> list[OutputRow]:
        """Return at most ``limit`` pieces of output above ``after``, in order."""
        rows = self._all(
            "SELECT sequence, rank, stream, time, text FROM output "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
            "ORDER BY sequence LIMIT ?",
            (run, after, limit),
        )
        return [OutputRow(*row) for row in rows]

    def output_tail(self, run: str, after: int, characters: int) -> int:
        """Return the piece, ``after`` or a later one, behind which about ``characters`` lie."""
        rows = self._all(
            "SELECT sequence, length(text) FROM output "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
            "ORDER BY sequence DESC LIMIT ?",
            (run, after, _TAIL_PIECES),
        )
        for sequence, length in rows:
            characters -= length
            if characters < 0:
                return int(sequence)
        return rows[-1][0] - 1 if rows else after

    def final_values(self, run: str) -> dict[str, float]:
        """Return the last value of every name, averaged over the ranks that reported it."""
        rows = self._all(
            "SELECT metrics.name, avg(value) FROM latest JOIN metrics ON number = metric "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) GROUP BY metric ORDER BY 1",
            (run,),
        )
        return {name: math.nan if value is None else value for name, value in rows}

    def spark(self, run: str, name: str, amount: int) -> list[float]:
        """Return about ``amount`` values of ``name``, evenly spread over all points of ``run``.

        They are of one rank, because ranks that differ would make a zigzag. It is a glance,
        whatever the number of points; ``nan`` where there is no such value nearby.
        """
        rows = self._all(
            "WITH RECURSIVE chosen AS (SELECT runs.number AS run, metrics.number AS metric, "
            "  (SELECT min(rank) FROM latest WHERE run = runs.number "
            "    AND metric = metrics.number) AS rank, "
            "  (SELECT max(sequence) FROM points WHERE run = runs.number) AS last "
            "  FROM runs, metrics WHERE id = ? AND metrics.name = ?), "
            "places (place) AS (SELECT 1 UNION ALL SELECT place + last / ? + 1 FROM places, chosen "
            "  WHERE place + last / ? + 1 <= last) "
            "SELECT (SELECT value FROM points WHERE points.run = chosen.run "
            "  AND points.metric = chosen.metric AND points.rank = chosen.rank "
            "  AND sequence >= place AND sequence < place + ? ORDER BY sequence LIMIT 1) "
            "FROM places, chosen WHERE last IS NOT NULL ORDER BY place",
            (run, name, amount, amount, _NEARBY),
        )
        return [math.nan if value is None else value for (value,) in rows]

    def endings(self, run: str) -> dict[int, Ending]:
        """Return how each rank left the run, for those that have."""
        rows = self._all(
            "SELECT rank, ending FROM deliveries "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND ending != ''",
            (run,),
        )
        return {rank: Ending(**json.loads(ending)) for rank, ending in rows}

    # -- inside

    @staticmethod
    def _add_samples(
        connection: sqlite3.Connection, run: int, rank: int, samples: Sequence[Sample]
    ) -> None:
        if not samples:
            return
        numbers = {name: _metric(connection, name) for name in {s.name for s in samples}}
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

    def _by_name(self, rows: list[Any]) -> dict[str, Columns]:
        """Sort rows of sequence, metric, rank, iteration and value by name."""
        import numpy as np  # the shell's quick commands need none of it

        # Floats hold whole numbers below 2**53 exactly; None becomes nan.
        table = np.array(rows, np.float64)
        numbers, ranks, iterations = table[:, 1:4].astype(np.int64).T
        names = self._names()
        found = {}
        for number in set(numbers.tolist()):
            chosen = numbers == number
            found[names[number]] = Columns(ranks[chosen], iterations[chosen], table[chosen, 4])
        return found

    def _names(self) -> dict[int, str]:
        return dict(self._all("SELECT number, name FROM metrics"))


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
    for result in (chunk.text for chunk in chunks if chunk.stream == RESULT_STREAM):
        put_survey(connection, run, result)
    chunks = [chunk for chunk in chunks if chunk.stream != RESULT_STREAM]
    if not chunks:
        return
    start = _last_sequence(connection, "output", run)
    connection.executemany(
        "INSERT INTO output VALUES (?, ?, ?, ?, ?, ?)",
        [(run, start + i, rank, c.stream, c.time, c.text) for i, c in enumerate(chunks, 1)],
    )


def _metric(connection: sqlite3.Connection, name: str) -> int:
    connection.execute("INSERT OR IGNORE INTO metrics (name) VALUES (?)", (name,))
    row = connection.execute("SELECT number FROM metrics WHERE name = ?", (name,)).fetchone()
    return int(row[0])
