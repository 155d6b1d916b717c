"""Every unchanged Chainer ``Trainer`` reports, is timed and stops at a boundary."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable

import numpy as np
import pytest

import workbench.compat
from workbench.core.run.metrics import is_measured
from workbench.core.run.rank_protocol import Progress
from workbench.engine.boundary import RunStopped
from workbench.engine.timing import step_time
from workbench.frameworks.chainer import hook
from workbench.frameworks.chainer.framework import ChainerFramework
from workbench.frameworks.chainer.hook import EXTENSION_NAME, without_echoes

chainer = pytest.importorskip("chainer")
from chainer import training  # noqa: E402  # after the compat layer has seen it
from chainer.training import extensions  # noqa: E402  # likewise

assert workbench.compat


@pytest.fixture(autouse=True)
def hooked() -> None:
    ChainerFramework().install()


@pytest.fixture
def trainer(tmp_path) -> Callable[..., training.Trainer]:
    """Make a trainer over 40 points in batches of 10; equal ones train equally."""

    def make(stop=(6, "iteration")) -> training.Trainer:
        numbers = np.random.RandomState(3)
        inputs = numbers.rand(40, 4).astype(np.float32)
        labels = (inputs.sum(axis=1) > 2).astype(np.int32)
        weights = numbers.rand(2, 4).astype(np.float32)
        model = chainer.links.Classifier(chainer.links.Linear(4, 2, initialW=weights))
        optimizer = chainer.optimizers.SGD(0.5).setup(model)
        data = chainer.datasets.TupleDataset(inputs, labels)
        iterator = chainer.iterators.SerialIterator(data, 10, shuffle=False)
        updater = training.StandardUpdater(iterator, optimizer)
        return training.Trainer(updater, stop, out=str(tmp_path / "result"))

    return make


def weights_of(trainer) -> np.ndarray:
    return trainer.updater.get_optimizer("main").target.predictor.W.array


def losses(batch) -> dict[int, float]:
    return {s.iteration: s.value for s in batch.samples if s.name == "main/loss"}


def test_hooking_again_changes_nothing() -> None:
    before = training.Trainer.run

    ChainerFramework().install()

    assert training.Trainer.run is before


def test_outside_of_a_run_nothing_is_added(trainer) -> None:
    plain = trainer()

    plain.run()

    assert EXTENSION_NAME not in plain._extensions
    assert plain.updater.iteration == 6


def test_every_iteration_is_reported(trainer, current_run, taken) -> None:
    seen = {}
    one = trainer()
    one.extend(
        lambda t: seen.update({t.updater.iteration: float(t.observation["main/loss"].array)}),
        trigger=(1, "iteration"),
    )

    one.run()

    assert losses(taken()) == seen
    assert [*seen] == [1, 2, 3, 4, 5, 6]
    assert current_run.boundaries.count == current_run.iteration == 6


def test_training_is_the_same_with_and_without_a_run(trainer, current_run) -> None:
    inside = trainer()
    inside.run()

    from workbench.engine.run_context import set_current

    set_current(None)
    outside = trainer()
    outside.run()

    np.testing.assert_array_equal(weights_of(inside), weights_of(outside))


@pytest.mark.parametrize(
    ("stop", "progress"),
    [
        ((6, "iteration"), Progress(6, 6, 1.5, 0.0)),
        ((2, "epoch"), Progress(8, 8, 2.0, 2.0)),
    ],
)
def test_progress_knows_its_end(trainer, current_run, taken, stop, progress) -> None:
    trainer(stop).run()

    assert taken().progress == progress


def test_the_iterations_of_an_epoch_are_predicted(trainer, current_run, log) -> None:
    totals = []
    one = trainer((3, "epoch"))
    one.extend(
        lambda t: totals.append(log.progress_source().iterations_total),
        priority=-2000,
        trigger=(1, "iteration"),
    )

    one.run()

    assert totals == [12] * 12


def test_the_predicted_iterations_are_the_same_within_an_iteration(
    trainer, current_run, log
) -> None:
    totals = []
    one = trainer((9, "epoch"))
    model = one.updater.get_optimizer("main").target
    forward = model.forward

    def look(*arguments):
        totals.append(log.progress_source().iterations_total)  # as another thread may
        return forward(*arguments)

    model.forward = look
    one.updater.get_iterator("main").batch_size = 7  # of 40, so that no epoch is whole
    one.run()

    assert {*totals[1:]} == {one.updater.iteration} == {52}


def test_the_end_of_an_early_stopping_trigger_is_known(trainer, current_run, taken) -> None:
    stop = training.triggers.EarlyStoppingTrigger(
        monitor="main/loss", check_trigger=(1, "iteration"), max_trigger=(5, "epoch")
    )
    one = trainer()
    one.stop_trigger = stop
    with contextlib.suppress(RunStopped):
        current_run.boundaries.stop_at(2)
        one.run()

    assert taken().progress == Progress(2, 20, 0.5, 5.0)


def test_what_an_evaluator_observes_is_reported_at_its_iteration(
    trainer, current_run, taken
) -> None:
    one = trainer()
    one.extend(
        lambda t: chainer.report({"validation/main/accuracy": 0.25}), trigger=(3, "iteration")
    )

    one.run()

    observed = [s for s in taken().samples if s.name == "validation/main/accuracy"]
    assert [(s.iteration, s.value) for s in observed] == [(3, 0.25), (6, 0.25)]


def test_what_is_no_number_is_left_to_others(trainer, current_run, taken) -> None:
    one = trainer()
    one.extend(
        lambda t: t.observation.update(image=np.zeros((2, 2)), note="text", none=None),
        trigger=(1, "iteration"),
    )

    one.run()

    assert {s.name for s in taken().samples if not is_measured(s.name)} == {
        "main/loss",
        "main/accuracy",
    }


class OnDevice:
    """Like a CuPy scalar: reading it would wait for the device."""

    size = 1

    def __init__(self, value: float) -> None:
        self.value = value
        self.__cuda_array_interface__ = {"version": 3}

    def __float__(self) -> float:
        return self.value


def test_values_on_a_device_are_fetched_for_a_snapshot(trainer, current_run, monkeypatch) -> None:
    monkeypatch.setattr(hook, "DEVICE_SECONDS", 3600.0)
    kept = []

    def observe(t: training.Trainer) -> None:
        done = t.updater.iteration - 1
        kept.append([p.samples for p in current_run.log.undelivered(done)])
        t.observation.update(gpu=OnDevice(done + 1.0))

    one = trainer()
    one.extend(observe, trigger=(1, "iteration"))

    one.run()

    assert kept[0] == []
    (samples,) = kept[-1]
    assert [s.value for s in samples if s.name == "gpu"] == [1, 2, 3, 4, 5]
    assert current_run.log.fetching == []


def test_values_on_a_device_are_fetched_by_the_end(trainer, current_run, taken) -> None:
    one = trainer()
    one.extend(
        lambda t: t.observation.update(gpu=OnDevice(t.updater.iteration / 2)),
        trigger=(1, "iteration"),
    )

    one.run()

    fetched = {s.iteration: s.value for s in taken().samples if s.name == "gpu"}
    assert fetched == {n: n / 2 for n in range(1, 7)}


def test_a_training_stops_at_the_boundary_with_all_extensions_finalized(
    trainer, current_run, taken
) -> None:
    class Witness(training.Extension):
        trigger = (1, "iteration")
        finalized = 0

        def __call__(self, trainer) -> None: ...

        def finalize(self) -> None:
            self.finalized += 1

    one, witness = trainer((100, "epoch")), Witness()
    one.extend(witness)
    current_run.boundaries.stop_at(4)

    with pytest.raises(RunStopped, match="stopped at iteration 4"):
        one.run()

    assert [*losses(taken())] == [1, 2, 3, 4]
    assert witness.finalized == 1


def test_a_stop_at_an_epochs_end_that_is_asked_for_between_two_looks_comes_there(
    trainer, current_run, monkeypatch
) -> None:
    monkeypatch.setattr(step_time, "LOOK_SECONDS", 3600.0)

    def ask(t) -> None:
        if t.updater.iteration == 3:
            current_run.boundaries.stop_at(5, epoch=True)

    one = trainer((100, "epoch"))
    one.extend(ask, trigger=(1, "iteration"))

    with pytest.raises(RunStopped, match="stopped at iteration 8"):
        one.run()


def test_a_value_is_that_of_its_iteration_though_its_array_is_overwritten(
    trainer, current_run, taken
) -> None:
    array = np.zeros((), np.float32)

    def count(t) -> None:
        array[...] += 1
        t.observation.update(array=array, variable=chainer.Variable(array))

    one = trainer()
    one.extend(count, trigger=(1, "iteration"))

    one.run()

    samples = taken().samples
    for name in ("array", "variable"):
        assert [s.value for s in samples if s.name == name] == [1, 2, 3, 4, 5, 6]


def test_a_stop_does_not_fall_into_what_follows_the_training(trainer, current_run) -> None:
    current_run.boundaries.stop_at(6)  # where the training would end anyway

    with pytest.raises(RunStopped, match="stopped at iteration 6"):
        trainer().run()


def test_where_a_step_spends_its_time_is_reported(trainer, current_run, taken) -> None:
    trainer().run()

    steps = {s.name: s.value for s in taken().samples if s.name.startswith("step/")}
    assert {"step/compute", "step/communication", "step/data", "step/other"} == steps.keys()
    assert steps["step/compute"] > 0


def test_the_updater_is_as_it_was_afterwards(trainer, current_run) -> None:
    one = trainer()
    before = vars(one.updater).keys()

    one.run()

    assert vars(one.updater).keys() == before


def test_hooks_of_hand_written_loops_are_away_while_a_trainer_runs(trainer, current_run) -> None:
    """They would take time of each of its steps, and have nothing to do."""
    ChainerFramework().install()

    def hooked() -> list[bool]:
        kind, reporter = chainer.iterators.SerialIterator, chainer.reporter
        optimizers = (chainer.GradientMethod.update, chainer.Optimizer.update)
        found = (*optimizers, kind.next, kind.__next__, chainer.report, reporter.report)
        return [hasattr(one, "__wrapped__") for one in found]

    during, one = [], trainer()
    one.extend(lambda _: during.append(hooked()), trigger=(1, "iteration"))
    before = hooked()

    one.run()

    assert (before, during, hooked()) == ([True] * 6, [[False] * 6] * 6, [True] * 6)


def test_a_snapshot_is_taken_up_again(trainer, current_run, tmp_path) -> None:
    first = trainer((6, "iteration"))
    first.extend(extensions.snapshot(filename="snapshot"), trigger=(3, "iteration"))
    first.run()
    whole = weights_of(first).copy()

    second = trainer((9, "iteration"))
    chainer.serializers.load_npz(tmp_path / "result" / "snapshot", second)
    assert second.updater.iteration == 6
    second.run()

    straight = trainer((9, "iteration"))
    straight.run()
    np.testing.assert_array_equal(weights_of(second), weights_of(straight))
    assert not np.array_equal(whole, weights_of(second))


def test_chainers_own_reports_and_progress_bar_work_beside_it(
    trainer, current_run, tmp_path, capsys
) -> None:
    out = io.StringIO()
    one = trainer((2, "epoch"))
    one.extend(extensions.LogReport())
    one.extend(extensions.PrintReport(["epoch", "main/loss"], out=out))
    one.extend(extensions.ProgressBar(update_interval=1))

    one.run()

    assert (tmp_path / "result" / "log").exists()
    assert "main/loss" in out.getvalue()
    assert "8 iter, 2 epoch / 2 epochs" in capsys.readouterr().out


def test_an_error_in_training_is_the_users_own(trainer, current_run, taken) -> None:
    def fall(t) -> None:
        if t.updater.iteration == 3:
            raise ValueError("boom")

    one = trainer()
    one.extend(fall, trigger=(1, "iteration"))

    with pytest.raises(ValueError, match="boom"):
        one.run(show_loop_exception_msg=False)

    assert [*losses(taken())] == [1, 2]


class Fails:
    """A training whose first update raises; it has what ``Trainer.run`` needs of an updater."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.iteration = 0

    def connect_trainer(self, trainer: object) -> None:
        pass

    def update(self) -> None:
        raise self.error

    def get_all_optimizers(self) -> dict[str, object]:
        return {}

    def finalize(self) -> None:
        pass


@pytest.mark.parametrize("error", [ConnectionError("revoked"), ValueError("mine")])
def test_only_an_echo_is_left_out(capsys, tmp_path, error) -> None:
    trainer_of = pytest.importorskip("chainer").training.Trainer
    trainer = trainer_of(Fails(error), (1, "iteration"), str(tmp_path))

    def is_echo(found: BaseException) -> bool:
        return isinstance(found, ConnectionError)

    with without_echoes(is_echo):
        print("before", file=sys.stderr)
        with pytest.raises(type(error)):
            trainer.run()
    print("after", file=sys.stderr)

    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert ("Exception in main training loop: mine" in lines) is isinstance(error, ValueError)
    assert len(lines) == 2 or isinstance(error, ValueError)
