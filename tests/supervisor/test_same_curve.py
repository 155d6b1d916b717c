"""A training that gains and loses nodes, with and without a notice, is the undisturbed one.

The nodes are those of the rehearsal; supervisor, hand-overs, snapshots and ranks are real.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TypeVar

import pytest

from tests.chaos.examples import visits
from tests.engine.trainings import once
from tests.waiting import until
from workbench.core.cluster.model import ClusterState
from workbench.core.cluster.size import Size
from workbench.core.fleet.model import FleetWish, NodeState
from workbench.core.run.model import RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.requests.cloud_queries import ask_interruption
from workbench.requests.cluster import ask_cluster, ask_down, ask_size
from workbench.requests.run import ask_run
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store

pytestmark = [pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(240)]

T = TypeVar("T")
NAME = "curve"
PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES, BATCH, EPOCHS = 960, 64, 12
PAUSE_SECONDS = 1.0  # of a step, while nodes come and go
NOTICE_SECONDS = 60.0
PATH = [2, 4, 3, 1, 4]
DEADLINE = 90.0


@dataclass(frozen=True)
class Trained:
    """What became of a training.

    Args:
        final: Loss and accuracy on examples that were not trained on, and iterations.
        curve: Loss by iteration, the mean of the ranks that report it.
        path: The ranks of its attempts, in order.
        why: Why each of them ended but the last.
        visited: How often each example was visited, by epoch.
    """

    final: dict[str, float]
    curve: dict[int, float]
    path: list[int]
    why: list[str]
    visited: dict[int, Counter[int]]


class Training:
    """A training on the rehearsal's nodes.

    Args:
        cost: Seconds that a snapshot takes.
    """

    def __init__(
        self, store: Store, folder: Path, program: str, seed: int, cost: float = 0.0
    ) -> None:
        self._store, self._folder = store, folder
        folder.mkdir()
        self.linger(PAUSE_SECONDS)
        self.run = ask_run(
            store,
            kind=RunKind.CELL,
            source=(PROGRAMS / program).read_text(encoding="utf-8"),
            cluster=NAME,
            options=RunOptions(
                parameters=(
                    ("record", str(folder)),
                    ("seed", seed),
                    ("epochs", EPOCHS),
                    ("cost", cost),
                )
            ),
        ).id

    def linger(self, seconds: float) -> None:
        """Have each step take so much longer."""
        part = self._folder / "part"
        part.write_text(str(seconds))
        part.rename(self._folder / "pause")

    def trains(self, ranks: int) -> None:
        """Wait until it has done an iteration on so many ranks, and has a snapshot."""

        def does() -> bool:
            fact = self._store.run(self.run).fact
            assert not fact.state.ended, fact.message
            is_saved = self._store.attempts.newest_snapshot(self.run) >= 0
            return fact.ranks == ranks and fact.iteration > max(fact.resumed_at, 0) + 1 and is_saved

        until(does, what=f"a step on {ranks} ranks", seconds=DEADLINE)

    def trained(self) -> Trained:
        self.linger(0.0)
        until(lambda: self._store.run(self.run).fact.state.ended, what="the end", seconds=DEADLINE)
        fact = self._store.run(self.run).fact
        assert fact.state is RunState.FINISHED, fact.message
        past = self._store.attempts.past(self.run)
        losses = defaultdict[int, list[float]](list)
        for point in self._store.reports.points(self.run):
            if point.name in ("loss", "main/loss"):
                losses[point.iteration].append(point.value)
        return Trained(
            json.loads((self._folder / "final.json").read_text()),
            {n: fmean(losses[n]) for n in sorted(losses)},
            [*(one.ranks for one in past), fact.ranks],
            [one.message for one in past],
            visits(self._folder),
        )


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store() as store:
        ask_cluster(store, cluster=NAME, fleet=FleetWish("rehearsal", nodes=2))
        yield store
        ask_down(store, cluster=NAME)
        until(lambda: not supervisor_is_awake(NAME), what="the supervisor's end", seconds=DEADLINE)


def ready(store: Store, nodes: int) -> list[str]:
    """Wait until the world has so many nodes, and return their ids."""

    def joined() -> list[str]:
        fact = store.cluster_fact(NAME)
        ids = [one.id for one in store.fleets.nodes(NAME) if one.state is NodeState.JOINED]
        is_ready = fact.state is ClusterState.READY and fact.ranks == nodes
        return ids if is_ready and len(ids) >= nodes else []

    return until(joined, what=f"{nodes} nodes", seconds=DEADLINE)


def disturbed(store: Store, folder: Path, program: str, seed: int) -> Trained:
    """Train on 2, 4, 3, 1 and 4 nodes: a node vanishes, and two are reclaimed with a notice."""
    training = Training(store, folder, program, seed)
    training.trains(2)
    ask_size(store, Size(nodes=4), cluster=NAME)
    training.trains(4)
    ask_interruption(store, "", 0.0, cluster=NAME)
    ask_size(store, Size(nodes=3), cluster=NAME)  # no other node is to take its place
    training.trains(3)
    for node in ready(store, 3)[1:3]:
        ask_interruption(store, node, NOTICE_SECONDS, cluster=NAME)
    ask_size(store, Size(nodes=1), cluster=NAME)
    training.trains(1)
    ask_size(store, Size(nodes=4), cluster=NAME)
    training.trains(4)
    return training.trained()


def undisturbed(store: Store, folder: Path, program: str, seed: int) -> Trained:
    training = Training(store, folder, program, seed)
    return training.trained()


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "program",
    [
        "digits_loop.py",
        "digits_training.py",
        pytest.param("digits_trainer.py", marks=pytest.mark.torch),
    ],
)
def test_a_training_that_gains_and_loses_nodes_is_the_undisturbed_one(
    store: Store, tmp_path: Path, program: str, seed: int
) -> None:
    if program == "digits_trainer.py":
        pytest.importorskip("transformers", reason="transformers is no requirement")
    ask_size(store, Size(nodes=2), cluster=NAME)
    ready(store, 2)

    whole = undisturbed(store, tmp_path / "undisturbed", program, seed)
    moved = disturbed(store, tmp_path / "disturbed", program, seed)

    print(json.dumps([program, seed, whole.final, moved.final, moved.path, moved.why]))
    if program != "digits_training.py":
        worst = max(abs(moved.curve[n] / whole.curve[n] - 1) for n in whole.curve)
        print(f"{len(whole.curve)} losses, which differ by {worst:.1e} at most")
    iterations = EPOCHS * EXAMPLES // BATCH
    assert [*whole.curve] == [*moved.curve] == [*range(1, 1 + iterations)]
    assert whole.path == [2]
    rest = iter(moved.path)
    assert all(ranks in rest for ranks in PATH), moved.path  # some may be passed through in between
    assert any("was lost" in one for one in moved.why)
    assert whole.visited == moved.visited == once(EPOCHS, EXAMPLES)
    if program != "digits_training.py":
        assert moved.curve == pytest.approx(whole.curve, rel=1e-3)
        assert moved.final == pytest.approx(whole.final, rel=1e-3)
    else:  # Chainer's own order on the first ranks, and the common one after them
        assert moved.final["accuracy"] == pytest.approx(whole.final["accuracy"], abs=0.02)
        assert moved.final["loss"] == pytest.approx(whole.final["loss"], rel=0.2)
