"""Unchanged loops of PyTorch report what they print themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.core.run.rank_protocol import Progress
from workbench.engine import training_loop
from workbench.engine.boundary import RunStopped
from workbench.frameworks.torch import hook
from workbench.frameworks.torch.framework import TorchFramework

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = pytest.mark.torch
LOOPS = Path(__file__).parents[2] / "engine" / "programs" / "torch_loops"


@pytest.fixture
def trained(perform, taken) -> Callable[..., SimpleNamespace]:
    """Run a program as a script; return what it printed last, and what its run reported."""
    TorchFramework().install()

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


def test_without_an_optimizer_each_backward_pass_is_an_iteration(trained) -> None:
    found = trained("by_hand")

    assert found.values["loss"] == curve(found.said["loss"])
    assert "lr" not in found.values
    assert (found.progress.iteration, found.progress.epoch) == (6, 2.0)


def test_the_step_of_an_optimizer_inside_anothers_counts_once(trained) -> None:
    found = trained("nested")

    assert found.values["loss"] == curve(found.said["loss"])
    assert found.progress.iteration == 5


def test_the_optimizer_of_an_earlier_cell_makes_the_iterations(trained) -> None:
    exec(compile((LOOPS / "in_cells.py").read_text(), "in_cells.py", "exec"), {})

    found = trained("in_cells")

    assert [*found.values["lr"].values()] == [0.05] * 4
    assert found.progress.iteration == 4


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


def varied(program: str, name: str, before: str, after: str) -> str:
    """Return a program's source with another value of a variable."""
    source = (LOOPS / f"{program}.py").read_text()
    assert f"\n{name} = {before}\n" in source
    return source.replace(f"\n{name} = {before}\n", f"\n{name} = {after}\n")


@pytest.mark.parametrize("how", ["by_optimizer", "by_model", "by_parts", "by_hand", "not_at_all"])
def test_a_loss_whose_gradients_are_thrown_away_is_no_part_of_the_steps(trained, how) -> None:
    found = trained("attacked", varied("attacked", "throw_away", "by_optimizer", how))

    assert found.values["loss"] == curve(found.said["loss"])


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("Attributes", "optimizer_D"),
        ("Keys", "D"),
        ("Places", "optimizers[1]"),
        ("Wrapped", "own_d"),
        ("Passed", "2"),
    ],
)
def test_a_second_optimizer_has_the_name_that_the_program_gives_it(trained, how, name) -> None:
    found = trained("named", varied("named", "how: Any", "Attributes", how))

    assert found.values["loss"] == curve(found.said[0])
    assert found.values[f"{name}/loss"] == curve(found.said[1])


@pytest.mark.parametrize(
    ("source", "epoch"),
    [("passes", 2.5), ("asked", 2.5), ("sampled", 2.5), ("kept", 0.0), ("first", 0.0)],
)
def test_the_epochs_of_a_source_that_never_ends_are_right_or_unknown(
    trained, source, epoch
) -> None:
    found = trained("endless", varied("endless", "source", "kept", source))

    assert found.progress.epoch in (0.0, found.said["epoch"])
    assert found.progress.epoch == epoch


def test_a_second_training_continues_the_iterations_of_the_first(trained) -> None:
    found = trained("in_turn")

    assert len(found.said["loss"]) == 12
    assert found.values["loss"] == curve(found.said["loss"])
    assert {name for name in found.values if "/" not in name} == {"loss", "lr"}


def test_optimizers_in_a_loaders_workers_do_not_count(trained) -> None:
    found = trained("with_workers")

    assert found.values["loss"] == curve(found.said["loss"])
    assert {name for name in found.values if "/" not in name} == {"loss", "lr"}
    assert (found.progress.iteration, found.progress.epoch) == (8, 2.0)


def test_what_the_program_reports_comes_before_what_is_seen_of_it(trained) -> None:
    found = trained("reporting")

    assert found.values["loss"] == curve(found.said["loss"])
    assert found.values["val_accuracy"] == {3: 0.3, 6: 0.6}
    assert set(found.values["lr"]) == {1, 2, 3, 4, 5, 6}
    assert found.progress == Progress(6, 6, 2.0, 0.0)


def test_nested_backward_passes_and_those_of_other_threads_do_not_count(trained) -> None:
    found = trained("checkpointed")

    assert found.values["loss"] == curve(found.said["loss"])
    assert found.progress.iteration == 5


@pytest.mark.filterwarnings("default")  # the compiler touches what is deprecated
def test_a_compiled_model_counts_and_a_compiled_step_trains_uncounted(trained) -> None:
    found = trained("compiled")

    assert found.values["loss"] == curve(found.said["loss"])
    assert found.said["changed"]
    assert found.progress.iteration == 5


def test_a_loop_trains_equally_in_a_run_and_outside_of_one(trained, capsys) -> None:
    source = (LOOPS / "evaluated.py").read_text()
    exec(compile(source, "evaluated.py", "exec"), {"__name__": "__main__"})

    outside = json.loads(capsys.readouterr().out)

    assert trained("evaluated").said == outside


def test_gradients_without_a_loss_make_steps_without_one(trained) -> None:
    found = trained("without_loss")

    assert "loss" not in found.values
    assert found.values["lr"] == curve([0.1] * found.said["steps"])
    assert found.progress.iteration == found.said["steps"]


@pytest.mark.parametrize(("is_restart", "first"), [(True, 10), (False, 1)])
def test_a_script_that_starts_again_counts_on_from_the_epoch_of_its_sampler(
    current_run, taken, is_restart, first
) -> None:
    TorchFramework().install()
    current_run.is_restart = is_restart

    exec((LOOPS / "later_epochs.py").read_text(), {})
    progress = current_run.log.progress
    current_run.close()

    seen = [sample.iteration for sample in taken().samples if sample.name == "loss"]
    assert seen == [*range(first, first + 6)]
    assert progress.epoch == (5.0 if is_restart else 2.0)


def test_a_step_is_the_boundary_at_which_a_run_stops(current_run, taken) -> None:
    TorchFramework().install()
    current_run.boundaries.stop_at(4)

    with pytest.raises(RunStopped):
        exec((LOOPS / "in_turn.py").read_text(), {"__name__": "__main__"})

    current_run.close()
    batch = taken()
    assert [s.iteration for s in batch.samples if s.name == "loss"] == [1, 2, 3, 4]
    assert (current_run.iteration, current_run.boundaries.count) == (4, 4)


def test_a_report_after_a_step_is_no_further_boundary(current_run) -> None:
    TorchFramework().install()

    exec((LOOPS / "reporting.py").read_text(), {"__name__": "__main__"})

    # So ranks stop together, although often only one of them reports.
    assert (current_run.iteration, current_run.boundaries.count) == (6, 6)


def test_a_defect_of_the_hook_ends_the_curve_once_and_not_the_training(
    current_run, taken, monkeypatch
) -> None:
    TorchFramework().install()
    monkeypatch.setattr(training_loop.TrainingLoop, "_report", lambda *_: 1 / 0)

    exec((LOOPS / "in_turn.py").read_text(), {"__name__": "__main__"})

    current_run.close()
    batch = taken()
    words = [chunk.text for chunk in batch.chunks if "workbench:" in chunk.text]
    assert len(words) == 1
    assert "ZeroDivisionError" in words[0]
    assert "the training continues" in words[0]
    assert current_run.boundaries.count == 12  # so that it stops where the others do


def test_importing_workbench_imports_no_torch() -> None:
    code = (
        "import sys; from workbench.engine.framework import install_frameworks\n"
        "install_frameworks()\n"
        "sys.exit('torch' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_values_on_a_device_are_fetched_together(trained, monkeypatch) -> None:
    fetches = []
    fetch = hook._numbers

    def counted(torch, values):
        fetches.append(len(values))
        return fetch(torch, values)

    # There is no device here: as on one, the loop keeps tensors, whose numbers it asks for.
    monkeypatch.setattr(hook, "_scalar", lambda _, value: value.detach().clone())
    monkeypatch.setattr(hook, "_numbers", counted)
    monkeypatch.setattr(training_loop, "FETCH_SECONDS", 3600.0)

    found = trained("evaluated")

    assert found.values["loss"] == curve(found.said["loss"])
    assert fetches == [15]
