"""On a full disk, runs continue, nodes are deleted as requested, and nothing is lost."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.supervisor.conftest import NAME
from tests.supervisor.conftest import Stage as Clustered
from tests.supervisor.fleets import Stage
from workbench.core.run.model import RunState
from workbench.core.run.rank_protocol import Acknowledge
from workbench.errors import StoreUnavailable


@contextmanager
def no_room() -> Iterator[None]:
    """Let no file of this process be written any further."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def rented(store) -> Stage:
    """Two simulated nodes that could carry a world."""
    stage = Stage(store)
    stage.ask(2)
    stage.ready(2)
    return stage


def test_nodes_go_from_a_disk_that_takes_nothing(rented) -> None:
    rented.wish = replace(rented.wish, up=False, revision=rented.wish.revision + 1)

    with no_room():
        for _ in range(40):
            try:
                rented.turn()
            except StoreUnavailable:  # that nothing is left cannot be written either
                break

    assert rented.paid() == []
    rented.until(lambda fleet: fleet.finished)
    assert rented.store.fleets.nodes("lab", gone=True) == []


def test_what_nodes_cost_meanwhile_is_written_afterwards(rented) -> None:
    with no_room():
        for _ in range(20):
            rented.turn(60.0)
    before = rented.store.fleets.spent("lab")

    rented.turn(60.0)

    assert rented.store.fleets.spent("lab") > before + 19 / 60 * 2 * 0.01


def test_nothing_is_bought_that_cannot_be_written_down(store) -> None:
    stage = Stage(store)
    stage.ask(2)

    with no_room():
        fleets = [stage.turn(10.0) for _ in range(10)]

    assert stage.paid() == []
    assert "cannot be" in fleets[-1].message
    stage.ready(2)


@pytest.fixture
def up(store) -> Iterator[Clustered]:
    """A fake cluster of two ranks that is up."""
    stage = Clustered(store)
    stage.up(2)
    yield stage
    stage.close()


def test_a_run_continues_and_every_point_is_there_afterwards(up) -> None:
    run = up.ask("for i in range(200): report(loss=i); sleep(0.03)")
    up.until(lambda: up.store.reports.points(run))

    with no_room():
        for _ in range(20):
            assert up.supervisor.tick()
        held = len(up.store.reports.points(run))

    assert held < 200
    assert up.ended(run).fact.state is RunState.FINISHED
    for rank in range(2):
        points = [p.iteration for p in up.store.reports.points(run) if p.rank == rank]
        assert points == [*range(1, 201)]


def test_an_end_that_could_not_be_written_is_written_later(up) -> None:
    run = up.ask("while True: report(loss=1); sleep(0.03)")
    up.until(lambda: up.store.reports.points(run))
    up.store.wish_stop(run)

    with no_room():
        for _ in range(30):
            up.supervisor.tick()

    assert up.store.run(run).fact.state is not RunState.STOPPED
    up.cluster.send(1, (0, 1), Acknowledge(run, 0, resend=True))  # real ranks do so unasked
    assert up.ended(run).fact.state is RunState.STOPPED


def test_a_supervisor_ends_only_when_its_end_is_written(up) -> None:
    up.store.wish_cluster(NAME, up=False, ranks=2)

    with no_room():
        assert all(up.supervisor.tick() for _ in range(4))

    while up.supervisor.tick():
        pass
    assert up.store.cluster_fact(NAME).state == "down"


def test_the_time_to_live_ends_on_a_full_disk_too(rented, up) -> None:
    up.supervisor._wish = replace(
        up.supervisor._wish, fleet=replace(up.supervisor._wish.fleet, expires=1.0)
    )

    with no_room():
        up.supervisor._end_in_time()

    assert not up.supervisor._wish.up
