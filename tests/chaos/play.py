"""Train through many faults on one cluster, and count what was lost."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from tests.chaos.examples import visits, wrong
from tests.chaos.faults import Faults, marks
from workbench.cluster.shared_memory import segment_folder
from workbench.core.cluster.model import ClusterState
from workbench.core.run.model import RunKind
from workbench.core.run.resumption import NONE
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.run import ask_run, ask_stop
from workbench.requests.supervisor import rouse, supervisor_is_awake
from workbench.store import Store

CLUSTER = "chaos"
SOURCE = Path(__file__).parent / "programs" / "known_examples.py"
EXAMPLES = 192
DEADLINE = 120.0
AFTER = 8  # iterations after a fault, which have a snapshot among them
LAST_STEP_SECONDS = 0.1  # a step may still end right after a kill


@dataclass
class Tally:
    """What happened in one run of faults.

    Args:
        lost: The messages of runs that ended by themselves.
        stuck: Faults after which no iteration came in time.
        planned: Iterations redone after a mere change of size.
        seconds: From a fault to the next iteration, by fault.
    """

    faults: int = 0
    lost: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    planned: int = 0
    redone: int = 0
    repeated: int = 0
    left_out: int = 0
    drawn_twice: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"{self.faults} faults: {len(self.lost)} runs lost, {len(self.stuck)} stuck, "
            f"{self.planned} steps redone after a resize, {self.redone} after losses, "
            f"{self.repeated} examples repeated, {self.left_out} left out, "
            f"{self.drawn_twice} steps drawn twice",
            *(f"lost: {one}" for one in self.lost),
            *(f"stuck: {one}" for one in self.stuck),
        ]
        for name, values in sorted(self.seconds.items()):
            lines.append(
                f"  {name}: {len(values)} times, {median(values):.2f} s to the next step "
                f"(at most {max(values):.2f})"
            )
        return "\n".join(lines)

    @property
    def is_well(self) -> bool:
        """Whether nothing was lost but steps after unannounced losses."""
        wrong = (self.planned, self.repeated, self.left_out, self.drawn_twice)
        return not (self.lost or self.stuck or any(wrong))


class Play:
    """One cluster, one training after another, and faults.

    Args:
        folder: Where trainings record their examples.
    """

    def __init__(self, store: Store, folder: Path, seed: int, say: Callable[[str], None]) -> None:
        self.tally = Tally()
        self._store = store
        self._folder = folder
        self._chance = Random(seed)
        self._say = say
        self._run = ""
        self._marks: set[str] = set()

    def go(self, faults: int, names: Sequence[str] = ()) -> None:
        """Play so many faults, of these names if there are any."""
        self._begin()
        for number in range(1, faults + 1):
            faults_of = Faults(self._store, CLUSTER, self._run, self._chance)
            among = [one for one in faults_of.all if not names or one.__name__ in names]
            fault = self._chance.choice(among)
            began = time.time()
            fault()
            self.tally.faults += 1
            self._marks |= marks()
            if not self._continues(fault.__name__, began):
                self._finish()
                self._begin()
            self._say(f"{number}: {fault.__name__}, {time.time() - began:.1f} s")
        self._finish()

    def segments(self) -> list[str]:
        """Return the folders in shared memory that the worlds have left."""
        return [folder.name for folder in map(segment_folder, self._marks) if folder.exists()]

    def _begin(self) -> None:
        record = self._folder / "record"
        shutil.rmtree(record, ignore_errors=True)
        record.mkdir()
        source = SOURCE.read_text(encoding="utf-8")
        parameters = (("record", str(record)),)
        self._run = ask_run(
            self._store, kind=RunKind.CELL, source=source, cluster=CLUSTER, parameters=parameters
        ).id
        if not _until(lambda: self._store.newest_snapshot(self._run) != NONE):
            raise AssertionError(f"a training did not begin: {self._store.run(self._run).fact}")

    def _continues(self, fault: str, began: float) -> bool:
        """Return whether the run has trained on after a fault, and note how long that took."""
        done, beyond = time.time() + LAST_STEP_SECONDS, _Iterations(self._store, self._run)

        def is_settled() -> bool:
            rouse(CLUSTER)
            fact = self._store.run(self._run).fact
            return fact.state.ended or beyond.since(done) >= AFTER

        if not _until(is_settled):
            self.tally.stuck.append(f"{fault}: {self._store.run(self._run).fact}")
            return False
        fact = self._store.run(self._run).fact
        if fact.state.ended:
            self.tally.lost.append(f"{fault}: {fact.message}")
            return False
        gap = max(beyond.longest_gap(began), beyond.first_after(done) - done)
        self.tally.seconds.setdefault(fault, []).append(gap)
        return True

    def _finish(self) -> None:
        if not self._store.run(self._run).fact.state.ended:
            ask_stop(self._store, self._run, CLUSTER)
            if not _until(lambda: self._store.run(self._run).fact.state.ended):
                self.tally.stuck.append(f"at its end: {self._store.run(self._run).fact}")
        for past in self._store.attempts(self._run):
            redone = max(0, past.iteration - past.snapshot)
            if past.state == "stopped":
                self.tally.planned += redone
            else:
                self.tally.redone += redone
        repeated, left_out = wrong(visits(self._folder / "record"), EXAMPLES)
        self.tally.repeated += repeated
        self.tally.left_out += left_out
        drawn = [n for n, _ in _Iterations(self._store, self._run).all()]
        self.tally.drawn_twice += len(drawn) - len({*drawn})


class _Iterations:
    """The iterations of rank 0 as the store has them."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self._run = store, run

    def all(self) -> list[tuple[int, float]]:
        points = self._store.points(self._run)
        return [(p.iteration, p.time) for p in points if p.name == "main/loss" and p.rank == 0]

    def since(self, moment: float) -> int:
        return sum(1 for _, time_ in self.all() if time_ >= moment)

    def first_after(self, moment: float) -> float:
        return min(time_ for _, time_ in self.all() if time_ > moment)

    def longest_gap(self, began: float) -> float:
        """Return the longest time without an iteration since shortly before ``began``."""
        times = sorted(time_ for _, time_ in self.all())
        later = [time_ for time_ in times if time_ >= began - 0.5]
        return max((b - a for a, b in itertools.pairwise(later)), default=0.0)


@contextmanager
def cluster(store: Store) -> Iterator[None]:
    """Have a cluster of two ranks of this machine."""
    ask_cluster(store, 2, cluster=CLUSTER, oversubscribe=True)
    assert _until(lambda: store.cluster_fact(CLUSTER).state is ClusterState.READY)
    try:
        yield
    finally:
        ask_down(store, cluster=CLUSTER)
        assert _until(lambda: not supervisor_is_awake(CLUSTER))


def _until(look: Callable[[], object], seconds: float = DEADLINE) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if look():
            return True
        time.sleep(0.05)
    return False
