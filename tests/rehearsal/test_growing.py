"""A training over ssh grows from one host to eight while it trains, and shrinks to two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearsal.hosts import Hosts, until
from tests.rehearsal.listed_hosts import cluster_on, log_in
from workbench.core.cluster.size import Size
from workbench.core.recovery.resumption import NONE, ContinuationCause, continuations
from workbench.core.run.model import RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.requests.cluster import ask_size
from workbench.requests.run import ask_run, ask_stop
from workbench.store import Store

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(600),
]  # fmt: skip

NAME = "growing"
PROGRAMS = Path(__file__).parents[1] / "supervisor" / "programs"
TRAINING = PROGRAMS / "slow_training.py"


@pytest.fixture
def hosts(possible: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """Give eight hosts that a person can log in to."""
    with Hosts(8) as hosts:
        log_in(hosts, NAME, tmp_path, monkeypatch)
        yield hosts


@pytest.fixture
def store(hosts: Hosts) -> Iterator[Store]:
    """Give the store of a cluster on one of the hosts."""
    with cluster_on(hosts, NAME, 1) as store:
        yield store


def test_a_training_grows_to_eight_hosts_and_shrinks_to_two_without_a_lost_step(
    store: Store,
) -> None:
    run = ask_run(
        store,
        kind=RunKind.CELL,
        source=TRAINING.read_text(encoding="utf-8"),
        cluster=NAME,
        options=RunOptions(parameters=(("epochs", 100_000),)),
    ).id
    until(lambda: store.attempts.newest_snapshot(run) != NONE, "a snapshot", seconds=120)

    for attempt, nodes in ((2, 8), (3, 2)):
        ask_size(store, Size(None, nodes), cluster=NAME)

        def has_moved(attempt: int = attempt) -> bool:
            fact = store.run(run).fact
            return fact.attempt == attempt and fact.iteration > fact.resumed_at > 0

        until(has_moved, f"an iteration on {nodes} hosts", lambda: store.run(run).fact, 180)
        assert store.run(run).fact.ranks == nodes

    ask_stop(store, run, NAME)
    until(lambda: store.run(run).fact.state.ended, "the end")
    fact, past = store.run(run).fact, store.attempts.past(run)
    assert fact.state is RunState.STOPPED
    found = [(one.cause, one.redone, one.before, one.ranks) for one in continuations(past, fact)]
    assert found == [(ContinuationCause.MOVE, 0, 1, 8), (ContinuationCause.MOVE, 0, 8, 2)]
