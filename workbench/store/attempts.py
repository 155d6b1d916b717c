"""Keep the past attempts of runs, queue the next one, and set points aside that are done again."""

from __future__ import annotations

import sqlite3

from workbench.core.fleet.model import FleetWish
from workbench.core.recovery.resumption import NONE, Attempt
from workbench.core.run.metrics import attempt_seconds
from workbench.core.run.model import ENDED, RunFact, RunState, RunWish
from workbench.core.run.rank_protocol import SnapshotSaved, TrainingBegun
from workbench.core.world.world import World
from workbench.errors import StateError
from workbench.store.database import Database
from workbench.store.fleet import put_cluster
from workbench.store.rank_events import RankEvents
from workbench.store.rows import columns_of, insert, reading, update

# More than the snapshots that are kept of a training.
_MOST_REPORTS = 8
_POINTS = ("points", "superseded")
# What an attempt has of its run's fact.
_KEPT = tuple(Attempt.__dataclass_fields__.keys() & RunFact.__dataclass_fields__.keys())
# What is of the last attempt alone; its progress is shown until the next one has its own.
_CLEARED = (
    "ended", "failed_rank", "failed_host", "error", "failure", "stopped_at", "remark", "hang",
    "traceback", "resumed_at", "resumed", "hindrance",
)  # fmt: skip


class Attempts:
    """The attempts of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._events = RankEvents(database)

    def newest_snapshot(self, run: str) -> int:
        """Return the iteration of a run's newest reported snapshot; -1 if it has none."""
        found = self.newest_saved(run)
        return found.iteration if found else NONE

    def newest_saved(self, run: str) -> SnapshotSaved | None:
        """Return what was reported of a run's newest snapshot; None if it has none."""
        return self._events.newest(run, SnapshotSaved)

    def forget_snapshots(self, run: str, why: str) -> None:
        """Record that no snapshot is left of a run that waits for its next attempt.

        Args:
            why: A sentence for the message of its last attempt.
        """
        with self._database.transaction() as connection:
            row = connection.execute("SELECT number FROM runs WHERE id = ?", (run,)).fetchone()
            if row is None:
                return
            connection.execute(
                "DELETE FROM events WHERE run = ? AND kind = ?",
                (row[0], SnapshotSaved.__name__),
            )
            connection.execute(
                "UPDATE attempts SET snapshot = ?, message = message || ' ' || ? WHERE run = ? "
                "AND attempt = (SELECT max(attempt) FROM attempts WHERE run = ?)",
                (NONE, why, row[0], row[0]),
            )
            connection.execute(
                "UPDATE runs SET iteration = 0, epoch = 0 WHERE number = ?", (row[0],)
            )

    def has_begun(self, run: str) -> bool:
        """Return whether a training of a run has begun that is saved."""
        return self._events.newest(run, TrainingBegun) is not None

    def script_generations(self, cluster: str) -> frozenset[int]:
        """Return the generations of a cluster in which scripts have begun."""
        rows = self._database.all(
            "SELECT generation FROM runs WHERE cluster = ? AND path != '' AND generation > 0 "
            "UNION SELECT attempts.generation FROM attempts JOIN runs ON number = run "
            "WHERE cluster = ? AND path != ''",
            (cluster, cluster),
        )
        return frozenset(generation for (generation,) in rows)

    def past(self, run: str) -> list[Attempt]:
        """Return the past attempts of a run, oldest first; the present one is in its fact."""
        return self._database.values(
            Attempt,
            f"the attempts of run {run!r}",
            "SELECT *, attempt AS number FROM attempts "
            "WHERE run = (SELECT number FROM runs WHERE id = ?) ORDER BY attempt",
            (run,),
        )

    def pause(self, run: str, last: int) -> float:
        """Return the seconds between two points of rank 0; 0 if there is none before or after.

        Args:
            last: The sequence number of the newest point before.
        """
        before = self._nearest(run, last, "<= ?", "DESC")
        after = self._nearest(run, last, "> ?", "ASC")
        return max(0.0, min(after)[1] - max(before)[1]) if before and after else 0.0

    def first_point(self, run: str, last: int) -> float:
        """Return when rank 0 reported first after a point; 0 if it has not.

        Args:
            last: The sequence number of that point; 0 for the beginning.
        """
        after = self._nearest(run, last, "> ?", "ASC")
        return min(after)[1] if after else 0.0

    def redone_seconds(self, run: str) -> dict[int, float]:
        """Return for each attempt how long it took for what later ones did again, by rank 0."""
        rows = self._database.all(
            "WITH spans AS (SELECT attempt, run, last_point, "
            "lag(last_point, 1, 0) OVER (ORDER BY attempt) AS first FROM attempts "
            "WHERE run = (SELECT number FROM runs WHERE id = ?)) "
            "SELECT attempt, min(sequence), max(time) FROM spans JOIN superseded "
            "ON superseded.run = spans.run AND sequence > first AND sequence <= last_point "
            "WHERE rank = 0 GROUP BY attempt",
            (run,),
        )
        with reading(self._database.path, f"the points of run {run!r}"):
            spans = [(int(one), int(first), float(ended)) for one, first, ended in rows]
        return {one: self._seconds_from(run, first, ended) for one, first, ended in spans}

    def unsaved_seconds(self, run: str, snapshot: int) -> float:
        """Return how long the present attempt has trained beyond its newest snapshot, by rank 0.

        Args:
            snapshot: The iteration of that snapshot.
        """
        rows = self._database.all(
            "SELECT min(sequence), max(time) FROM points JOIN runs ON number = run "
            "WHERE id = ? AND rank = 0 AND points.iteration > ? AND sequence > "
            "(SELECT coalesce(max(last_point), 0) FROM attempts WHERE attempts.run = number)",
            (run, snapshot),
        )
        with reading(self._database.path, f"the points of run {run!r}"):
            return sum(self._seconds_from(run, int(at), float(end)) for at, end in rows if at)

    def _seconds_from(self, run: str, first: int, ended: float) -> float:
        """Return the seconds from the last thing that rank 0 reported before a point to a time.

        Args:
            first: The sequence number of that point.
        """
        before = [*self._nearest(run, first, "< ?", "DESC"), *self._events.last_before(run, first)]
        return max(0.0, ended - max(before)[1]) if before else 0.0

    def last_point(self, run: str, last: int) -> float:
        """Return when rank 0 reported a point or the newest one before it; 0 if it has not.

        Args:
            last: The sequence number of that point.
        """
        before = self._nearest(run, last, "<= ?", "DESC")
        return max(before)[1] if before else 0.0

    def _nearest(self, run: str, last: int, bound: str, order: str) -> list[tuple[int, float]]:
        """Return the sequence number and time of the first point of each table, if it has one."""
        rows = [
            row
            for table in _POINTS
            for row in self._database.all(
                f"SELECT sequence, time FROM {table} WHERE rank = 0 AND sequence {bound} "
                "AND run = (SELECT number FROM runs WHERE id = ?) "
                f"ORDER BY sequence {order} LIMIT 1",
                (last, run),
            )
        ]
        with reading(self._database.path, f"the points of run {run!r}"):
            return [(int(sequence), float(time)) for sequence, time in rows]

    def continue_run(
        self, past: RunFact, message: str, left_nodes: str = "", *, failed_at: int = NONE
    ) -> None:
        """Queue the next attempt of a run that has lost or left its world, in its old place.

        No effect if that attempt is over already.

        Args:
            past: The attempt as it ended.
            message: From where it continues.
            left_nodes: The nodes that it left because the provider takes them back.
            failed_at: Iterations that the failed rank had done; -1 if no failure counts.
        """
        with self._database.transaction() as connection:
            number = _number(connection, past)
            if number:
                self._queue(
                    connection,
                    number,
                    past,
                    message,
                    is_automatic=True,
                    left_nodes=left_nodes,
                    failed_at=failed_at,
                )

    def resume_run(
        self,
        past: RunFact,
        message: str,
        wish: RunWish,
        world: World | None = None,
        fleet: FleetWish | None = None,
    ) -> None:
        """Queue the next attempt of a run that has ended, behind all that wait.

        Args:
            past: The attempt as it ended.
            message: From where it continues.
            wish: What is requested now of the run, which keeps its id and name.
            world: The desired world of its cluster, as for ``wish_run``.
            fleet: The nodes of that world, likewise.

        Raises:
            StateError: It was resumed, or deleted, meanwhile.
        """
        with self._database.transaction() as connection:
            number = _number(connection, past)
            if not (number and past.state in ENDED):
                raise StateError(f"Run {past.id!r} was resumed or deleted meanwhile.")
            self._queue(connection, number, past, message, is_automatic=False)
            (turn,) = connection.execute("SELECT max(turn) + 1 FROM runs").fetchone()
            update(
                connection, "runs", columns_of(wish) | {"turn": turn, "started": 0.0}, number=number
            )
            if world is not None:
                put_cluster(connection, wish.cluster, True, world.size, world.oversubscribe, fleet)

    def _queue(
        self,
        connection: sqlite3.Connection,
        number: int,
        past: RunFact,
        message: str,
        *,
        is_automatic: bool,
        left_nodes: str = "",
        failed_at: int = NONE,
    ) -> None:
        snapshot = self.newest_snapshot(past.id)
        attempt = Attempt(
            number=past.attempt,
            snapshot=snapshot,
            last_point=last_sequence(connection, "points", number),
            is_automatic=is_automatic,
            last_output=last_sequence(connection, "output", number),
            left_nodes=left_nodes,
            failed_at=failed_at,
            **{name: getattr(past, name) for name in _KEPT},
        )
        columns = columns_of(attempt)
        insert(connection, "attempts", {"run": number, "attempt": columns.pop("number"), **columns})
        has_trained = past.attempt == 1 or past.resumed_at != NONE
        fresh = columns_of(RunFact(past.id))
        update(
            connection,
            "runs",
            {
                **{name: fresh[name] for name in _CLEARED},
                "state": RunState.QUEUED,
                "message": message,
                "ranks_before": past.ranks if has_trained else past.ranks_before,
            },
            number=number,
        )
        connection.execute(
            "UPDATE runs SET attempt = attempt + 1, trained_before = trained_before + ?, "
            "iteration = ?, epoch = epoch * ? / max(iteration, 1) WHERE number = ?",
            (attempt_seconds(past, past.ended), max(snapshot, 0), max(snapshot, 0), number),
        )
        connection.execute("DELETE FROM deliveries WHERE run = ?", (number,))
        connection.execute("DELETE FROM conclusions WHERE run = ?", (past.id,))


def supersede(connection: sqlite3.Connection, run: int, iteration: int) -> None:
    """Set the points of earlier attempts beyond ``iteration`` aside: the ranks do these again.

    They are kept in the table ``superseded``, which no view draws.

    Args:
        run: The run's number.
        iteration: That of the snapshot which the ranks have read.
    """
    row = connection.execute("SELECT max(last_point) FROM attempts WHERE run = ?", (run,))
    last = int(row.fetchone()[0] or 0)
    event, first = _beginning(connection, run, iteration, last)
    connection.execute(
        "DELETE FROM events WHERE run = ? AND kind = ? AND sequence > ? AND iteration > ?",
        (run, SnapshotSaved.__name__, event, iteration),
    )
    chosen = "FROM points WHERE run = ? AND sequence > ? AND sequence <= ? AND iteration > ?"
    values = (run, first, last, iteration)
    pairs = connection.execute(f"SELECT DISTINCT metric, rank {chosen}", values).fetchall()
    connection.execute(f"INSERT INTO superseded SELECT * {chosen}", values)
    connection.execute(f"DELETE {chosen}", values)
    connection.execute("DELETE FROM saved_curves WHERE run = ?", (run,))
    connection.execute(
        "DELETE FROM latest WHERE run = ? AND rank >= (SELECT ranks FROM runs WHERE number = ?)",
        (run, run),
    )
    for metric, rank in pairs:
        pair = (run, metric, rank)
        connection.execute("DELETE FROM latest WHERE run = ? AND metric = ? AND rank = ?", pair)
        connection.execute(
            "INSERT INTO latest SELECT run, metric, rank, iteration, value FROM points "
            "WHERE run = ? AND metric = ? AND rank = ? ORDER BY sequence DESC LIMIT 1",
            pair,
        )


def last_sequence(connection: sqlite3.Connection, table: str, run: int) -> int:
    """Return the newest sequence number of a run's rows; a point set aside keeps its number."""
    tables = _POINTS if table == "points" else (table,)
    found = 0
    for name in tables:
        query = f"SELECT sequence FROM {name} WHERE run = ? ORDER BY sequence DESC LIMIT 1"
        row = connection.execute(query, (run,)).fetchone()
        found = max(found, int(row[0]) if row else 0)
    return found


def _beginning(
    connection: sqlite3.Connection, run: int, iteration: int, last: int
) -> tuple[int, int]:
    """Return an event and a point before which nothing is done again.

    They are those of the snapshot before the given one, found from the end, so the cost does not
    depend on the number of points.
    """
    rows = connection.execute(
        "SELECT sequence, point, iteration FROM events WHERE run = ? AND kind = ? "
        "AND point <= ? ORDER BY sequence DESC LIMIT ?",
        (run, SnapshotSaved.__name__, last, _MOST_REPORTS),
    ).fetchall()
    # The report of the very snapshot may be lost with its rank, and newer ones may be there: they
    # are passed over if their snapshot could not be read. A greater iteration before a smaller one
    # is of an earlier training.
    later = None
    for sequence, point, at in [(int(row[0]), int(row[1]), int(row[2])) for row in rows]:
        if at < iteration or (later is not None and at > later):
            return sequence, point
        later = at
    return 0, 0


def _number(connection: sqlite3.Connection, past: RunFact) -> int:
    """Return the number of the run; 0 if it was deleted or has another attempt."""
    row = connection.execute(
        "SELECT number FROM runs WHERE id = ? AND attempt = ?", (past.id, past.attempt)
    ).fetchone()
    return int(row[0]) if row else 0
