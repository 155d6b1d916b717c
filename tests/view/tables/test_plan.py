"""Plan on made-up offers from runs that were measured, and read what is shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from workbench.analysis.plan_inputs import PlanAssumptions, find_plan_basis, find_plan_market
from workbench.core.fleet.model import FleetWish, Needs, Node, NodeState, Offer
from workbench.core.performance.exchange_model import Codec
from workbench.core.performance.frontier import TypeCurve
from workbench.core.run.model import RunState
from workbench.core.world.world import Host
from workbench.errors import InputError, StateError
from workbench.view.pictures.figure import draw_png
from workbench.view.pictures.plan_picture import describe_plan, draw_plan, ticks
from workbench.view.tables.plan import (
    FurtherNodes,
    curves_table,
    frontier_table,
    plan,
    plan_message,
    recommend,
    recommendation,
    scale,
    thin_choices,
)

SAID = PlanAssumptions("default", step=0.25, gradients=98e6, batch=32, examples=50_000, gpu="T4")
OFFERS = (
    Offer("slow.1", "a", 0.2, vcpus=4, memory=16, gpus=1, gpu="T4", network=1.44),
    Offer("fast.1", "a", 0.6, vcpus=8, memory=32, gpus=1, gpu="T4", network=10.0),
    Offer("cpu.1", "a", 0.1, vcpus=8, memory=32, network=10.0),
)


@pytest.fixture
def trained(queue, report, supervisor):
    def train(name: str = "digits", **changes: object):
        run = queue(name)
        report(
            run, 0, step__compute=[0.1], step__communication=[0.0], step__data=[0.02],
            step__other=[0.01], exchange__nbytes=[4e6], exchange__calls=[8.0],
            exchange__leader=[0.0], exchange__batch=[64.0],
        )  # fmt: skip
        facts = {"state": RunState.FINISHED, "ranks": 1, "iteration": 200, "epoch": 4.0}
        supervisor.put_run_fact(run.id, **(facts | changes))
        return supervisor.run(run.id)

    return train


def planned(store, asked: PlanAssumptions = SAID, offers=OFFERS):
    return plan(store, asked, find_plan_basis(store, asked), offers)


def test_what_was_said_is_enough_to_plan_with(store) -> None:
    found = planned(store)
    rows = frontier_table(found).rows

    assert rows[0][1] == "slow.1 in a"  # with PowerSGD, whose bytes pass its link in time
    assert rows[-1][0] == "1"
    assert found.frontier.left_out[0].startswith("cpu.1: the step was measured on a T4")


def test_a_plan_is_in_what_the_provider_charges(store) -> None:
    found = plan(store, SAID, find_plan_basis(store, SAID), OFFERS, "core-hours")

    assert {"epoch, core-hours", "price, core-hours/h"} <= {*frontier_table(found).headers}
    assert "epoch, core-hours" in curves_table(found).headers
    assert "core-hours an epoch" in recommendation(found)
    assert plan_message(found)["unit"] == "core-hours"


def test_what_a_gpu_computes_hides_an_exchange_unless_it_is_plain(store) -> None:
    ours, theirs = (
        planned(store, PlanAssumptions(**{**vars(SAID), "plain": plain})) for plain in (False, True)
    )

    assert any("30 % is assumed, and 0 to 60 %" in said for said in ours.says)
    assert (ours.task.work.hidden, theirs.task.work.hidden) == (0.3, 0.0)
    assert (ours.task.overlap, theirs.task.overlap) == (0.6, 0.0)


def test_a_measured_run_is_gone_by(store, trained) -> None:
    trained()
    found = planned(store, PlanAssumptions("default"), OFFERS[2:])

    assert found.task.work.compute == pytest.approx(0.1)
    assert found.task.work.data == pytest.approx(0.02)
    assert found.task.examples == 200 / 4 * 64
    assert found.says[0].startswith("By run digits: a rank computes 100 ms a step of 64 examples")


def test_what_is_said_takes_the_place_of_what_was_measured(store, trained) -> None:
    trained()
    found = planned(store, PlanAssumptions("default", gradients=98e6, examples=1000), OFFERS[2:])

    assert (found.task.work.nbytes, found.task.examples) == (98e6, 1000)


def test_an_epoch_that_no_one_knows_is_reported(store, trained) -> None:
    trained(epoch=0.0)
    found = planned(store, PlanAssumptions("default"), OFFERS[2:])

    assert any("1,000 iterations of one rank are assumed" in said for said in found.says)


@pytest.fixture
def trained_on(queue, report, supervisor):
    """Keep a run whose steps took so long on that many nodes of one rank each."""

    def train(nodes: int, moving: float) -> None:
        run = queue(f"on{nodes}")
        for rank in range(nodes):
            report(
                run, rank, step__compute=[0.1], step__communication=[moving], step__data=[0.0],
                step__other=[0.0], step__waiting=[0.0], step__moving=[moving],
                exchange__nbytes=[4e6], exchange__calls=[1.0], exchange__leader=[float(rank)],
                exchange__batch=[64.0], **{"exchange__codec none": [1.0]},
                exchange__overlaps=[0.0], exchange__wire=[4e6],
            )  # fmt: skip
        supervisor.put_run_fact(
            run.id, state=RunState.FINISHED, ranks=nodes, iteration=200, epoch=4.0
        )

    return train


def test_sizes_that_were_measured_take_the_place_of_the_model(
    store, supervisor, trained_on
) -> None:
    """A second node cost 40 ms a step, much more than the rated link explains."""
    supervisor.fleets.put_nodes("default", [Node("i-1", NodeState.JOINED, type="cpu.1")])
    offer = Offer("cpu.1", "a", 0.1, vcpus=2, memory=32, network=10.0)
    trained_on(1, 0.0)
    one = planned(store, PlanAssumptions("default", examples=64_000), (offer,))
    trained_on(2, 0.04)
    trained_on(4, 0.06)

    found = planned(store, PlanAssumptions("default", examples=64_000), (offer,))

    assert any("Nothing was measured between nodes" in said for said in one.says)
    assert any("was measured on 1-2, 4 nodes of type cpu.1" in said for said in found.says)
    (before,), (after,) = one.frontier.curves, found.frontier.curves
    assert before.seconds[1] < 0.11 * 500 < after.seconds[1]
    assert after.seconds[1] == pytest.approx(0.14 * 500, rel=0.05)
    assert after.seconds[3] == pytest.approx(0.16 * 250, rel=0.05)
    four = next(one for one in found.frontier.choices if one.nodes == 4)
    assert four.low < 0.16 * 250 < four.high < 1.3 * four.low
    assert found.task.sizes is not None
    assert len(found.task.sizes.timings) == 3


def test_an_option_in_place_of_the_measured_work_leaves_the_measured_sizes_out(
    store, supervisor, trained_on
) -> None:
    supervisor.fleets.put_nodes("default", [Node("i-1", NodeState.JOINED, type="cpu.1")])
    trained_on(1, 0.0)
    trained_on(2, 0.04)

    assert planned(store, PlanAssumptions("default", step=0.2), OFFERS[2:]).task.sizes is None
    assert planned(store, PlanAssumptions("default", plain=True), OFFERS[2:]).task.sizes is None


def test_a_time_that_does_not_fit_the_others_is_named(store, supervisor, trained_on) -> None:
    supervisor.fleets.put_nodes("default", [Node("i-1", NodeState.JOINED, type="cpu.1")])
    for nodes, moving in ((1, 0.0), (2, 0.12), (4, 0.01), (8, 0.012)):
        trained_on(nodes, moving)

    found = planned(store, PlanAssumptions("default"), OFFERS[2:])

    assert any("The time on 2 nodes does not fit the others" in said for said in found.says)


def test_without_a_measured_run_it_is_said_what_to_do(store) -> None:
    with pytest.raises(StateError, match="Train for a minute on one node"):
        planned(store, PlanAssumptions("default"))


def test_a_run_without_gradients_asks_for_their_size(store, queue, report, supervisor) -> None:
    report(run := queue("plain"), 0, step__compute=[0.1], step__other=[0.01])
    supervisor.put_run_fact(run.id, state=RunState.FINISHED, ranks=1)

    with pytest.raises(StateError, match="--gradients 98MB"):
        planned(store, PlanAssumptions("default"))
    with pytest.raises(StateError, match="has no measured step"):
        planned(store, PlanAssumptions("default", run=queue("empty").wish.name))


def test_the_gpu_is_that_of_the_clusters_nodes(store, supervisor, trained) -> None:
    supervisor.fleets.put_nodes("default", [Node("i-1", NodeState.JOINED, type="slow.1")])
    trained()

    assert planned(store, PlanAssumptions("default")).task.gpu == "T4"


@pytest.mark.parametrize("wrong", [{"max_nodes": 0}, {"batch": -1}, {"step": -0.5}])
def test_what_cannot_be_is_refused(store, wrong) -> None:
    with pytest.raises(InputError):
        planned(store, PlanAssumptions("default", **wrong))


def test_each_type_says_up_to_where_adding_nodes_pays(store) -> None:
    rows = {row[0]: row for row in curves_table(planned(store)).rows}
    (alone,) = curves_table(
        planned(store, PlanAssumptions(**{**vars(SAID), "plain": True, "max_nodes": 3}), OFFERS[:1])
    ).rows

    assert int(rows["fast.1"][3]) > 1
    assert alone[3] == "1"


def test_the_plan_is_drawn_and_said_in_words(store) -> None:
    found = planned(store)

    assert draw_png(draw_plan(found)).startswith(b"\x89PNG")
    assert re.fullmatch(
        r"Recommended: \d+ × slow.1 with `--compress \w+`, [\d.]+ s and \$[\d.]+ an epoch; .*\.",
        recommendation(found),
    )
    assert "× slow.1)" in describe_plan(found)
    assert json.loads(json.dumps(plan_message(found)))["choices"][-1]["nodes"] == 1


def test_of_many_choices_a_few_are_shown_both_ends_among_them(store) -> None:
    choices = planned(store).frontier.choices

    assert len(thin_choices(choices)) == 12 < len(choices)
    assert (thin_choices(choices)[0], thin_choices(choices)[-1]) == (choices[0], choices[-1])


def test_a_batch_that_is_fixed_in_total_is_shared_by_more_ranks(store) -> None:
    found = planned(store, PlanAssumptions(**{**vars(SAID), "total": True}), OFFERS[1:2])

    assert found.frontier.curves[0].sizes[-1] == 32


def test_this_machine_offers_nothing_and_hosts_what_they_are(store, supervisor) -> None:
    with pytest.raises(InputError, match="--rehearsal"):
        find_plan_market(store, "default", Needs(), "", "")

    hosts = FleetWish("hosts", nodes=1, hosts=(Host("10.0.0.1", 2),))
    supervisor.wish_cluster("default", up=True, ranks=2, fleet=hosts)
    with pytest.raises(StateError, match="`workbench bandwidth`"):
        find_plan_market(store, "default", Needs(), "", "")


@pytest.mark.parametrize(
    ("seconds", "unit"), [([90.0, 4000.0], "min"), ([3600.0], "h"), ([20.0], "s"), ([0.2], "ms")]
)
def test_times_of_a_column_share_a_unit_that_its_head_names(seconds, unit) -> None:
    assert scale(seconds)[0] == unit


@pytest.mark.parametrize(
    ("low", "high", "there"),
    [
        (0.9, 2000, [1, 10, 100, 1000]),
        (0.004, 0.09, [0.005, 0.01, 0.02]),
        (0.004, 0.0091, [0.004, 0.009]),
        (1.1, 1.9, [1.2, 1.4]),
        (0.0271, 0.0282, [0.0272, 0.028]),
    ],
)
def test_an_axis_has_a_few_round_values_however_short_it_is(low, high, there) -> None:
    made = ticks(low, high)

    assert {*there} <= {*made}
    assert 4 <= len(made) <= 12


SLOW = TypeCurve(
    type="slow.1",
    zone="a",
    price=0.2,
    sizes=(1, 2, 4, 8),
    seconds=(400.0, 210.0, 120.0, 110.0),
    dollars=(0.02, 0.022, 0.027, 0.05),
    codecs=(Codec.NONE, Codec.NONE, Codec.FP16, Codec.FP16),
    stops=4,
    fastest=8,
    gains=True,
)


def test_the_number_at_which_more_stop_paying_is_recommended() -> None:
    found = recommend([SLOW])

    assert found is not None
    assert (found.nodes, found.seconds, found.dollars) == (4, 120.0, 0.027)
    assert (found.codec, found.further) == (Codec.FP16, FurtherNodes.UNPAID)


def test_half_the_time_is_worth_twice_the_price() -> None:
    dear = replace(SLOW, type="dear", dollars=tuple(3 * d for d in SLOW.dollars))
    quick = replace(dear, type="quick", seconds=tuple(s / 4 for s in SLOW.seconds))

    types = [recommend(curves).type for curves in ([dear, SLOW], [dear, SLOW, quick])]

    assert types == ["slow.1", "quick"]


def test_where_more_nodes_bring_nothing_it_is_one() -> None:
    found = recommend([replace(SLOW, gains=False)])

    assert (found.nodes, found.further) == (1, FurtherNodes.USELESS)


def test_where_the_last_number_still_pays_that_is_reported() -> None:
    assert recommend([replace(SLOW, stops=8)]).further is FurtherNodes.UNKNOWN
    assert recommend([]) is None
