"""A supervisor on a fake cluster, whose turns are made by the test itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.simulation.thread_cluster import ThreadCluster
from workbench.core.moment import Moment
from workbench.core.run.model import Run, RunKind, RunWish
from workbench.core.run.run_options import RunOptions
from workbench.store import Store
from workbench.supervisor.heartbeat import read_clocks
from workbench.supervisor.loop import Supervisor

T = TypeVar("T")
NAME = "default"
DEADLINE = 20.0


class Stage:
    """A store, a fake cluster, and the supervisor between them."""

    def __init__(self, store: Store, *, fault_tolerant: bool = True) -> None:
        self.store = store
        self.shift = 0.0  # seconds by which the wall clock was set
        self.later = 0.0  # seconds that have passed without a wait
        # A separate connection, as in production: a writer is not notified of its own changes.
        self.own = Store(store.path)
        self.cluster = ThreadCluster(fault_tolerant=fault_tolerant)
        self.supervisor = Supervisor(NAME, self.own, self.cluster, self._clocks)
        self._runs = 0

    def _clocks(self) -> Moment:
        now = read_clocks()
        return Moment(now.wall + self.shift + self.later, now.steady + self.later)

    def close(self) -> None:
        """End the cluster and let go of the store."""
        self.cluster.close()
        self.own.close()

    def up(self, ranks: int) -> None:
        """Ask for a cluster and turn until it is ready."""
        self.store.wish_cluster(NAME, up=True, ranks=ranks, oversubscribe=True)
        self.supervisor.open()
        self.until(lambda: self.store.cluster_fact(NAME).ranks == ranks)

    def ask(
        self,
        source: str,
        *,
        ranks: int = 0,
        grace: float = 5.0,
        limit: float = 0.0,
        environment: tuple[tuple[str, str], ...] = (),
    ) -> str:
        """Queue a run, and return its id."""
        self._runs += 1
        run = f"260101-000000-{chr(96 + self._runs) * 4}"
        self.store.wish_run(
            RunWish(
                run,
                run,
                RunKind.CELL,
                source,
                NAME,
                options=RunOptions(
                    ranks=ranks, grace=grace, environment=environment, wall_clock_limit=limit
                ),
                created=time.time(),
            )
        )
        return run

    def ended(self, run: str) -> Run:
        """Turn until the run has ended."""
        self.until(lambda: self.store.run(run).fact.state.ended)
        return self.store.run(run)

    def until(self, look: Callable[[], T | None]) -> T:
        """Turn until ``look`` finds something true."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            self.supervisor.tick()
            if found := look():
                return found
        raise AssertionError(f"nothing came of it within {DEADLINE} s")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite3") as opened:
        yield opened


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Store]]:
    """Give a person's and a supervisor's store; each history has a cluster of its own name."""
    path = Path(tmp_path_factory.mktemp("histories")) / "store.sqlite3"
    with Store(path) as store, Store(path) as own:
        for one in (store, own):
            one.connection.execute("PRAGMA synchronous = OFF")
        yield store, own


@pytest.fixture
def stage(store: Store) -> Iterator[Stage]:
    made = Stage(store)
    yield made
    made.close()


@pytest.fixture
def rigid(store: Store) -> Iterator[Stage]:
    """Like ``stage``, with an MPI that cannot free ranks from one another."""
    made = Stage(store, fault_tolerant=False)
    yield made
    made.close()
