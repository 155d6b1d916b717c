"""Store what ranks reported and printed: each batch once, in order, by sequence number."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, repeat
from statistics import fmean
from typing import Any, NamedTuple

from workbench.core.performance.bandwidth import RESULT_STREAM
from workbench.core.run.display import DISPLAY, UPDATE, Display
from workbench.core.run.metrics import STEP_PREFIX, Conclusion, is_measured, last_value
from workbench.core.run.rank_protocol import (
    MOST_NAMES,
    Batch,
    Chunk,
    Ending,
    PointsSaved,
    Samples,
    TrainingResumed,
)
from workbench.core.run_id import run_and_attempt
from workbench.errors import StateError
from workbench.store.attempts import last_sequence, supersede
from workbench.store.database import Database
from workbench.store.displays import add_display
from workbench.store.rank_events import add_events
from workbench.store.rows import json_of, of_json, readable, reading
from workbench.store.surveys import put_survey

# A mean is taken of the latest points of a run, at most this many.
MOST_POINTS = 100_000
_ANY_ITERATION = 2**63 - 1
_NEARBY = 2_000  # points
_TAIL_PIECES = 5_000
_MOST_REDONE = 100_000  # points
_MARGIN = 1_000  # points: other threads may have reported some since the snapshot
_MOST_ATTEMPTS = 64
# A piece is small enough to be shown alone; readers get about this much at once.
PIECE_CHARACTERS = 32_000
AT_ONCE_CHARACTERS = 4_000_000
_POINT = "(?, ?, ?, ?, ?, ?, ?)"
# Statements for some points, and how many values each of them takes.
_INSERTS = tuple(
    (f"INSERT INTO points VALUES {', '.join([_POINT] * amount)}", _POINT.count("?") * amount)
    for amount in (100, 10, 1)
)


class PointRow(NamedTuple):
    """A reported value; follow new ones by ``sequence``. ``nan`` where it is not a number."""

    sequence: int
    rank: int
    iteration: int
    time: float
    name: str
    value: float


class OutputRow(NamedTuple):
    """A piece of a rank's output; follow new ones by ``sequence``.

    Args:
        stream: ``stdout`` or ``stderr``, or what happened to a display: ``display``, ``update`` or
            ``clear``.
        text: The text, or the text form of a display.
        place: The display that is meant, see ``Displays``.
    """

    sequence: int
    rank: int
    stream: str
    time: float
    text: str
    place: int = 0


_MEASURED = 500  # more names than workbench itself measures in a run


class PointColumns(NamedTuple):
    """The points of one name: ranks, iterations and values, of equal length."""

    ranks: list[int]
    iterations: list[int]
    values: list[float]


class Reports:
    """What ranks reported and printed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known_names: Mapping[int, str] = {}

    def add_batches(self, batches: Iterable[Batch]) -> dict[tuple[str, int], int]:
        """Add the batches of ranks, each once and in order, in one transaction.

        A batch that is stored already is skipped, and so is one whose predecessor is missing. One
        of an earlier attempt is dropped, and counts as stored.

        Returns:
            For each (execution, rank) the sequence number up to which the store has all batches.
        """
        kept: dict[tuple[str, int], int] = {}
        numbers: dict[str, int | None] = {}
        with self._database.transaction() as connection:
            for batch in batches:
                if batch.run not in numbers:
                    numbers[batch.run] = _run_number(connection, batch.run)
                number, key = numbers[batch.run], (batch.run, batch.rank)
                if number is None:
                    kept[key] = max(batch.sequence, kept.get(key, 0))
                    continue
                if key not in kept:
                    kept[key] = _read_delivered(connection, number, batch.rank)
                if batch.sequence != kept[key] + 1:
                    continue
                ending = json_of(batch.ending) if batch.ending else ""
                if resumed := batch.event(TrainingResumed):
                    supersede(connection, number, resumed.iteration)
                for one in batch.valid_events:
                    if isinstance(one.event, PointsSaved):
                        _add_saved(connection, number, one.event, batch.rank)
                if batch.samples or batch.valid_events:
                    before = last_sequence(connection, "points", number)
                    add_events(connection, number, batch, before)
                    _add_samples(connection, number, batch.rank, batch.samples, before)
                _add_chunks(connection, number, batch.rank, batch.chunks)
                connection.execute(
                    "INSERT OR REPLACE INTO deliveries VALUES (?, ?, ?, ?)",
                    (number, batch.rank, batch.sequence, ending),
                )
                kept[key] = batch.sequence
        return kept

    def points(self, run: str, after: int = 0, limit: int = 100_000) -> list[PointRow]:
        """Return at most ``limit`` points with a sequence number above ``after``, in order."""
        rows = self._database.all(
            "SELECT sequence, rank, iteration, time, metric, value FROM points "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
            "ORDER BY sequence LIMIT ?",
            (run, after, limit),
        )
        names = self._names()
        with reading(self._database.path, f"the points of run {run!r}"):
            return [
                PointRow(s, int(r), int(i), float(t), names[m], math.nan if v is None else float(v))
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
    ) -> tuple[int, dict[str, PointColumns]]:
        """Return at most ``limit`` points above ``after`` by name, and the number of the last one.

        These are the rows of ``points``, read several times as fast. Without any points the
        number is ``after``.

        Args:
            first: Lowest iteration.
            last: Highest iteration.
        """
        rows = self._database.all(
            "SELECT sequence, metric, rank, iteration, value FROM points "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
            "AND iteration BETWEEN ? AND ? ORDER BY sequence LIMIT ?",
            (run, after, first, last, limit),
        )
        with reading(self._database.path, f"the points of run {run!r}"):
            return (rows[-1][0], self._by_name(rows)) if rows else (after, {})

    def redone_points(
        self, run: str, limit: int = _MOST_REDONE
    ) -> dict[int, dict[str, PointColumns]]:
        """Return points that later attempts did again, by their attempt and by name.

        Args:
            limit: The largest number of points; the newest are returned.
        """
        spans = self._database.all(
            "SELECT attempt, lag(last_point, 1, 0) OVER (ORDER BY attempt), last_point "
            "FROM attempts WHERE run = (SELECT number FROM runs WHERE id = ?) "
            "ORDER BY attempt DESC LIMIT ?",
            (run, _MOST_ATTEMPTS),
        )
        found = dict[int, dict[str, PointColumns]]()
        for attempt, first, last in spans:
            rows = self._database.all(
                "SELECT sequence, metric, rank, iteration, value FROM superseded "
                "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
                "AND sequence <= ? ORDER BY sequence DESC LIMIT ?",
                (run, first, last, limit),
            )
            if rows:
                with reading(self._database.path, f"the points of run {run!r}"):
                    found[int(attempt)] = self._by_name(rows)
            limit -= len(rows)
        return found

    def output(self, run: str, after: int = 0, limit: int = 10_000) -> list[OutputRow]:
        """Return pieces of output above ``after``, in order; at least one if there are any.

        There are at most ``limit``, of about ``AT_ONCE_CHARACTERS`` together.
        """
        rows = self._database.some(
            "SELECT sequence, rank, stream, time, text FROM output "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
            "ORDER BY sequence LIMIT ?",
            (run, after, limit),
            lambda row: len(row[4]),
            AT_ONCE_CHARACTERS,
        )
        return [_output_row(*row) for row in rows]

    def output_tail(self, run: str, after: int, characters: int) -> int:
        """Return the first piece, not before ``after``, from which about ``characters`` follow."""
        rows = self._database.some(
            "SELECT sequence, length(text) FROM output "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND sequence > ? "
            "ORDER BY sequence DESC LIMIT ?",
            (run, after, _TAIL_PIECES),
            lambda row: int(row[1]),
            characters,
        )
        for sequence, length in rows:
            characters -= length
            if characters < 0:
                return int(sequence)
        # Numbers may be missing, because rows that are no longer needed are deleted.
        return int(rows[-1][0]) - 1 if len(rows) == _TAIL_PIECES else after

    def final_values(self, run: str) -> dict[str, float]:
        """Return the last value of every name, see ``last_value``; a mean for measured values.

        For a run with a conclusion these are the values of that conclusion.
        """
        if (concluded := self.conclusion(run)) is not None:
            return dict(concluded.values)
        return {name: _last(name, latest) for name, latest in self._latest(run).items()}

    def final_ranges(self, run: str) -> dict[str, tuple[float, float]]:
        """Return the least and the greatest last value of ranks, of each name that several have.

        As for ``last_value``, ranks that are behind do not count, nor what is not finite.
        """
        found = {}
        for name, latest in self._latest(run).items():
            last = max(iteration for iteration, _ in latest)
            values = [one for at, one in latest if at == last and math.isfinite(one)]
            if len(values) > 1:
                found[name] = min(values), max(values)
        return found

    def _latest(self, run: str) -> dict[str, list[tuple[int, float]]]:
        """Return each rank's last iteration and value, by name."""
        rows = self._database.all(
            "SELECT metrics.name, iteration, value FROM latest JOIN metrics ON number = metric "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) ORDER BY 1",
            (run,),
        )
        found: dict[str, list[tuple[int, float]]] = {}
        with reading(self._database.path, f"what run {run!r} reported last"):
            for name, iteration, value in rows:
                known = math.nan if value is None else float(value)
                found.setdefault(name, []).append((int(iteration), known))
        return found

    def conclusion(self, run: str) -> Conclusion | None:
        """Return the conclusion of ``run``; None if it has none yet."""
        rows = self._database.all("SELECT document FROM conclusions WHERE run = ?", (run,))
        what = f"the conclusion of run {run!r}"
        found = readable(self._database.path, what, rows, lambda row: of_json(Conclusion, row[0]))
        return next(found, None)

    def keep_conclusion(self, run: str, conclusion: Conclusion) -> Conclusion:
        """Store a conclusion unless there is one already; return the stored one."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO conclusions SELECT id, ? FROM runs WHERE id = ?",
                (json_of(conclusion), run),
            )
        return self.conclusion(run) or conclusion

    def spark(self, run: str, name: str, amount: int) -> list[float]:
        """Return about ``amount`` values of ``name``, evenly spread over all points of ``run``.

        They are of one rank, since values of different ranks would make a zigzag; those that were
        done again have no place. The cost does not depend on the number of points. ``nan`` where
        there is no such value nearby.
        """
        rows = self._sample_points(run, name, amount)
        with reading(self._database.path, f"the points of run {run!r}"):
            return [math.nan if value is None else float(value) for _, _, value in rows]

    def clock(self, run: str, name: str, amount: int) -> list[tuple[int, float]]:
        """Return about ``amount`` iterations of ``run``, and when they were done; both increase.

        Args:
            name: A name whose reports have these iterations.

        Returns:
            Pairs of iteration and epoch seconds, by the clock of the rank that reported it.
        """
        found = list[tuple[int, float]]()
        rows = self._sample_points(run, name, amount)
        with reading(self._database.path, f"the points of run {run!r}"):
            known = [(int(at), float(time)) for at, time, _ in rows if at is not None]
        for at, time in known:
            if not found or (at > found[-1][0] and time > found[-1][1]):
                found.append((at, time))
        return found

    def _sample_points(self, run: str, name: str, amount: int) -> list[Any]:
        """Return iteration, time and value of about ``amount`` points; nulls where none is."""
        return self._database.all(
            "WITH RECURSIVE chosen AS (SELECT runs.number AS run, metrics.number AS metric, "
            "  (SELECT min(rank) FROM latest WHERE run = runs.number "
            "    AND metric = metrics.number) AS rank, "
            "  (SELECT max(sequence) FROM points WHERE run = runs.number) AS last "
            "  FROM runs, metrics WHERE id = ? AND metrics.name = ?), "
            "places (place) AS (SELECT 1 UNION ALL SELECT place + last / ? + 1 FROM places, chosen "
            "  WHERE place + last / ? + 1 <= last), "
            "found AS (SELECT place, chosen.run AS run, (SELECT sequence FROM points "
            "  WHERE points.run = chosen.run AND points.metric = chosen.metric "
            "  AND points.rank = chosen.rank AND sequence >= place AND sequence < place + ? "
            "  ORDER BY sequence LIMIT 1) AS at "
            "FROM places, chosen WHERE last IS NOT NULL AND NOT EXISTS (SELECT 1 FROM superseded "
            "  WHERE superseded.run = chosen.run AND sequence = place)) "
            "SELECT iteration, time, value FROM found LEFT JOIN points "
            "ON points.run = found.run AND points.sequence = found.at ORDER BY place",
            (run, name, amount, amount, _NEARBY),
        )

    def endings(self, run: str) -> dict[int, Ending]:
        """Return how each rank left the run, for the ranks that have left."""
        rows = self._database.all(
            "SELECT rank, ending FROM deliveries "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND ending != ''",
            (run,),
        )
        return dict(readable(self._database.path, f"how ranks left run {run!r}", rows, _ending))

    def steps(self, run: str) -> dict[int, dict[str, float]]:
        """Return the step breakdown of each rank's latest steps, in seconds per step."""
        return self.read_measured(run, STEP_PREFIX)

    def mean_steps(self, run: str) -> dict[int, dict[str, float]]:
        """Return the step breakdown of each rank's steps, in seconds per step.

        It is the mean of all steps but the first; of a very long run, of the latest steps.
        """
        rows = self._database.all(
            "WITH chosen AS (SELECT number AS run, (SELECT max(sequence) FROM points "
            "    WHERE run = number) AS last FROM runs WHERE id = ?), "
            "reported AS (SELECT rank, metric, value, iteration - lag(iteration) "
            "    OVER (PARTITION BY metric, rank ORDER BY sequence) AS amount "
            "  FROM points, chosen WHERE points.run = chosen.run AND sequence > last - ? "
            "    AND metric IN (SELECT number FROM metrics WHERE name GLOB ?)) "
            "SELECT rank, name, sum(value * amount) / sum(amount) FROM reported "
            "JOIN metrics ON number = metric WHERE amount > 0 AND value IS NOT NULL "
            "GROUP BY rank, metric ORDER BY rank",
            (run, MOST_POINTS, f"{STEP_PREFIX}*"),
        )
        found = self.steps(run)  # for values that were reported only once
        for rank, name, value in rows:
            if rank in found:  # not one of an earlier attempt on more ranks
                found[rank][name.removeprefix(STEP_PREFIX)] = value
        return found

    def history(self, run: str, prefix: str) -> dict[int, list[dict[str, float]]]:
        """Return each rank's reports of the metrics that begin with ``prefix``, without the prefix.

        Of a very long run these are the latest.
        """
        rows = self._database.all(
            "WITH chosen AS (SELECT number AS run, (SELECT max(sequence) FROM points "
            "    WHERE run = number) AS last FROM runs WHERE id = ?) "
            "SELECT rank, iteration, name, value FROM points, chosen JOIN metrics "
            "ON metrics.number = metric WHERE points.run = chosen.run AND sequence > last - ? "
            "AND name GLOB ? AND value IS NOT NULL ORDER BY rank, iteration",
            (run, MOST_POINTS, f"{prefix}*"),
        )
        found: dict[int, dict[int, dict[str, float]]] = {}
        with reading(self._database.path, f"what run {run!r} reported"):
            for rank, iteration, name, value in rows:
                values = found.setdefault(rank, {}).setdefault(iteration, {})
                values[name.removeprefix(prefix)] = float(value)
        return {rank: [*values.values()] for rank, values in found.items()}

    def read_measured(self, run: str, prefix: str) -> dict[int, dict[str, float]]:
        """Return each rank's latest values of metrics that begin with ``prefix``, without it."""
        rows = self._database.all(
            "SELECT rank, metrics.name, value FROM latest JOIN metrics ON number = metric "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) AND metrics.name GLOB ? "
            "AND value IS NOT NULL ORDER BY rank",
            (run, f"{prefix}*"),
        )
        found: dict[int, dict[str, float]] = {}
        for rank, name, value in rows:
            with reading(self._database.path, f"what run {run!r} reported last"):
                found.setdefault(rank, {})[name.removeprefix(prefix)] = float(value)
        return found

    # -- inside

    def _by_name(self, rows: list[Any]) -> dict[str, PointColumns]:
        """Group rows of sequence, metric, rank, iteration and value by name."""
        grouped = defaultdict[int, list[Any]](list)
        for row in rows:
            grouped[row[1]].append(row)
        names = self._names_of(grouped.keys())
        found = {}
        for number, some in grouped.items():
            _, _, ranks, iterations, values = zip(*some, strict=True)
            found[names[number]] = PointColumns(
                [*map(int, ranks)],
                [*map(int, iterations)],
                [math.nan if value is None else float(value) for value in values],
            )
        return found

    def _names(self) -> dict[int, str]:
        return dict(self._database.all("SELECT number, name FROM metrics"))

    def _names_of(self, numbers: Set[int]) -> Mapping[int, str]:
        """Return names that include those of ``numbers``; a number's name never changes."""
        if not numbers <= self._known_names.keys():
            self._known_names = self._names()
        return self._known_names


def _last(name: str, latest: list[tuple[int, float]]) -> float:
    # Ranks report their step times once a second, each at another iteration.
    return fmean(value for _, value in latest) if is_measured(name) else last_value(latest)


def _ending(row: tuple[int, str]) -> tuple[int, Ending]:
    return int(row[0]), of_json(Ending, row[1])


def _run_number(connection: sqlite3.Connection, execution: str) -> int | None:
    """Return the number of the run that is executed; None if it has a newer attempt."""
    run, attempt = run_and_attempt(execution)
    row = connection.execute("SELECT number, attempt FROM runs WHERE id = ?", (run,)).fetchone()
    if row is None or attempt > row[1]:
        raise StateError(f"No run has the id {execution!r}.")
    return int(row[0]) if attempt == row[1] else None


def _read_delivered(connection: sqlite3.Connection, run: int, rank: int) -> int:
    row = connection.execute(
        "SELECT sequence FROM deliveries WHERE run = ? AND rank = ?", (run, rank)
    ).fetchone()
    return int(row[0]) if row else 0


def _add_samples(
    connection: sqlite3.Connection, run: int, rank: int, samples: Samples, before: int
) -> None:
    samples = _within_names(connection, run, samples)
    newest = dict(zip(samples.which, range(len(samples)), strict=True))  # by index of the name
    numbers = {which: _metric(connection, samples.names[which]) for which in newest}
    rows = zip(
        repeat(run, len(samples)),
        range(before + 1, before + len(samples) + 1),
        repeat(rank, len(samples)),
        samples.iterations,
        samples.times,
        map(numbers.__getitem__, samples.which),
        samples.values,
        strict=True,
    )
    _insert_points(connection, [*chain.from_iterable(rows)])
    connection.executemany(
        "INSERT OR REPLACE INTO latest VALUES (?, ?, ?, ?, ?)",
        [
            (run, numbers[which], rank, samples.iterations[at], samples.values[at])
            for which, at in newest.items()
        ],
    )


def _add_saved(connection: sqlite3.Connection, run: int, saved: PointsSaved, teller: int) -> None:
    """Add the points of an earlier attempt that a snapshot has and the store has not.

    What was delivered of them are the last of their rank up to the snapshot.

    Args:
        teller: The rank that reports them. Those of rank 0 end the earlier attempt, by whose
            points pauses are measured; what is done again has been set aside before.
    """
    rows = connection.execute(
        "SELECT name, points.iteration, time FROM points JOIN metrics ON number = metric "
        "WHERE run = ? AND rank = ? AND points.iteration <= ? ORDER BY sequence DESC LIMIT ?",
        (run, saved.rank, saved.iteration, 2 * len(saved.samples) + _MARGIN),
    )
    there = Counter(tuple(row) for row in rows)
    missing = []
    for one in saved.samples:
        if there[one[:3]]:
            there[one[:3]] -= 1
        elif one.iteration <= saved.iteration:
            missing.append(one)
    if not missing:
        return
    before = last_sequence(connection, "points", run)
    _add_samples(connection, run, saved.rank, Samples.of(missing), before)
    if saved.rank != teller:  # which is no longer there
        connection.execute("DELETE FROM latest WHERE run = ? AND rank = ?", (run, saved.rank))
    if teller == 0:
        connection.execute(
            "UPDATE attempts SET last_point = ? WHERE run = ? AND attempt = "
            "(SELECT max(attempt) FROM attempts WHERE run = ?)",
            (last_sequence(connection, "points", run), run, run),
        )


def _within_names(connection: sqlite3.Connection, run: int, samples: Samples) -> Samples:
    """Return samples without those of names for which a run has no room.

    A rank says it itself when it leaves names out; this is for ranks that do not, and for ranks
    that all have names of their own.
    """
    known = "SELECT 1 FROM latest JOIN metrics ON number = metric WHERE run = ? AND name = ?"
    new = [
        name
        for name in samples.names
        if not is_measured(name) and not connection.execute(known, (run, name)).fetchone()
    ]
    if not new:
        return samples
    count = "SELECT count(DISTINCT metric) FROM latest WHERE run = ?"
    room = max(0, MOST_NAMES + _MEASURED - int(connection.execute(count, (run,)).fetchone()[0]))
    if len(new) <= room:
        return samples
    left_out = set(new[room:])
    return Samples.of([one for one in samples if one.name not in left_out])


def _insert_points(connection: sqlite3.Connection, values: Sequence[Any]) -> None:
    """Insert points, many by one statement: to run a statement takes as long as to insert a row.

    Args:
        values: All columns of the first point, then those of the next.
    """
    at = 0
    for statement, step in _INSERTS:
        while at + step <= len(values):
            connection.execute(statement, values[at : at + step])
            at += step


def _add_chunks(
    connection: sqlite3.Connection, run: int, rank: int, chunks: Sequence[Chunk | Display]
) -> None:
    # Counted here: the last row may have been deleted because a later one replaced it.
    sequence = last_sequence(connection, "output", run) if chunks else 0
    rows = list[tuple[int, int, int, str, float, str]]()
    for chunk in chunks:
        if isinstance(chunk, Display):
            _write_rows(connection, rows)
            text = add_display(connection, run, rank, sequence + 1, chunk)
            stream: str = chunk.action
        elif chunk.stream == RESULT_STREAM:
            put_survey(connection, run, chunk.text)
            continue
        else:
            # A rank may not choose another stream: displays have their own rows.
            stream, text = "stderr" if chunk.stream == "stderr" else "stdout", chunk.text
        if text is not None:
            for piece in _pieces(text):
                sequence += 1
                rows.append((run, sequence, rank, stream, chunk.time, piece))
    _write_rows(connection, rows)


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of whole lines; lines that are too long are split."""
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        end = text.rfind("\n", start, start + PIECE_CHARACTERS) + 1 or start + PIECE_CHARACTERS
        yield text[start:end]
        start = end
    yield text[start:]


def _write_rows(
    connection: sqlite3.Connection, rows: list[tuple[int, int, int, str, float, str]]
) -> None:
    connection.executemany("INSERT INTO output VALUES (?, ?, ?, ?, ?, ?)", rows)
    rows.clear()


def _output_row(sequence: int, rank: int, stream: str, time: float, text: str) -> OutputRow:
    if stream == UPDATE:
        return OutputRow(sequence, rank, stream, time, "", int(text))
    place = sequence if stream == DISPLAY else 0
    return OutputRow(sequence, rank, stream, time, text, place)


def _metric(connection: sqlite3.Connection, name: str) -> int:
    known = "SELECT number FROM metrics WHERE name = ?"
    row = connection.execute(known, (name,)).fetchone()
    if row is None:
        connection.execute("INSERT INTO metrics (name) VALUES (?)", (name,))
        row = connection.execute(known, (name,)).fetchone()
    return int(row[0])
