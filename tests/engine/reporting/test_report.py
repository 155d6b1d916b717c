"""``workbench.report`` adds to the present run, and does nothing outside of one."""

from __future__ import annotations

import math
import sys
import threading
from decimal import Decimal
from fractions import Fraction

import numpy
import numpy as np
import pytest

import workbench
from workbench.core.run.rank_protocol import Progress
from workbench.engine.boundary import RunStopped
from workbench.engine.reporting.report import plan, report, report_logged
from workbench.engine.run_context import current
from workbench.errors import InputError
from workbench.frameworks.lightning import LightningFramework


def test_it_is_the_public_one() -> None:
    assert workbench.report is report


def test_outside_of_a_run_it_does_nothing() -> None:
    assert current() is None

    report(loss="not even a number")


def test_iterations_count_up_by_themselves(current_run, taken) -> None:
    for loss in (0.5, 0.25):
        report(loss=loss)

    assert [(s.iteration, s.value) for s in taken().samples] == [(1, 0.5), (2, 0.25)]
    assert current_run.iteration == current_run.boundaries.count == 2


def test_threads_count_on_from_each_other(current_run) -> None:
    before = sys.getswitchinterval()
    threads = [
        threading.Thread(target=lambda: [report(loss=n) for n in range(200)]) for _ in range(4)
    ]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)

    assert current_run.iteration == current_run.boundaries.count == 800


def test_an_iteration_that_is_given_is_kept_and_is_counted_on_from(current_run, taken) -> None:
    report(iteration=10, loss=1.0)
    report(loss=2.0)

    assert [s.iteration for s in taken().samples] == [10, 11]


def test_progress_keeps_what_was_reported_before(current_run, taken) -> None:
    report(total=20, epoch=0.5)
    report(iteration=7)

    assert taken().progress == Progress(7, 20, 0.5, 0.0)


@pytest.mark.parametrize(
    "value", [2, 2.0, True + 1, np.float32(2), np.array(2), "2", np.ma.array(2.0)]
)
def test_anything_that_is_one_number_is_taken(current_run, taken, value) -> None:
    report(loss=value)

    assert taken().samples[0].value == 2.0


def test_the_value_of_a_variable_is_taken(current_run, taken) -> None:
    class Variable:
        array = np.array(0.5, np.float32)

    report(loss=Variable())

    assert taken().samples[0].value == 0.5


def test_a_value_that_is_not_finite_is_reported(current_run, taken) -> None:
    report(loss=math.inf, gap=math.nan)

    assert [repr(s.value) for s in taken().samples] == ["inf", "nan"]


@pytest.mark.parametrize("value", ["x", None, [1.0], np.zeros(2), 1j])
def test_what_is_not_one_number_is_refused_with_the_remedy(current_run, value) -> None:
    with pytest.raises(InputError) as refused:
        report(loss=value)

    assert str(refused.value) == (
        f"report(loss=…) takes a number, not {value!r}; pass float(…) of one value."
    )


def test_the_run_may_stop_there_and_keeps_what_was_reported(current_run, taken) -> None:
    current_run.boundaries.stop_at(2)
    report(loss=1.0)

    with pytest.raises(RunStopped):
        report(loss=2.0)

    assert [s.value for s in taken().samples] == [1.0, 2.0]


@pytest.mark.parametrize(
    "three",
    [
        3,
        3.0,
        np.int64(3),
        np.float32(3),
        np.array(3),
        np.array(3.0),
        np.uint8(3),
        Fraction(3),
        Decimal(3),
    ],
    ids=repr,
)
def test_progress_is_counted_in_numbers_of_any_kind(current_run, taken, three) -> None:
    report(loss=1.0, iteration=three, total=three, epoch=three)

    assert taken().progress == Progress(3, 3, 3.0, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"iteration": 2**63},
        {"iteration": -1},
        {"iteration": 2.5},
        {"total": 2**70},
        {"total": math.inf},
        {"total": [3]},
        {"epoch": math.nan},
        {"epoch": math.inf},
        {"epoch": -0.5},
        {"epoch": "x"},
        {"loss": 10**400},
        {"": 1.0},
        {"n" * 201: 1.0},
    ],
    ids=lambda wrong: repr(wrong)[:30],
)
def test_what_nothing_can_be_counted_with_is_refused_and_changes_nothing(
    current_run, taken, wrong
) -> None:
    report(loss=1.0)

    with pytest.raises(InputError) as refused:
        report(gap=2.0, **wrong)

    assert refused.value.__context__ is None or refused.value.__suppress_context__
    assert len(str(refused.value)) < 400
    assert [s.name for s in taken().samples] == ["loss"]
    assert current_run.iteration == current_run.boundaries.count == 1


def test_a_value_that_is_long_to_write_is_shown_in_part(current_run) -> None:
    with pytest.raises(InputError) as refused:
        report(loss="x" * 10**6)

    assert len(str(refused.value)) < 300


def test_a_report_after_a_counted_step_adds_to_its_iteration_and_is_no_boundary(
    current_run, taken
) -> None:
    current_run.count_step(7, 0.5)

    workbench.report(loss=1.0)
    workbench.report(accuracy=0.5)

    assert {(s.name, s.iteration) for s in taken().samples} == {("loss", 7), ("accuracy", 7)}
    assert current_run.boundaries.count == 0


def test_the_same_name_again_without_a_step_is_a_boundary(current_run) -> None:
    current_run.count_step(7, 0.5)

    for _ in range(4):
        workbench.report(loss=1.0)

    assert current_run.boundaries.count == 3


def test_an_iteration_and_an_epoch_that_are_reported_replace_the_counted_ones(
    current_run, taken
) -> None:
    current_run.count_step(7, 0.5)
    workbench.report(iteration=70, epoch=2, loss=1.0)

    current_run.count_step(8, 0.6)
    workbench.report(loss=1.0)

    assert [s.iteration for s in taken().samples] == [70, 71]
    assert current_run.log.progress == Progress(71, 0, 2.0, 0.0)


def test_numbers_are_values_at_the_present_iteration(current_run, taken) -> None:
    current_run.count_step(3, 0.5)
    current_run.own_names.add("reported")

    report_logged(
        {
            "accuracy": numpy.float32(0.5),
            "loss": 2.0,  # the loop's own curve has it
            "reported": 1.0,  # so has workbench.report
            "name": "text",
            "is_best": True,
            "matrix": numpy.ones(3),
            "eval_loss": 1,
        }
    )

    found = [(one.name, one.iteration, one.value) for one in taken().samples]
    assert found == [("accuracy", 3, 0.5), ("eval_loss", 3, 1.0)]


def test_what_is_logged_in_a_saved_loop_is_of_the_step_whose_update_was_last(
    current_run, taken
) -> None:
    current_run.iteration, current_run.in_loop = 3, 4

    report_logged({"before": 1})
    current_run.count_step(1, 0.5)  # as counted since this attempt began
    report_logged({"eval_loss": 1})

    assert [(one.name, one.iteration) for one in taken().samples] == [
        ("before", 3),
        ("eval_loss", 4),
    ]


def test_a_plan_without_an_end_leaves_it_open(current_run) -> None:
    current_run.count_step(3, 0.5)

    plan(24, 3)
    assert current_run.log.progress == Progress(3, 24, 0.5, 3.0)
    plan(float("inf"), -1)
    assert current_run.log.progress == Progress(3, 0, 0.5, 0.0)


def test_outside_of_a_run_nothing_is_reported() -> None:
    report_logged({"accuracy": 0.5})
    plan(24, 3)


def test_a_rank_has_no_prompt(monkeypatch) -> None:
    vars(sys)["ps1"] = "In: "
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])

    LightningFramework().install()

    assert not hasattr(sys, "ps1")
