"""Unchanged loops of PyTorch report what they print themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.engine.torch_hook import hook_torch

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = pytest.mark.torch
LOOPS = Path(__file__).parent / "programs" / "torch_loops"


@pytest.fixture
def trained(perform, taken) -> Callable[..., SimpleNamespace]:
    """Run a program as a script; return what it printed last, and what its run reported."""
    hook_torch()

    def run(program: str, source: str = "") -> SimpleNamespace:
        path = LOOPS / f"{program}.py"
        ending = perform(source or path.read_text(), path=str(path))
        batch = taken()
        written = "".join(chunk.text for chunk in batch.chunks)
        assert ending.state == "finished", ending.traceback
        values: dict[str, dict[int, float]] = {}
        for sample in batch.samples:
            curve = values.setdefault(sample.name, {})
            assert sample.iteration not in curve, f"{sample.name} came twice"
            curve[sample.iteration] = sample.value
        assert "workbench:" not in written
        return SimpleNamespace(
            said=json.loads(written.splitlines()[-1]), values=values, progress=batch.progress
        )

    return run


def curve(numbers) -> dict[int, float]:
    """What is reported if each iteration has one of these numbers."""
    return {n: pytest.approx(number, rel=1e-6) for n, number in enumerate(numbers, 1)}


def test_a_loop_reports_loss_rate_and_epoch_and_its_evaluation_does_not_count(trained) -> None:
    found = trained("evaluated")

    assert found.values["loss"] == curve(found.said["loss"])
    assert found.values["lr"] == curve(found.said["lr"])
    assert (found.progress.iteration, found.progress.epoch) == (15, 3.0)


def test_accumulated_gradients_make_one_iteration_with_the_mean_of_its_losses(trained) -> None:
    found = trained("accumulated")

    assert len(found.said["loss"]) == 6
    assert found.values["loss"] == curve(found.said["loss"])
    assert (found.progress.iteration, found.progress.epoch) == (6, 1.0)


def test_a_scaled_loss_is_reported_as_it_was_and_a_skipped_step_counts(trained) -> None:
    found = trained("scaled")

    assert found.said["scales"][:3] == [1024.0, 512.0, 512.0]
    assert found.values["loss"] == curve(found.said["loss"])
    assert found.progress.iteration == 10


def test_a_closure_counts_by_its_first_evaluation_in_a_step(trained) -> None:
    found = trained("closure")

    assert found.said["evaluations"] > 6
    assert found.values["loss"] == curve(found.said["loss"])
    assert found.progress.iteration == 6


def test_two_optimizers_in_turn_share_iterations_and_have_a_loss_each(trained) -> None:
    found = trained("adversarial")

    assert found.values["loss"] == curve(found.said["d"])
    assert found.values["optimizer_g/loss"] == curve(found.said["g"])
    assert (found.values["lr"][1], found.values["optimizer_g/lr"][1]) == (0.02, 0.01)
    assert found.progress.iteration == 12


def test_a_second_training_continues_the_iterations_of_the_first(trained) -> None:
    found = trained("in_turn")

    assert len(found.said["loss"]) == 12
    assert found.values["loss"] == curve(found.said["loss"])
    assert {name for name in found.values if "/" not in name} == {"loss", "lr"}
