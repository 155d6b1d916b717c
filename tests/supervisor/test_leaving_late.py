"""A run trains on a node with a notice until another one is ready, and moves once.

The nodes are those of the rehearsal; supervisor, hand-overs, snapshots and ranks are real.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.trainings import once
from tests.supervisor.test_same_curve import BATCH, EPOCHS, EXAMPLES, NAME, Training, ready
from tests.waiting import until
from workbench.core.fleet.model import FleetWish, NodeState
from workbench.core.recovery.snapshots import REDONE_SECONDS
from workbench.requests.cloud_queries import ask_interruption, ask_replay
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(240)]

NOTICE_SECONDS = 90.0
NODES = 3
SAVE_SECONDS = 0.3  # so that snapshots are minutes apart


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store() as store:
        ask_cluster(store, cluster=NAME, fleet=FleetWish("rehearsal", nodes=NODES))
        yield store
        ask_down(store, cluster=NAME)
        until(lambda: not supervisor_is_awake(NAME), what="the supervisor's end")


@pytest.mark.parametrize("noticed", [1, pytest.param(NODES, marks=pytest.mark.weekly)])
def test_nodes_with_notices_are_left_by_one_move_without_a_step_lost(
    store: Store, tmp_path: Path, noticed: int
) -> None:
    before = ready(store, NODES)[:NODES]
    training = Training(store, tmp_path / "training", "digits_loop.py", noticed)
    training.trains(NODES)
    taken = before[NODES - noticed :]

    for node in taken:
        ask_interruption(store, node, NOTICE_SECONDS, cluster=NAME)
    until(lambda: len(store.attempts.past(training.run)) == 1, what="the move")
    training.trains(NODES)
    trained = training.trained()

    [left] = store.attempts.past(training.run)
    nodes = {node.id: node for node in store.fleets.nodes(NAME, gone=True)}
    print(json.dumps([trained.path, left.message, left.iteration]))
    assert trained.path == [NODES, NODES]
    assert all(node in left.left_nodes for node in taken), left
    assert store.run(training.run).fact.resumed_at == left.iteration
    assert [*trained.curve] == [*range(1, 1 + EPOCHS * EXAMPLES // BATCH)]
    assert trained.visited == once(EPOCHS, EXAMPLES)
    assert not any(nodes[id_].state is NodeState.JOINED for id_ in taken)


def test_a_node_that_is_taken_before_its_deadline_costs_the_steps_since_its_notice(
    store: Store, tmp_path: Path
) -> None:
    ready(store, NODES)
    training = Training(store, tmp_path / "training", "digits_loop.py", 4, SAVE_SECONDS)
    training.trains(NODES)
    first = store.attempts.newest_snapshot(training.run)
    old = time.monotonic() + REDONE_SECONDS  # then it is worth another one
    until(lambda: time.monotonic() > old, what="an old snapshot")
    before = store.run(training.run).fact.iteration

    recording = f"0,{NODES}\n{NOTICE_SECONDS:.0f},{NODES - 1}\n600,{NODES - 1}"
    ask_replay(  # so that no other node is there before the deadline
        *(store, recording, "a recording"),
        **{"speed": 1.0, "skip": 0.0, "span": 0.0, "notice": NOTICE_SECONDS},
        now=time.time(),
        cluster=NAME,
    )
    saved = until(
        lambda: max(0, store.attempts.newest_snapshot(training.run) - first), what="a snapshot"
    )
    saved += first
    until(lambda: store.run(training.run).fact.iteration > saved + 2, what="steps after it")
    assert not store.attempts.past(training.run), "it has left its ranks"
    noticed = [one for one in store.fleets.nodes(NAME) if one.reclaimed]
    [node] = [one.id for one in noticed if one.state is NodeState.JOINED]
    ask_interruption(store, node, 0.0, cluster=NAME)
    until(lambda: store.run(training.run).fact.resumed_at >= 0, what="the next attempt")
    trained = training.trained()

    lost = store.attempts.past(training.run)[0]
    print(json.dumps([trained.path, before, saved, lost.message, lost.iteration]))
    assert saved >= before
    assert "was lost" in lost.message
    assert lost.iteration > saved
    resumed = [*(one.resumed_at for one in store.attempts.past(training.run)[1:])]
    assert [*resumed, store.run(training.run).fact.resumed_at][0] == saved
    assert [*trained.curve] == [*range(1, 1 + EPOCHS * EXAMPLES // BATCH)]
    assert trained.visited == once(EPOCHS, EXAMPLES)
