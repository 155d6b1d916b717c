"""A sweep is asked for and continued with limits of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.run.model import RunKind
from workbench.core.run.run_options import RunOptions
from workbench.core.run.sweep import SweepFact, SweepWish
from workbench.errors import InputError, StateError
from workbench.requests import sweep as requests
from workbench.requests.sweep import ask_sweep, extend_sweep
from workbench.store import Store

OPTIONS = RunOptions(parameters=(("lr", [0.1, 0.2]),))


@pytest.fixture(autouse=True)
def asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "wake_supervisor", lambda cluster: None)


def ask(store: Store, **given: object) -> SweepWish:
    given = {"minimize": "loss", **given}
    return ask_sweep(store, OPTIONS, given=given, name="fit", kind=RunKind.CELL, source="pass")


@pytest.fixture
def rented(store: Store) -> Store:
    """Give a store whose cluster's node has cost $3."""
    store.wish_cluster("default", up=True, ranks=0, fleet=FleetWish("rehearsal", nodes=1))
    store.fleets.put_nodes("default", [Node("n", NodeState.JOINED, price=1.0, spent=3.0)])
    return store


def test_a_budget_counts_from_what_the_cluster_had_cost(rented: Store) -> None:
    sweep = ask(rented, sweep_budget=2.0, sweep_limit=60.0)

    assert (sweep.budget, sweep.wall_clock_limit, sweep.base) == (2.0, 60.0, 3.0)
    assert sweep.began == sweep.created


def test_a_budget_on_nodes_that_cost_nothing_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match=r"cost nothing.*--sweep-limit"):
        ask(store, sweep_budget=2.0)

    assert store.sweeps.names() == []


def test_a_sweep_whose_budget_is_used_up_needs_a_larger_one(rented: Store) -> None:
    sweep = ask(rented, sweep_budget=2.0)
    rented.sweeps.close(sweep.id, SweepFact("Its budget is used up.", spent=2.0))
    rented.fleets.put_nodes("default", [Node("n", NodeState.JOINED, price=1.0, spent=6.0)])

    with pytest.raises(InputError, match="larger one"):
        extend_sweep(rented, "fit", {})
    longer = extend_sweep(rented, "fit", {"sweep_budget": 5.0})

    assert (longer.budget, longer.base) == (5.0, 4.0)  # $2 of its own, and $4 that were not
    assert not rented.sweeps.find("fit")[1].over


def test_a_limit_counts_from_when_a_sweep_is_continued(store: Store) -> None:
    sweep = ask(store, sweep_limit=60.0)
    store.sweeps.extend(replace(sweep, began=1.0), None, None)
    store.sweeps.close(sweep.id, SweepFact("Its time is over."))

    longer = extend_sweep(store, "fit", {})

    assert longer.wall_clock_limit == 60.0
    assert longer.began > sweep.began


def test_an_active_sweep_is_only_changed(store: Store) -> None:
    sweep = ask(store)

    with pytest.raises(StateError, match="active already"):
        extend_sweep(store, "fit", {})
    longer = extend_sweep(store, "fit", {"trials": 2, "sweep_limit": 5.0})

    assert (longer.trials, longer.wall_clock_limit) == (2, 5.0)
    assert longer.created == sweep.created
