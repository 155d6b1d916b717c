"""Let runs follow each other, and hear what was predicted of the later and learned from both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workbench.analysis.plan_inputs import PlanAssumptions, find_plan_basis
from workbench.analysis.prediction_record import prediction_sentence
from workbench.analysis.predictions import alike, correction_of
from workbench.analysis.step_breakdown import read_breakdown
from workbench.core.fleet.model import Node, NodeState, Offer
from workbench.core.performance.bandwidth import (
    RESULT_STREAM,
    BandwidthSurvey,
    Measurement,
    Pair,
    measurement_json,
)
from workbench.core.performance.exchange_model import CODINGS, PLAIN, Codec, Coding, Link
from workbench.core.performance.step_model import Work, WorldShape, step
from workbench.core.run.model import Run, RunState
from workbench.core.run.rank_protocol import Batch, Chunk, Sample
from workbench.store import Store
from workbench.view.tables.plan import plan

GBIT = 1e9 / 8
LINK = Link(50e-6, 1.38 * GBIT)
WORK = Work(0.2, 98e6, batch=32)


@pytest.fixture
def trained(queue, report, supervisor: Store) -> Callable[..., Run]:
    """Keep what a run on that many nodes would measure, were its network ``off`` times as slow."""
    made: list[str] = []

    def train(
        name: str, nodes: int, off: float = 1.0, nbytes: float = WORK.nbytes,
        coding: Coding = PLAIN, ours: bool = True,
    ) -> Run:  # fmt: skip
        work = Work(WORK.compute, nbytes, batch=32)
        parts = step(work, WorldShape(nodes, LINK), coding=coding)
        moving = off * (parts.exchange + parts.coding)
        reported = {
            f"exchange__codec {coding.codec}": [1.0], "exchange__overlaps": [0.0],
            "exchange__wire": [2 * (nodes - 1) / nodes * coding.ratio * nbytes],
        }  # fmt: skip
        run = queue(name)
        for rank in range(nodes):
            report(
                run, rank, step__compute=[0.2], step__communication=[moving],
                step__waiting=[0.0], step__moving=[moving], step__data=[0.0], step__other=[0.0],
                exchange__nbytes=[nbytes], exchange__calls=[1.0],
                exchange__leader=[float(rank)], exchange__batch=[32.0],
                **(reported if ours else {}),
            )  # fmt: skip
        made.append(run.id)
        supervisor.put_run_fact(
            run.id, state=RunState.FINISHED, ranks=nodes, iteration=100, iterations_total=100,
            epoch=2.0, epochs_total=2.0,
        )  # fmt: skip
        return supervisor.run(run.id)

    return train


@pytest.fixture
def measured(queue, supervisor: Store) -> Callable[[], None]:
    """Keep a measurement of the links between all nodes."""

    def measure() -> None:
        # The store has forgotten where ranks were, so their host has no name.
        pairs = (Pair("", "b", 50e-6, LINK.bandwidth), Pair("b", "", 50e-6, LINK.bandwidth))
        found = Measurement(BandwidthSurvey(1.0, ("", "b"), pairs, rating=1.44 * GBIT), 2, 1.0)
        chunk = Chunk(RESULT_STREAM, 0.0, measurement_json(found))
        supervisor.reports.add_batches([Batch(queue("link").id, 0, 1, (), (chunk,))])

    return measure


def test_a_run_for_which_no_plan_or_verdict_was_made_is_held_against_nothing(
    store, trained, measured
) -> None:
    measured()
    trained("one", 1)
    run = trained("four", 4, off=2.0)

    assert prediction_sentence(store, run) == ""
    assert not any("Predicted" in one for one in read_breakdown(store, run).says)


def test_what_one_run_took_longer_is_predicted_for_the_next(store, trained, measured) -> None:
    measured()
    trained("one", 1)
    first = trained("twoo", 2, off=1.5)
    second = trained("four", 4, off=1.5)
    learned = correction_of(alike(store, first), ours=True).factor

    assert 1.2 < learned < 1.5
    assert correction_of(alike(store, second), ours=True).count == 2


def test_of_each_way_to_exchange_something_else_is_learned(store, trained, measured) -> None:
    measured()
    ours = trained("four", 4)
    trained("also", 4, off=2.0, ours=False)

    assert correction_of(alike(store, ours), ours=True).factor == pytest.approx(1.0, abs=0.01)
    assert correction_of(alike(store, ours), ours=False).factor > 1.2


HALF = next(one for one in CODINGS if one.codec is Codec.FP16)


def test_a_run_that_does_what_a_verdict_said_is_held_against_it(store, trained, measured) -> None:
    measured()
    before = trained("four", 4)
    said = read_breakdown(store, before).says[0]
    run = trained("half", 4, coding=HALF)

    assert "`--compress fp16` 1.6 times (1.4–1.9)" in said
    kept = prediction_sentence(store, run)
    assert kept.startswith("Predicted by the verdict on run 'four', with `--compress fp16`: ")
    assert kept.endswith("(0 %).")
    assert kept in read_breakdown(store, run).says


def test_a_verdict_that_no_one_read_predicted_nothing(store, trained, measured) -> None:
    measured()
    trained("four", 4)

    assert prediction_sentence(store, trained("half", 4, coding=HALF)) == ""


def test_a_run_is_held_against_the_plan_that_was_made_before(store, trained, measured) -> None:
    measured()
    trained("twoo", 2)
    asked = PlanAssumptions("default", max_nodes=8)
    offers = (Offer("any.1", "a", 0.1, vcpus=2, memory=8.0, network=1.44),)
    reported = plan(store, asked, find_plan_basis(store, asked), offers)
    run = trained("four", 4)

    prediction = 50 * step(WORK, WorldShape(4, LINK)).total

    here = "On the nodes of run 'twoo', trained the same way, an epoch takes "
    assert any(one.startswith(here) for one in reported.says)
    assert any(f"{prediction / 2:.3g} s on 4 ranks" in one for one in reported.says)
    assert prediction_sentence(store, run).startswith(
        f"Predicted by the plan made from run 'twoo': {prediction:.3g} s an epoch"
    )


def test_a_plan_for_rented_nodes_is_held_against_a_run_on_them(
    store, supervisor, trained, measured
) -> None:
    asked = PlanAssumptions("default", step=0.2, gradients=98e6, batch=32, examples=3200)
    offers = (Offer("any.1", "a", 0.1, vcpus=2, memory=8.0, network=1.44),)
    plan(store, asked, find_plan_basis(store, asked), offers)
    supervisor.fleets.put_nodes("default", [Node("i-1", NodeState.JOINED, type="any.1")])
    measured()

    said = prediction_sentence(store, trained("four", 4))

    assert said.startswith("Predicted by the plan: ")
    assert "outside" not in said


def test_the_next_plan_goes_by_what_the_last_one_missed(store, trained, measured) -> None:
    measured()
    trained("twoo", 2)
    asked = PlanAssumptions("default", max_nodes=8)
    offers = (Offer("any.1", "a", 0.1, vcpus=2, memory=8.0, network=1.44),)
    before = plan(store, asked, find_plan_basis(store, asked), offers)
    trained("four", 4, off=1.4)

    after = plan(store, asked, find_plan_basis(store, asked), offers)

    assert not any("times as long as the model says" in one for one in before.says)
    assert after.task.correction > 1.1 > before.task.correction
    assert any("times as long as the model says in 2 runs before" in one for one in after.says)


@pytest.fixture
def planned(store, trained, measured) -> None:
    """Make a plan from a run on two nodes."""
    measured()
    trained("twoo", 2)
    asked = PlanAssumptions("default", max_nodes=8)
    offers = (Offer("any.1", "a", 0.1, vcpus=2, memory=8.0, network=1.44),)
    plan(store, asked, find_plan_basis(store, asked), offers)


@pytest.mark.usefixtures("planned")
def test_a_plan_says_nothing_of_another_model(store, trained) -> None:
    assert prediction_sentence(store, trained("four", 4, nbytes=5e6)) == ""


@pytest.mark.usefixtures("planned")
def test_what_came_quite_otherwise_is_said_to_have(store, trained) -> None:
    said = prediction_sentence(store, trained("four", 4, off=2.0))

    assert said.endswith(" %). That is outside the predicted range.")


@pytest.mark.usefixtures("planned")
def test_where_a_step_varies_much_within_a_run_nothing_is_predicted(
    store, supervisor, trained
) -> None:
    run = trained("four", 4)
    varied = [
        Sample("step/compute", iteration, 0.0, 0.1 * (1 + iteration % 4))
        for iteration in range(2, 30)
    ]
    for rank in range(4):
        supervisor.reports.add_batches([Batch(run.id, rank, 2, tuple(varied))])

    assert prediction_sentence(store, run) == ""
