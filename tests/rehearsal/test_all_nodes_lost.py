"""All nodes of a training are taken back at once; it continues on others, or begins again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.listed_hosts import ask_training
from tests.rehearsal.test_ec2_cluster import NAME, Shell, open_shell, until
from workbench.core.fleet.model import NodeState
from workbench.core.recovery.resumption import NO_COPY
from workbench.node.snapshot_folder import manifests
from workbench.requests.run import ask_stop
from workbench.store.paths import snapshot_directory

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(600),
]  # fmt: skip


@pytest.fixture
def shell(one_endpoint: Endpoint, tmp_path: Path) -> Iterator[Shell]:
    with open_shell(one_endpoint, tmp_path) as shell:
        yield shell


def test_a_training_outlives_all_of_its_nodes(shell: Shell) -> None:
    store = shell.store
    shell.up(2)
    first = until(lambda: shell.joined(2), what="two nodes", said=shell.log)
    run = ask_training(store, NAME)
    until(lambda: manifests(snapshot_directory(run), run), what="a copy here", said=shell.log)

    for node in first:
        shell.endpoint.interrupt(node.id, 0)

    until(lambda: store.run(run).fact.resumed_at > 0, what="the next attempt", said=shell.log)
    there = {node.id for node in shell.nodes(NodeState.JOINED)}
    fact = store.run(run).fact
    assert there.isdisjoint(node.id for node in first)
    assert fact.attempt > 1
    assert fact.resumed_at >= 5
    resumed_at = fact.resumed_at
    until(lambda: store.run(run).fact.iteration > resumed_at, what="an iteration", said=shell.log)

    ask_stop(store, run, NAME)
    until(lambda: store.run(run).fact.state.ended, what="the end", said=shell.log)
    stopped_at = store.run(run).fact.stopped_at

    def last() -> int:
        return max(one.iteration for one in manifests(snapshot_directory(run), run))

    until(lambda: last() == stopped_at, what="the copy of its end", said=shell.log)
    shell.do("delete", "--cluster", NAME)
    assert last() == stopped_at
    shell.nothing_is_left()


def test_a_training_whose_only_copies_are_gone_begins_again(shell: Shell) -> None:
    store = shell.store
    shell.up(1)
    (first,) = until(lambda: shell.joined(1), what="a node", said=shell.log)
    run = ask_training(store, NAME)
    here = snapshot_directory(run)
    here.parent.mkdir(parents=True, exist_ok=True)
    here.touch()  # in the way of copies
    until(lambda: store.attempts.newest_snapshot(run) >= 0, what="a snapshot", said=shell.log)

    shell.endpoint.interrupt(first.id, 0)
    until(lambda: store.run(run).fact.attempt == 2, what="the loss", said=shell.log)
    here.unlink()

    until(lambda: store.run(run).fact.resumed_at == 0, what="the next attempt", said=shell.log)
    until(
        lambda: store.attempts.newest_snapshot(run) >= 0, what="its first snapshot", said=shell.log
    )
    fact = store.run(run).fact
    assert f"{NO_COPY} It begins again at iteration 0, on 1 rank." in fact.message
    ask_stop(store, run, NAME)
    until(lambda: store.run(run).fact.state.ended, what="the end", said=shell.log)
    shell.do("delete", "--cluster", NAME)
    shell.nothing_is_left()
