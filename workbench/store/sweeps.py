"""Sweeps and their trials."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from workbench.core.fleet.model import FleetWish
from workbench.core.run.model import RunWish
from workbench.core.run.sweep import SweepFact, SweepWish, Trial, rank_trials
from workbench.core.world.world import World
from workbench.errors import Unknown
from workbench.store.database import Database
from workbench.store.fleet import put_cluster
from workbench.store.rows import build_row, columns_of, insert, reading, update
from workbench.store.run_names import queue_run

BEST = "/best"
"""``fit/best`` is the run of the best trial of sweep ``fit``."""


class Sweeps:
    """The sweeps of all clusters, each with its trials."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def wish(self, sweep: SweepWish, world: World | None, fleet: FleetWish | None) -> SweepWish:
        """Write what a user asked for; a number is added to a name that is taken.

        Args:
            world: The desired world of its cluster; None leaves it unchanged.
            fleet: The nodes of that world; None keeps those of the earlier wish.
        """
        with self._database.transaction() as connection:
            _put_world(connection, sweep.cluster, world, fleet)
            taken = {row[0] for row in connection.execute("SELECT name FROM sweeps")}
            names = (
                sweep.name if n == 1 else f"{sweep.name} {n}" for n in range(1, 2 + len(taken))
            )
            named = replace(sweep, name=next(name for name in names if name not in taken))
            insert(connection, "sweeps", columns_of(named))
        return named

    def extend(self, sweep: SweepWish, world: World | None, fleet: FleetWish | None) -> None:
        """Let a sweep that was stopped or is over continue, as it is asked for now.

        Args:
            world: As for ``wish``.
            fleet: Likewise.
        """
        with self._database.transaction() as connection:
            _put_world(connection, sweep.cluster, world, fleet)
            changes = columns_of(replace(sweep, stop=False)) | {"over": "", "has_failed": False}
            update(connection, "sweeps", changes, id=sweep.id)

    def wish_stop(self, sweep: str) -> None:
        """Request that no further trial begins, and that those under way stop."""
        with self._database.transaction() as connection:
            update(connection, "sweeps", {"stop": True}, id=sweep)
            connection.execute(
                "UPDATE runs SET stop = 1 WHERE id IN "
                "(SELECT run FROM trials WHERE sweep = ? AND outcome = 'running')",
                (sweep,),
            )

    def find(self, name_or_id: str) -> tuple[SweepWish, SweepFact]:
        """Return a sweep.

        Raises:
            Unknown: There is none of this name.
        """
        rows = self._database.rows(
            "SELECT * FROM sweeps WHERE id = ?1 OR name = ?1 ORDER BY id = ?1 DESC", (name_or_id,)
        )
        if not rows:
            raise Unknown(f"No sweep is called {name_or_id!r}", "list all with `workbench sweeps`.")
        with reading(self._database.path, f"sweep {name_or_id!r}"):
            return build_row(SweepWish, rows[0]), build_row(SweepFact, rows[0])

    def best_run(self, name: str) -> str:
        """Return the id of the run that ``fit/best`` means; empty if that is no such name.

        Raises:
            Unknown: No trial of the sweep has finished with a value yet.
        """
        label = name.removesuffix(BEST)
        if label == name or label not in self.names():
            return ""
        sweep, _ = self.find(label)
        for trial in rank_trials(sweep, self.trials(sweep.id)):
            return trial.run
        raise Unknown(
            f"No trial of sweep {label!r} has finished with a value of {sweep.metric!r} yet",
            "list them with `workbench sweeps`.",
        )

    def names(self) -> list[str]:
        """Return the names of all sweeps, the newest first."""
        rows = self._database.all("SELECT name FROM sweeps ORDER BY created DESC")
        return [row[0] for row in rows]

    def unfinished(self, cluster: str) -> list[SweepWish]:
        """Return the sweeps of a cluster that are not over, oldest first."""
        return self._database.values(
            SweepWish,
            "a sweep",
            "SELECT * FROM sweeps WHERE cluster = ? AND over = '' ORDER BY created",
            (cluster,),
        )

    def trials(self, sweep: str) -> list[Trial]:
        """Return the trials that were begun, by number."""
        query = "SELECT * FROM trials WHERE sweep = ? ORDER BY number"
        return self._database.values(Trial, "a trial", query, (sweep,))

    def begin(self, trial: Trial, run: RunWish) -> None:
        """Queue a trial's run."""
        with self._database.transaction() as connection:
            queue_run(connection, run, numbered=True)
            insert(connection, "trials", columns_of(trial))

    def put(self, trial: Trial) -> None:
        """Write what has become of a trial."""
        with self._database.transaction() as connection:
            insert(connection, "trials", columns_of(trial), "REPLACE")

    def close(self, sweep: str, fact: SweepFact) -> None:
        """Write that a sweep is over."""
        with self._database.transaction() as connection:
            update(connection, "sweeps", columns_of(fact), id=sweep)

    def curve(self, run: str, metric: str) -> list[tuple[int, float]]:
        """Return a value of a run at each iteration that has one: the mean of its ranks."""
        return self._database.all(
            "SELECT iteration, avg(value) FROM points WHERE run = "
            "(SELECT number FROM runs WHERE id = ?) AND metric = "
            "(SELECT number FROM metrics WHERE name = ?) AND value IS NOT NULL "
            "GROUP BY iteration ORDER BY iteration",
            (run, metric),
        )


def _put_world(
    connection: sqlite3.Connection, cluster: str, world: World | None, fleet: FleetWish | None
) -> None:
    if world is not None:
        put_cluster(connection, cluster, True, world.size, world.oversubscribe, fleet)
