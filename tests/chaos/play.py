"""Train through many faults on one cluster, and count what was lost."""

from __future__ import annotations

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Protocol

from tests.chaos.examples import visits, wrong
from tests.chaos.faults import Faults, marks
from tests.chaos.tally import DEADLINE, Tally
from workbench.cluster.leftovers import segment_folder
from workbench.core.cluster.model import ClusterState
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import RunKind
from workbench.core.run.run_options import MOST_RETRIES, RunOptions
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.run import ask_run, ask_stop
from workbench.requests.supervisor import rouse, supervisor_is_awake
from workbench.store import Store
from workbench.store.reports import PointRow

CLUSTER = "chaos"
SOURCE = Path(__file__).parent / "programs" / "known_examples.py"
EXAMPLES = 576
AFTER = 8  # iterations after a fault, which have a snapshot among them
LAST_STEP_SECONDS = 0.1  # a step may still end right after a kill
Fault = Callable[[], None]


class Stage(Protocol):
    """Where a play takes place."""

    def faults(self, run: str, chance: Random) -> Sequence[Fault]:
        """Return the faults that can happen there; one that is named twice happens more often."""
        ...

    def is_settled(self) -> bool:
        """Return whether there is enough for the next fault."""
        ...

    def settle(self) -> None:
        """Repair what a fault has left behind, such as a cable that is still pulled."""
        ...


class Machine:
    """This machine as the stage."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def faults(self, run: str, chance: Random) -> Sequence[Fault]:
        return Faults(self._store, CLUSTER, run, chance).all

    def is_settled(self) -> bool:
        return True

    def settle(self) -> None:
        return None


class Play:
    """One cluster, one training after another, and faults.

    Args:
        folder: Where trainings record their examples.
        stage: This machine by default.
        together: How many faults may follow each other at once, without a step between them.
    """

    def __init__(
        self,
        store: Store,
        folder: Path,
        chance: Random,
        say: Callable[[str], None],
        *,
        stage: Stage | None = None,
        together: Sequence[int] = (1,),
    ) -> None:
        self.tally = Tally()
        self._store = store
        self._folder = folder
        self._chance = chance
        self._say = say
        self._stage = stage or Machine(store)
        self._together = together
        self._run = ""
        self._marks: set[str] = set()

    def go(self, faults: int, names: Sequence[str] = ()) -> None:
        """Play so many faults, of these names if there are any."""
        self._begin()
        while self.tally.faults < faults:
            number = min(self._chance.choice(self._together), faults - self.tally.faults)
            turn = self._choose(number, names)
            words = " + ".join(one.__name__ for one in turn)
            newest, began = _newest(self._store, self._run), time.time()
            for fault in turn:
                fault()
            self._stage.settle()
            self.tally.faults += len(turn)
            for name, count in Counter(one.__name__ for one in turn).items():
                self.tally.played[name] = self.tally.played.get(name, 0) + count
            self._marks |= marks()
            if not self._continues(words, began, newest):
                self._finish()
                self._begin()
            self._say(f"{self.tally.faults}: {words}, {time.time() - began:.1f} s")
        self._finish()

    def segments(self) -> list[str]:
        """Return the folders in shared memory that the worlds have left."""
        return [folder.name for folder in map(segment_folder, self._marks) if folder.exists()]

    def _choose(self, number: int, names: Sequence[str]) -> list[Fault]:
        every = self._stage.faults(self._run, self._chance)
        among = [one for one in every if not names or one.__name__ in names]
        return [self._chance.choice(among) for _ in range(number)]

    def _begin(self) -> None:
        record = self._folder / "record"
        shutil.rmtree(record, ignore_errors=True)
        record.mkdir()
        source = SOURCE.read_text(encoding="utf-8")
        parameters = (("record", str(record)),)
        self.tally.runs += 1
        self._run = ask_run(
            self._store,
            kind=RunKind.CELL,
            source=source,
            cluster=CLUSTER,
            options=RunOptions(parameters=parameters, retries=MOST_RETRIES),
        ).id
        if not until(lambda: self._store.attempts.newest_snapshot(self._run) != NONE):
            raise AssertionError(f"a training did not begin: {self._store.run(self._run).fact}")

    def _continues(self, turn: str, began: float, newest: PointRow | None) -> bool:
        """Return whether the run has trained on after faults, and note how long that took.

        Args:
            newest: The newest point before them.
        """
        done = time.time() + LAST_STEP_SECONDS

        def later() -> list[float]:
            after = newest.sequence if newest else 0
            return [
                point.time for point in iterations(self._store.reports.points(self._run, after))
            ]

        def has_settled() -> bool:
            rouse(CLUSTER)
            fact = self._store.run(self._run).fact
            if fact.state.ended:
                return True
            is_on = sum(1 for moment in later() if moment >= done) >= AFTER
            return is_on and self._stage.is_settled()

        if not until(has_settled):
            self.tally.stuck.append(f"{turn}: {self._store.run(self._run).fact}")
            return False
        fact = self._store.run(self._run).fact
        if fact.state.ended:
            self.tally.lost.append(f"{turn}: {fact.message}")
            return False
        times = sorted([newest.time if newest else began, *later()])
        gap = max(b - a for a, b in itertools.pairwise(times))
        self.tally.seconds.setdefault(turn, []).append(gap)
        return True

    def _finish(self) -> None:
        if not self._store.run(self._run).fact.state.ended:
            ask_stop(self._store, self._run, CLUSTER)
            if not until(lambda: self._store.run(self._run).fact.state.ended):
                self.tally.stuck.append(f"at its end: {self._store.run(self._run).fact}")
        for past in self._store.attempts.past(self._run):
            redone = max(0, past.iteration - past.snapshot)
            if past.state != "stopped":
                self.tally.redone += redone
            elif past.left_nodes:
                self.tally.noticed += redone
            else:
                self.tally.planned += redone
        repeated, left_out = wrong(visits(self._folder / "record"), EXAMPLES)
        self.tally.repeated += repeated
        self.tally.left_out += left_out
        drawn = [point.iteration for point in iterations(self._store.reports.points(self._run))]
        self.tally.drawn_twice += len(drawn) - len({*drawn})


def iterations(points: Iterable[PointRow]) -> list[PointRow]:
    """Return the iterations of rank 0."""
    return [point for point in points if point.name == "main/loss" and point.rank == 0]


def _newest(store: Store, run: str) -> PointRow | None:
    return max(iterations(store.reports.points(run)), key=lambda point: point.time, default=None)


@contextmanager
def cluster(store: Store) -> Iterator[None]:
    """Have a cluster of two ranks of this machine."""
    ask_cluster(store, 2, cluster=CLUSTER, oversubscribe=True)
    assert until(lambda: store.cluster_fact(CLUSTER).state is ClusterState.READY)
    try:
        yield
    finally:
        ask_down(store, cluster=CLUSTER)
        assert until(lambda: not supervisor_is_awake(CLUSTER))


def until(look: Callable[[], object], seconds: float = DEADLINE) -> bool:
    """Wait until ``look`` finds something true; return whether it did in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if look():
            return True
        time.sleep(0.05)
    return False
