"""A node vanishes without a word while a run trains, which continues on the others."""

from __future__ import annotations

import time
from pathlib import Path

import numpy
import pytest

from tests.rehearsal.hosts import Hosts
from tests.rehearsal.listed_hosts import hosts_and_store, start_training
from tests.waiting import until
from workbench.core.run.model import RunFact, RunKind, RunState
from workbench.core.run.run_options import EVERY_VARIABLE, RunOptions
from workbench.requests.run import ask_run, ask_stop
from workbench.store import Store

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(300),
]  # fmt: skip

NAME = "lost"
OWN = Path(__file__).parents[1] / "supervisor" / "programs" / "own_checkpoints.py"
LAST_STEP_SECONDS = 0.3


hosts, store = hosts_and_store(NAME, 3, nodes=3, shared=True)


def test_a_run_continues_seconds_after_the_cable_of_a_node_was_pulled(
    hosts: Hosts, store: Store
) -> None:
    # So often that the newest one is of steps whose points have not left their node.
    run = start_training(store, NAME, environment=((EVERY_VARIABLE, "0.2"),))
    time.sleep(1.0)

    began = time.time()
    hosts[1].cut()

    def later() -> list[float]:
        points = [p for p in store.reports.points(run) if p.name == "main/loss" and p.rank == 0]
        return [p.time for p in points if p.time > began + LAST_STEP_SECONDS]

    until(later, what="a step on the others", said=lambda: store.run(run).fact)
    seconds = min(later()) - began
    fact = store.run(run).fact
    print(f"{seconds:.2f} s from the loss to the next step; {fact.message}")
    ask_stop(store, run, NAME)
    until(lambda: store.run(run).fact.state.ended, what="the end", said=lambda: store.run(run).fact)

    assert (fact.attempt, fact.ranks) == (2, 2)
    assert "out of reach" in fact.message or "its node is gone" in fact.message
    assert curves(store, run) == [
        [*range(1, last + 1)] for last in (*[store.run(run).fact.iteration] * 2, fact.resumed_at)
    ]


def curves(store: Store, run: str) -> list[list[int]]:
    """Return the iterations of the losses of each of the first ranks, in order."""
    points = [p for p in store.reports.points(run) if p.name == "main/loss"]
    return [[p.iteration for p in points if p.rank == rank] for rank in range(3)]


def test_a_script_with_its_own_checkpoints_starts_again_on_the_other_hosts(
    hosts: Hosts, store: Store, tmp_path: Path
) -> None:
    run = ask_run(
        store,
        kind=RunKind.SCRIPT,
        source=OWN.read_text(encoding="utf-8"),
        path=str(OWN),
        options=RunOptions(arguments=(str(tmp_path / "shared" / "own.npz"), "0.1"), restart=True),
        cluster=NAME,
    ).id

    def fact() -> RunFact:
        return store.run(run).fact

    until(lambda: fact().iteration >= 7 or fact().state.ended, what="steps", said=fact)

    hosts[1].cut()

    until(lambda: fact().state.ended, what="the end", said=fact)
    ended = store.run(run).fact
    (lost,) = store.attempts.past(run)
    points = [p for p in store.reports.points(run) if p.name == "loss" and p.rank == 0]
    assert (ended.state, ended.attempt, ended.ranks) == (RunState.FINISHED, 2, 2), ended
    assert "out of reach" in lost.message or "its node is gone" in lost.message
    assert "Retry" not in lost.message  # a lost node is no failure of the run
    assert ended.resumed_at in range(5, 30, 5)
    assert {p.iteration: p.value for p in points} == pytest.approx(expected(), rel=1e-9)
    assert len(points) == 30


def expected() -> dict[int, float]:
    """Return the losses of the script by iteration, which do not depend on the ranks."""
    x = numpy.random.RandomState(0).rand(60, 4)
    w, losses = numpy.zeros(4), {}
    for step in range(1, 31):
        error = x @ w - x.sum(axis=1)
        losses[step] = float(error @ error) / len(x)
        w = w - 0.2 * x.T @ error / len(x)
    return losses
