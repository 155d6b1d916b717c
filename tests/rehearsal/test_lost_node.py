"""A node vanishes without a word while a run trains, which continues on the others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from tests.rehearsal.hosts import Hosts, until
from tests.rehearsal.listed_hosts import cluster_on, log_in
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import RunFact, RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.requests.run import ask_run, ask_stop
from workbench.store import Store

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(300),
]  # fmt: skip

NAME = "lost"
PROGRAMS = Path(__file__).parents[1] / "supervisor" / "programs"
TRAINING, OWN = PROGRAMS / "slow_training.py", PROGRAMS / "own_checkpoints.py"
LAST_STEP_SECONDS = 0.3


@pytest.fixture
def hosts(possible: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """Give three hosts that a person can log in to, and that share a folder."""
    (tmp_path / "shared").mkdir()
    with Hosts(3, shared=[tmp_path / "shared"]) as hosts:
        log_in(hosts, NAME, tmp_path, monkeypatch)
        yield hosts


@pytest.fixture
def store(hosts: Hosts) -> Iterator[Store]:
    """Give the store of a cluster on the hosts, a rank on each."""
    with cluster_on(hosts, NAME, 3) as store:
        yield store


def test_a_run_continues_seconds_after_the_cable_of_a_node_was_pulled(
    hosts: Hosts, store: Store
) -> None:
    source = TRAINING.read_text(encoding="utf-8")
    run = ask_run(
        store,
        kind=RunKind.CELL,
        source=source,
        cluster=NAME,
        options=RunOptions(parameters=(("epochs", 1_000),)),
    ).id
    until(lambda: store.attempts.newest_snapshot(run) != NONE, "a snapshot", said=store.run(run))
    time.sleep(1.0)

    began = time.time()
    hosts[1].cut()

    def later() -> list[float]:
        points = [p for p in store.reports.points(run) if p.name == "main/loss" and p.rank == 0]
        return [p.time for p in points if p.time > began + LAST_STEP_SECONDS]

    until(later, "a step on the others", said=lambda: store.run(run).fact)
    seconds = min(later()) - began
    fact = store.run(run).fact
    print(f"{seconds:.2f} s from the loss to the next step; {fact.message}")
    ask_stop(store, run, NAME)

    assert (fact.attempt, fact.ranks) == (2, 2)
    assert "out of reach" in fact.message or "its node is gone" in fact.message


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

    until(lambda: fact().iteration >= 7 or fact().state.ended, "steps", said=fact)

    hosts[1].cut()

    until(lambda: fact().state.ended, "the end", said=fact)
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
