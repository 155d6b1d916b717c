"""A training over ssh grows from one host to eight while it trains, and shrinks to two."""

from __future__ import annotations

import pytest

from tests.rehearsal.listed_hosts import hosts_and_store, start_training
from tests.waiting import until
from workbench.core.cluster.size import Size
from workbench.core.recovery.resumption import ContinuationCause, continuations
from workbench.core.run.model import RunState
from workbench.requests.cluster import ask_size
from workbench.requests.run import ask_stop
from workbench.store import Store

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(600),
]  # fmt: skip

NAME = "growing"


hosts, store = hosts_and_store(NAME, 8, nodes=1)


def test_a_training_grows_to_eight_hosts_and_shrinks_to_two_without_a_lost_step(
    store: Store,
) -> None:
    run = start_training(store, NAME)

    for attempt, nodes in ((2, 8), (3, 2)):
        ask_size(store, Size(None, nodes), cluster=NAME)

        def has_moved(attempt: int = attempt) -> bool:
            fact = store.run(run).fact
            return fact.attempt == attempt and fact.iteration > fact.resumed_at > 0

        until(
            has_moved,
            what=f"an iteration on {nodes} hosts",
            said=lambda: store.run(run).fact,
            seconds=180,
        )
        assert store.run(run).fact.ranks == nodes

    ask_stop(store, run, NAME)
    until(lambda: store.run(run).fact.state.ended, what="the end")
    fact, past = store.run(run).fact, store.attempts.past(run)
    assert fact.state is RunState.STOPPED
    found = [(one.cause, one.redone, one.before, one.ranks) for one in continuations(past, fact)]
    assert found == [(ContinuationCause.MOVE, 0, 1, 8), (ContinuationCause.MOVE, 0, 8, 2)]
