"""A cluster with nothing to do gives its nodes back, and the next run has them again.

The supervisor here is killed between any two writes, nodes are lost, and runs come while nodes go.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.supervisor.test_histories import TOTAL, History
from tests.weekly import WEEKLY
from workbench.core.cluster.model import ClusterState, WhenDone
from workbench.core.fleet.model import FleetWish, NodeState
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.run_options import RunOptions
from workbench.store import Store

HISTORIES = 400 if WEEKLY else 5
LIMIT = 30.0
# Two writes that wait for each other, a supervisor that is away, and worlds that end.
SLACK = 30.0
BOOT = 130.0


class IdleHistory(History):
    """One seeded life of a cluster that gives its nodes back."""

    runs = 0

    def ask(self, nodes: int) -> None:
        now = self.moment().wall
        fleet = FleetWish("rehearsal", nodes=nodes, slots=1, idle=LIMIT, asked=now)
        self.store.wish_cluster(self.name, up=True, ranks=0, fleet=fleet)

    def check_departures(self) -> None:
        """Nothing is asked of departures here."""

    def queue(self, done: WhenDone | None = None) -> None:
        """Ask for another run."""
        self.runs += 1
        seed = int(self.name[1:])
        wish = RunWish(
            f"260102-{seed % 10**6:06}-aaa{chr(97 + self.runs % 26)}",
            f"{self.name}-{self.runs}",
            RunKind.CELL,
            "",
            self.name,
            options=RunOptions(when_done=done, retries=20),
        )
        self.run = self.store.wish_run(wish).id

    def until_ended(self) -> None:
        end = self.clock.now + 1_000.0
        while not self.fact().state.ended:
            assert self.clock.now < end, self.fact()
            self.turn()

    def pass_time(self, seconds: float) -> None:
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.turn()

    @property
    def paid(self) -> int:
        """How many nodes there are that were not taken by the provider."""
        return sum(id_ not in self.places.taken for id_ in self.places.nodes)


@pytest.mark.parametrize("seed", range(700_000, 700_000 + HISTORIES))
def test_nodes_go_when_there_is_nothing_to_do_and_come_back_for_every_run(stores, seed) -> None:
    history = IdleHistory(*stores, seed)
    history.cluster.is_kind = True
    history.until_ended()
    for _ in range(3):
        done = history.chance.choice([None, None, WhenDone.RELEASE, WhenDone.KEEP])
        # It may come while the nodes have nothing to do, while they go, or when they are gone.
        history.pass_time(history.chance.choice([0.0, LIMIT - 1.0, LIMIT, LIMIT + 0.3, 100.0]))
        history.queue(done)
        if history.chance.random() < 0.5:
            history.pass_time(history.chance.choice([0.1, 2.0]))
            history.chance.choice([history.revive, history.lose])()
        history.until_ended()
        assert history.fact().state is RunState.FINISHED, history.fact()
        assert history.fact().iteration == TOTAL
        if done is WhenDone.RELEASE:
            history.pass_time(SLACK / 2)
            assert not history.paid
    history.pass_time(LIMIT + SLACK)
    history.relent()

    assert not history.paid
    assert history.store.cluster_fact(history.name).state is ClusterState.PAUSED
    assert history.store.cluster_wish(history.name).fleet.nodes == history.nodes


def kind(stores: tuple[Store, Store], seed: int) -> IdleHistory:
    """Return a history in which nothing goes wrong, after its first run."""
    history = IdleHistory(*stores, seed)
    history.relent()
    history.cluster.is_kind = True
    history.until_ended()
    return history


def test_it_is_announced_and_a_kept_cluster_stays_for_as_long_again(stores) -> None:
    history = kind(stores, 800_001)
    history.pass_time(LIMIT - 8.0)
    fact = history.store.cluster_fact(history.name)
    assert fact.message.startswith("There is nothing to do: ")
    assert 0 < fact.releases - history.moment().wall <= LIMIT / 3

    wish = history.store.cluster_wish(history.name)
    kept = replace(wish.fleet, asked=history.moment().wall)
    history.store.wish_cluster(history.name, up=True, ranks=0, fleet=kept)
    history.pass_time(LIMIT - 5.0)
    assert history.paid

    history.pass_time(20.0)
    assert not history.paid


def test_a_new_supervisor_neither_buys_again_nor_waits_longer(stores) -> None:
    history = kind(stores, 800_002)
    history.pass_time(LIMIT / 2)
    history.start()
    history.pass_time(LIMIT / 2 + 12.0)
    assert not history.paid

    history.start()
    history.pass_time(BOOT)
    assert not history.paid


def test_a_run_that_stops_in_the_queue_holds_the_nodes_for_the_limit_alone(stores) -> None:
    history = kind(stores, 800_003)
    history.pass_time(LIMIT + 20.0)
    history.queue()
    history.pass_time(0.5)
    history.store.wish_stop(history.run)
    history.pass_time(BOOT + LIMIT + 20.0)

    assert history.fact().state is RunState.STOPPED
    assert not history.paid


def test_a_lost_node_of_an_idle_cluster_starts_no_new_idle_time(stores) -> None:
    history = kind(stores, 800_004)
    history.pass_time(LIMIT / 2)
    history.lose()
    history.pass_time(LIMIT / 2 + 12.0)

    assert not history.paid


def test_a_cluster_is_deleted_when_the_last_run_has_ended_that_says_so(stores) -> None:
    history = kind(stores, 800_005)
    history.queue(WhenDone.DELETE)
    first = history.run
    history.queue()
    history.until_ended()
    assert history.store.run(first).fact.state is RunState.FINISHED

    while history.supervisor.tick():
        history.clock.now += 0.2
        history.cluster.turn()

    assert not history.store.cluster_wish(history.name).up
    assert history.store.cluster_fact(history.name).state is ClusterState.DOWN


def test_a_node_that_is_being_set_up_is_not_idle(stores) -> None:
    history = kind(stores, 800_006)
    history.pass_time(LIMIT + 20.0)
    history.ask(history.nodes)
    history.pass_time(1.0)

    while any(node.state is not NodeState.JOINED for node in history.places.nodes.values()):
        assert not history.store.cluster_fact(history.name).released
        history.turn()
    history.pass_time(LIMIT / 2)
    assert history.paid
