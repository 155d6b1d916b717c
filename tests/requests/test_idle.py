"""Nodes that were given back come with the next run, and are asked about only if they cost more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.requests.test_resize import OFFER, RENTED, offering, unasked, up
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.cluster.size import Size
from workbench.core.fleet.cost import node_spent
from workbench.core.fleet.request import FleetRequest, Spelling, fleet_wish
from workbench.core.run.model import RunKind
from workbench.errors import InputError, PriceQuestion, StateError
from workbench.requests import cluster as requests_cluster
from workbench.requests.cluster import ask_keep, ask_size, is_released
from workbench.requests.run import ask_run
from workbench.store import Store

SPELLING = Spelling(lambda name: f"--{name.replace('_', '-')}", str)
FLEET = replace(RENTED, idle=900.0, asked=1_000.0, agreed=0.09)
CELL = {"kind": RunKind.CELL, "source": "pass"}


@pytest.fixture(autouse=True)
def unwoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no supervisor."""
    for module in ("cluster", "run"):
        monkeypatch.setattr(f"workbench.requests.{module}.wake_supervisor", lambda name: None)


def release(store: Store) -> None:
    up(store, FLEET)
    store.put_cluster_fact(
        ClusterFact("default", ClusterState.PAUSED, released=2_000.0, supervisor=1)
    )


def test_a_run_brings_nodes_back_at_the_price_that_was_agreed_to(store) -> None:
    release(store)
    before = store.cluster_wish("default")

    wish = ask_run(store, **CELL, market=offering(OFFER))

    assert [run.id for run in store.list_unfinished("default")] == [wish.id]
    assert store.cluster_wish("default").fleet == replace(before.fleet, agreed=0.09)


def test_a_run_asks_where_the_nodes_cost_more_than_that(store) -> None:
    release(store)
    dear = offering(replace(OFFER, price=0.08))

    with pytest.raises(PriceQuestion) as question:
        ask_run(store, **CELL, market=dear)

    assert "were given back, and this starts them again" in str(question.value)
    assert "$0.09/h were agreed to" in str(question.value)
    assert question.value.price == pytest.approx(0.16)
    assert not store.list_unfinished("default")

    ask_run(store, **CELL, market=dear, agreed=question.value.price)
    assert store.cluster_wish("default").fleet.agreed == pytest.approx(0.16)
    assert store.list_unfinished("default")


def test_a_cluster_that_has_its_nodes_is_not_asked_about(store) -> None:
    up(store, FLEET)

    ask_run(store, **CELL, market=unasked)

    assert store.list_unfinished("default")


def test_a_resize_brings_nodes_back_once_their_price_is_confirmed(store, monkeypatch) -> None:
    release(store)
    with pytest.raises(PriceQuestion) as question:
        ask_size(store, Size(nodes=2), market=offering(OFFER))

    wish = ask_size(store, Size(nodes=2), market=offering(OFFER), agreed=question.value.price)

    assert wish.fleet.nodes == 2
    assert not is_released(wish, store.cluster_fact("default"))


def test_kept_nodes_are_asked_for_from_then_on(store) -> None:
    up(store, FLEET)

    assert ask_keep(store, now=5_000.0).fleet.asked == 5_000.0


@pytest.mark.parametrize("fleet", [replace(FLEET, idle=0.0), replace(FLEET, nodes=0)])
def test_nodes_that_nothing_gives_back_need_not_be_kept(store, fleet) -> None:
    up(store, fleet)

    with pytest.raises(StateError, match="has no nodes that are given back"):
        ask_keep(store, now=5_000.0)


def test_nodes_that_are_gone_cannot_be_kept(store) -> None:
    release(store)

    with pytest.raises(StateError, match="given back already; the next run starts them again"):
        ask_keep(store, now=5_000.0)


@pytest.mark.parametrize(
    ("request_", "idle", "least"),
    [
        (FleetRequest("ec2"), 900.0, 1),
        (FleetRequest("rehearsal"), 900.0, 1),
        (FleetRequest("ec2", idle=0.0), 0.0, 1),
        (FleetRequest("ec2", idle=60.0, min_nodes=0, nodes=4), 60.0, 1),
        (FleetRequest("ec2", min_nodes=0, max_nodes=4), 900.0, 1),
    ],
)
def test_rented_nodes_are_given_back_after_a_quarter_of_an_hour(request_, idle, least) -> None:
    wish = fleet_wish(request_, SPELLING, now=7.0)

    assert wish is not None
    assert (wish.idle, wish.min_nodes, wish.asked) == (idle, least, 7.0)


def test_hosts_stay_unless_an_idle_time_is_given() -> None:
    hosts = requests_cluster.local_hosts()

    kept = fleet_wish(FleetRequest("hosts", hosts), SPELLING, now=7.0)
    given = fleet_wish(FleetRequest("hosts", hosts, idle=60.0), SPELLING, now=7.0)

    assert (kept.idle, kept.asked, given.idle) == (0.0, 7.0, 60.0)


def test_no_node_at_all_contradicts_nodes_that_never_go() -> None:
    with pytest.raises(InputError, match="--min-nodes is 0, but --idle keeps all nodes"):
        fleet_wish(FleetRequest("ec2", min_nodes=0, idle=0.0), SPELLING, now=7.0)


@pytest.mark.parametrize(
    ("minutes", "dollars"), [(22.5, 0.32), (37.5, 0.53), (8 * 60, 6.82), (169 * 60, 144.14)]
)
def test_a_job_of_twenty_minutes_on_four_nodes_costs_what_the_docs_say(minutes, dollars) -> None:
    disk_and_address = 0.00822 + 0.005

    one = node_spent(((0.0, 0.20),), 1.0, 1.0 + 60 * minutes, extra_price=disk_and_address)

    assert 4 * one == pytest.approx(dollars, abs=0.005)
