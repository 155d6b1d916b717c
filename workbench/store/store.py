"""Read and write wishes and facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.core.cluster.model import ClusterFact, ClusterState, ClusterWish, ResizeAt, WhenDone
from workbench.core.fleet.model import FleetWish
from workbench.core.run.model import ENDED, Run, RunFact, RunWish
from workbench.core.run_id import run_and_attempt
from workbench.core.world.world import RankFact, World
from workbench.errors import Unknown
from workbench.store.attempts import Attempts
from workbench.store.database import LOCK_SECONDS, Database
from workbench.store.displays import Displays
from workbench.store.fleet import Fleets, put_cluster
from workbench.store.rank_events import RankEvents
from workbench.store.removal import Removal
from workbench.store.reports import Reports
from workbench.store.rows import build_row, columns_of, insert, readable, reading, update
from workbench.store.run_names import find_run_number, queue_run
from workbench.store.saved_curves import Curves
from workbench.store.surveys import Surveys, forget_network
from workbench.store.sweeps import Sweeps

# A server repeats this often enough while pages are connected to it.
PAGES_SECONDS = 15.0

_LAST_RUNS = 20  # of those that ended together, one says what becomes of the nodes
_ENDED = tuple(sorted(ENDED))
# Cells that ended well and reported nothing; one that failed or was stopped is always listed.
_ONLY_PRINTED = (
    "kind = 'cell' AND state = 'finished' "
    "AND NOT EXISTS (SELECT 1 FROM latest WHERE latest.run = runs.number) "
    "AND NOT EXISTS (SELECT 1 FROM events WHERE events.run = runs.number)"
)


class Store(Database):
    """Wishes and facts of clusters and runs; its parts hold everything else, each by its noun.

    Args:
        path: The SQLite file (default: the one in ``home_directory()``).
        lock_seconds: How long a write waits for those of other processes.

    Attributes:
        reports: What ranks reported and printed: points, output, last values, conclusions.
        displays: What ranks displayed.
        curves: The downsampled curves of long runs.
        events: The events of ranks.
        attempts: The attempts of runs.
        fleets: Nodes, purchases and costs of clusters.
        surveys: Measurements of clusters, and predictions.
        removal: The size of runs, and their deletion.

    Raises:
        StoreError: The file cannot be opened, or another version of workbench wrote it.
        MachineError: The file is on a shared disk, and another machine uses it.
    """

    def __init__(
        self, path: str | Path | None = None, *, lock_seconds: float = LOCK_SECONDS
    ) -> None:
        super().__init__(path, lock_seconds=lock_seconds)
        self.reports = Reports(self)
        self.displays = Displays(self)
        self.curves = Curves(self)
        self.events = RankEvents(self)
        self.attempts = Attempts(self)
        self.fleets = Fleets(self)
        self.surveys = Surveys(self)
        self.sweeps = Sweeps(self)
        self.removal = Removal(self)

    # -- clusters

    def wish_cluster(
        self,
        name: str,
        *,
        up: bool,
        ranks: int,
        oversubscribe: bool = False,
        fleet: FleetWish | None = None,
        resize_at: ResizeAt = ResizeAt.STEP,
    ) -> ClusterWish:
        """Write the desired state of cluster ``name``; the last write wins.

        Args:
            fleet: The nodes of the cluster; None keeps those of the earlier wish.
            resize_at: When a run that trains moves to these ranks.
        """
        with self.transaction() as connection:
            put_cluster(connection, name, up, ranks, oversubscribe, fleet, resize_at)
        wish = self.cluster_wish(name)
        assert wish is not None
        return wish

    def cluster_wish(self, name: str) -> ClusterWish | None:
        """Return the current wish, or None if there never was one."""
        rows = self.rows("SELECT * FROM clusters WHERE name = ?", (name,))
        with reading(self.path, f"what was requested of cluster {name!r}"):
            return build_row(ClusterWish, rows[0]) if rows else None

    def cluster_fact(self, name: str) -> ClusterFact:
        """Return the cluster as it was last seen (down, if it never was)."""
        rows = self.rows("SELECT * FROM cluster_facts WHERE name = ?", (name,))
        with reading(self.path, f"cluster {name!r}"):
            return build_row(ClusterFact, rows[0]) if rows else ClusterFact(name)

    def clusters(self) -> list[ClusterWish]:
        """Return the current wishes of all clusters, by name."""
        return self.values(ClusterWish, "a cluster", "SELECT * FROM clusters ORDER BY name")

    def forget_cluster(self, name: str) -> bool:
        """Remove a deleted cluster and its set-up cells from all lists; its runs are kept.

        Returns:
            Whether it was removed: a cluster that is up, or not fully deleted, is kept.
        """
        with self.transaction() as connection:
            gone = connection.execute(
                "DELETE FROM clusters WHERE name = ? AND NOT up AND NOT EXISTS (SELECT 1 FROM "
                "cluster_facts WHERE name = clusters.name AND state != ?)",
                (name, ClusterState.DOWN),
            ).rowcount
            if gone:
                connection.execute("DELETE FROM setups WHERE cluster = ?", (name,))
                forget_network(connection, name)
        return bool(gone)

    def put_cluster_fact(self, fact: ClusterFact) -> None:
        """Write a cluster as it was seen."""
        with self.transaction() as connection:
            insert(connection, "cluster_facts", columns_of(fact), "REPLACE")

    def put_ranks(
        self, cluster: str, ranks: Sequence[RankFact], standing: Sequence[int] = ()
    ) -> None:
        """Write the ranks of one generation, and delete those of all but the last two.

        Those of the generation that carries the cluster stay, however many were begun since.

        Args:
            standing: The generations that have ranks, whose rows stay, too.
        """
        newest = max(rank.generation for rank in ranks)
        marks = ", ".join("?" * len(standing))
        with self.transaction() as connection:
            for rank in ranks:
                insert(connection, "ranks", {"cluster": cluster, **columns_of(rank)}, "REPLACE")
            connection.execute(
                "DELETE FROM ranks WHERE cluster = ? AND generation < ? AND generation IS NOT "
                "(SELECT generation FROM cluster_facts WHERE name = ?) "
                f"AND generation NOT IN ({marks})",
                (cluster, newest - 1, cluster, *standing),
            )

    def ranks(self, cluster: str, generation: int) -> list[RankFact]:
        """Return the ranks of one generation, in rank order."""
        return self.values(
            RankFact,
            f"the ranks of {cluster!r}",
            "SELECT * FROM ranks WHERE cluster = ? AND generation = ? ORDER BY rank",
            (cluster, generation),
        )

    def generations(self, cluster: str) -> list[int]:
        """Return the generations whose ranks are on record, the oldest first."""
        rows = self.all(
            "SELECT DISTINCT generation FROM ranks WHERE cluster = ? ORDER BY generation",
            (cluster,),
        )
        return [row[0] for row in rows]

    def put_setup(self, cluster: str, name: str, source: str) -> None:
        """Store a cell that is repeated in each new generation; the same name replaces it."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO setups VALUES (?, ?, "
                "(SELECT coalesce(max(position), 0) + 1 FROM setups WHERE cluster = ?), ?) "
                "ON CONFLICT (cluster, name) DO UPDATE SET source = excluded.source",
                (cluster, name, cluster, source),
            )

    def setups(self, cluster: str) -> list[tuple[str, str]]:
        """Return (name, source) of the set-up cells, in the order in which they were added."""
        return self.all(
            "SELECT name, source FROM setups WHERE cluster = ? ORDER BY position", (cluster,)
        )

    def clear_setups(self, cluster: str) -> None:
        """Delete the set-up cells of ``cluster``."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM setups WHERE cluster = ?", (cluster,))

    # -- runs

    def wish_run(
        self,
        wish: RunWish,
        world: World | None = None,
        fleet: FleetWish | None = None,
        *,
        numbered: bool = False,
    ) -> RunWish:
        """Queue a run; a number is added to its name if an earlier run has the same one.

        Args:
            wish: The run.
            world: The desired world of its cluster, written in the same transaction; None leaves it
                unchanged. A supervisor that is deleting the cluster would otherwise end the run.
            fleet: The nodes of that world; None keeps those of the earlier wish.
            numbered: Whether an unfinished run may have the same name, too.

        Returns:
            The wish as it was written, with its final name.

        Raises:
            StateError: An unfinished run has the name.
        """
        with self.transaction() as connection:
            if world is not None:
                put_cluster(connection, wish.cluster, True, world.size, world.oversubscribe, fleet)
            return queue_run(connection, wish, numbered=numbered)

    def wish_stop(self, run: str) -> None:
        """Request that ``run`` stops; no effect on a run that has ended."""
        with self.transaction() as connection:
            connection.execute("UPDATE runs SET stop = 1 WHERE id = ?", (run,))

    def run(self, name_or_id: str, *, active: bool = False) -> Run:
        """Return one run: a name means its newest, ``fit~1`` the one before.

        ``fit/best`` means the run of the best trial of sweep ``fit``.

        Args:
            active: Prefer runs that have not ended.

        Raises:
            Unknown: No run has this id or name.
        """
        rows = self.rows("SELECT * FROM runs WHERE id = ?", (name_or_id,))
        if not rows and (best := self.sweeps.best_run(name_or_id)):
            rows = self.rows("SELECT * FROM runs WHERE id = ?", (best,))
        if not rows:
            number = find_run_number(self.all, name_or_id, self.path, active=active)
            rows = self.rows("SELECT * FROM runs WHERE number = ?", (number,))
        if not rows:
            raise Unknown(f"Run {name_or_id!r} was just deleted", "list all with `workbench runs`.")
        with reading(self.path, f"run {name_or_id!r}"):
            return _run(rows[0])

    # -- pages

    def put_open_pages(self, run: str, server: str, pages: int, now: float) -> None:
        """Write that ``pages`` pages follow ``run`` through ``server`` at ``now``."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO open_pages VALUES (?, ?, ?, ?)", (run, server, pages, now)
            )

    def open_pages(self, run: str, now: float) -> int | None:
        """Return the number of pages that follow ``run`` at ``now``; None if none ever did."""
        rows = self.all("SELECT pages, seen FROM open_pages WHERE run = ?", (run,))
        if not rows:
            return None
        rows_read = readable(
            self.path, f"who follows run {run!r}", rows, lambda row: (int(row[0]), float(row[1]))
        )
        return sum(pages for pages, seen in rows_read if abs(now - seen) < PAGES_SECONDS)

    def carried_by(self, execution: str) -> tuple[int, int]:
        """Return the generation of a run's present attempt, and its ranks.

        They are zeros for an earlier attempt, and for one that never started.
        """
        row = self.one(
            "SELECT generation, ranks FROM runs WHERE id = ? AND attempt = ?",
            run_and_attempt(execution),
        )
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def runs(
        self,
        cluster: str | None = None,
        *,
        limit: int = 50,
        setups: bool = False,
        printed: bool = True,
    ) -> list[Run]:
        """Return the newest runs first; set-up cells and repeated cells only on request.

        Args:
            printed: Whether to include cells that only printed.
        """
        return self._runs(
            "SELECT * FROM runs WHERE (? IS NULL OR cluster = ?) "
            "AND (? OR kind NOT IN ('setup', 'replay')) "
            f"AND (? OR NOT ({_ONLY_PRINTED})) ORDER BY number DESC LIMIT ?",
            (cluster, cluster, setups, printed, limit),
        )

    def count_printed(self, since: str = "") -> int:
        """Return the number of cells that only printed, from the run ``since`` on."""
        row = self.one(
            f"SELECT count(*) FROM runs WHERE {_ONLY_PRINTED} AND "
            "number >= coalesce((SELECT number FROM runs WHERE id = ?), 0)",
            (since,),
        )
        return int(row[0]) if row else 0

    def cells(self, cluster: str, since: int) -> list[Run]:
        """Return the cells that have ended on a cluster, in the order of their starts.

        Those that were repeated are among them, once for each time; trials of sweeps are not: what
        they bind is in worlds of their own.

        Args:
            since: The first generation that counts.
        """
        return self._runs(
            "SELECT * FROM runs WHERE cluster = ? AND generation >= ? AND started > 0 "
            "AND ended > 0 AND kind IN ('cell', 'replay') "
            "AND id NOT IN (SELECT run FROM trials) ORDER BY started, number",
            (cluster, since),
        )

    def replays(self, run: str, generation: int) -> list[Run]:
        """Return the repetitions of a run in a generation, oldest first."""
        return self._runs(
            "SELECT * FROM runs WHERE replays = ? AND generation = ? ORDER BY number",
            (run, generation),
        )

    def list_unfinished(self, cluster: str, *, replays: bool = False) -> list[Run]:
        """Return the runs of ``cluster`` that have not ended, oldest first.

        Args:
            replays: Whether to include repetitions of earlier cells, which no user requested.
        """
        marks = ", ".join("?" * len(_ENDED))
        return self._runs(
            f"SELECT * FROM runs WHERE cluster = ? AND state NOT IN ({marks}) "
            "AND (? OR kind != 'replay') ORDER BY turn, number",
            (cluster, *_ENDED, replays),
        )

    def read_last_ends(self, cluster: str, since: float) -> tuple[float, WhenDone | None]:
        """Return when the last run of ``cluster`` ended, and what the last one says of its nodes.

        Args:
            since: Epoch seconds; what runs say that ended before counts no longer.
        """
        rows = self._runs(
            "SELECT * FROM runs WHERE cluster = ? AND kind != 'replay' AND ended > 0 "
            "ORDER BY ended DESC LIMIT ?",
            (cluster, _LAST_RUNS),
        )
        said = (
            run.wish.options.when_done
            for run in rows
            if run.fact.ended > since and run.wish.options.when_done
        )
        return max((run.fact.ended for run in rows), default=0.0), next(said, None)

    def put_run_fact(self, run: str, **changes: object) -> None:
        """Write the named fields of the run's fact."""
        assert changes.keys() <= RunFact.__dataclass_fields__.keys(), changes
        with self.transaction() as connection:
            update(connection, "runs", changes, id=run)

    def _runs(self, query: str, values: Sequence[object]) -> list[Run]:
        return [*readable(self.path, "a run", self.rows(query, values), _run)]


def _run(row: Mapping[str, Any]) -> Run:
    return Run(build_row(RunWish, row), build_row(RunFact, row))
