"""Unchanged loops of Chainer without a trainer report what they print themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.engine.boundary import RunStopped
from workbench.frameworks.chainer.framework import ChainerFramework

LOOPS = Path(__file__).parents[2] / "engine" / "programs" / "chainer_loops"


@pytest.fixture
def trained(perform, taken) -> Callable[[str], SimpleNamespace]:
    """Run a program as a script; return what it printed last, and what its run reported."""
    ChainerFramework().install()

    def run(program: str) -> SimpleNamespace:
        path = LOOPS / f"{program}.py"
        ending = perform(path.read_text(), path=str(path))
        batch = taken()
        written = "".join(chunk.text for chunk in batch.chunks)
        assert ending.state == "finished", ending.traceback
        assert "workbench:" not in written
        values: dict[str, list[tuple[int, float]]] = {}
        for sample in batch.samples:
            values.setdefault(sample.name, []).append((sample.iteration, sample.value))
        said = json.loads(written.splitlines()[-1])
        return SimpleNamespace(said=said, values=values, progress=batch.progress)

    return run


def curve(numbers) -> list[tuple[int, float]]:
    return [(n, pytest.approx(number)) for n, number in enumerate(numbers, 1)]


def test_an_update_by_a_loss_function_reports_loss_rate_epoch_and_what_the_model_reports(
    trained,
) -> None:
    found = trained("updating")

    assert found.values["loss"] == curve(found.said["loss"])
    assert found.values["accuracy"] == curve(found.said["accuracy"])
    assert [value for _, value in found.values["lr"]] == [0.1] * 5 + [0.05] * 5 + [0.025] * 5
    assert (found.progress.iteration, found.progress.epoch) == (15, 3.0)


def test_batches_that_reach_over_the_end_of_an_epoch_count_as_the_iterator_says(trained) -> None:
    found = trained("wrapping")

    assert (len(found.said["loss"]), found.said["epoch"]) == (5, 2.0)
    assert (found.progress.iteration, found.progress.epoch) == (5, 2.0)


def test_a_backward_pass_and_an_update_are_a_step_and_reported_values_belong_to_it(
    trained,
) -> None:
    found = trained("reporting")

    assert found.values["loss"] == curve(found.said["loss"])
    assert found.values["step"] == curve(range(6))
    assert not {"text", "all"} & found.values.keys()
    assert found.progress.iteration == 6


def test_a_loss_whose_gradients_are_thrown_away_is_no_part_of_the_steps(trained) -> None:
    found = trained("attacked")

    assert found.values["loss"] == curve(found.said["first"])
    assert found.values["second/loss"] == curve(found.said["second"])


def test_a_trainers_steps_are_reported_once_and_steps_by_hand_after_it_too(trained) -> None:
    found = trained("trained")

    assert len(found.values["main/loss"]) == 4
    assert len(found.values["loss"]) == 2


def test_a_step_is_the_boundary_at_which_a_run_stops(current_run, taken) -> None:
    ChainerFramework().install()
    current_run.boundaries.stop_at(4)

    with pytest.raises(RunStopped):
        exec((LOOPS / "reporting.py").read_text(), {"__name__": "__main__"})

    current_run.close()
    assert [s.iteration for s in taken().samples if s.name == "loss"] == [1, 2, 3, 4]
    assert (current_run.iteration, current_run.boundaries.count) == (4, 4)
