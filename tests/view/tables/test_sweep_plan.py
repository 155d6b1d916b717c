"""Plan sweeps from a measured trial, and read what is recommended."""

from __future__ import annotations

import json

import pytest

from workbench.analysis.plan_inputs import PlanAssumptions, find_plan_basis, find_plan_market
from workbench.core.fleet.model import FleetWish, Needs, Offer
from workbench.core.run.model import RunState
from workbench.core.world.world import Host
from workbench.requests.cloud_queries import CloudMarket
from workbench.view.tables.sweep_plan import (
    SweepPlan,
    plan_sweep,
    shapes_table,
    sweep_plan_message,
    sweep_recommendation,
)

OFFER = Offer("cpu.1", "a", 0.1, vcpus=2, memory=32, network=10.0)
ASKED = PlanAssumptions("default", sweep=40, max_nodes=8)


@pytest.fixture
def trial(queue, report, supervisor):
    """Keep a trial of 200 steps of 0.13 s on one rank, which took 4 s more."""
    run = queue("fit-0")
    report(
        run, 0, step__compute=[0.1], step__communication=[0.0], step__data=[0.02],
        step__other=[0.01], exchange__nbytes=[4e6], exchange__calls=[8.0],
        exchange__leader=[0.0], exchange__batch=[64.0],
    )  # fmt: skip
    supervisor.put_run_fact(
        run.id, state=RunState.FINISHED, ranks=1, iteration=200, epoch=4.0, started=1000.0,
        ended=1030.0,
    )  # fmt: skip


def planned(store, asked: PlanAssumptions = ASKED, **market: object) -> SweepPlan:
    offers = CloudMarket("", **({"offers": (OFFER,)} | market))
    return plan_sweep(store, asked, find_plan_basis(store, asked), offers)


def test_one_trial_on_a_rank_takes_as_long_as_it_was_measured(store, trial) -> None:
    first = planned(store).shapes[0]

    assert (first.at_once, first.ranks, first.nodes) == (8, 1, 8)
    assert first.trial == pytest.approx(30.0, rel=0.01)  # with its 4 s outside its steps
    assert first.seconds == pytest.approx(5 * 30.0, rel=0.01)


def test_the_recommendation_names_the_option_and_the_other_way(store, trial) -> None:
    said = sweep_recommendation(planned(store))

    assert said.startswith("Recommended: 8 × cpu.1, 8 trials at once on 1 rank each (")
    assert "`--ranks-per-trial 1`): 40 trials take 2 min 30 s and $0.033; one after" in said
    assert "another on 8 ranks they take " in said


def test_the_table_has_the_ranges_and_the_money(store, trial) -> None:
    table = shapes_table(planned(store))

    assert table.headers[:3] == ("trials at once", "ranks each", "nodes")
    assert [row[:3] for row in table.rows][-1] == ("1", "8", "8 × cpu.1")
    assert all("–" in row[6] for row in table.rows)


def test_core_hours_take_the_place_of_dollars(store, trial) -> None:
    found = planned(store, unit="core-hours")

    assert "core-hours" in sweep_recommendation(found)
    assert "$" not in sweep_recommendation(found)
    assert "all, core-hours" in shapes_table(found).headers


def test_what_a_larger_batch_means_is_said(store, trial) -> None:
    (own,) = (one for one in planned(store).says if "updates" in one)
    shared = planned(store, PlanAssumptions("default", sweep=40, max_nodes=8, total=True)).says

    assert own.startswith("A trial on 8 ranks takes steps of 512 examples, one on a single rank of")
    assert any("All trials take steps of 64 examples, whatever their ranks" in s for s in shared)


def test_the_length_of_a_trial_and_its_start_are_said(store, trial) -> None:
    says = planned(store).says

    assert "A trial computes 12,800 examples, as run fit-0." in says
    assert any(one.startswith("4.0 s of that run were outside its steps") for one in says)


def test_without_prices_the_quickest_way_is_recommended(store, supervisor, trial) -> None:
    hosts = FleetWish("hosts", nodes=1, hosts=(Host("10.0.0.1", 4),))
    supervisor.wish_cluster("default", up=True, ranks=4, fleet=hosts)
    asked = PlanAssumptions("default", sweep=8)

    market = find_plan_market(store, "default", Needs(), "", "", is_sweep=True)
    said = sweep_recommendation(plan_sweep(store, asked, find_plan_basis(store, asked), market))

    assert said.startswith("Recommended: your hosts, 4 trials at once on 1 rank each")
    assert "$" not in said


def test_this_machine_is_planned_with_its_ranks(store, supervisor, trial) -> None:
    supervisor.wish_cluster("default", up=True, ranks=2)
    asked = PlanAssumptions("default", sweep=8)

    market = find_plan_market(store, "default", Needs(), "", "", is_sweep=True)
    found = plan_sweep(store, asked, find_plan_basis(store, asked), market)

    assert [(one.at_once, one.ranks) for one in found.shapes] == [(2, 1), (1, 2)]
    assert "Recommended: this machine, 2 trials at once" in sweep_recommendation(found)


def test_types_that_say_nothing_are_not_recommended(store, trial) -> None:
    found = planned(store, offers=(Offer("gpu.1", "a", 1.0, 4, 16, gpus=1, gpu="T4", network=1),))

    assert sweep_recommendation(found) == "None of the offers can be used for a plan."
    assert found.shapes == ()


def test_a_program_reads_it(store, trial) -> None:
    message = json.loads(json.dumps(sweep_plan_message(planned(store))))

    assert message["trials"] == 40
    assert message["shapes"][0]["ranks"] == 1
