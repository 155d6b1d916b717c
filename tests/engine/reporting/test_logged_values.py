"""What frameworks log becomes values of the run, as far as it is numbers that nothing else has."""

from __future__ import annotations

import sys

import numpy

from workbench.core.run.rank_protocol import Progress
from workbench.engine.reporting.logged_values import plan, report_logged
from workbench.frameworks.lightning import LightningFramework


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
