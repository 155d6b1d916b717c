"""An elastic loop in this process: what it gives, saves and refuses."""

from __future__ import annotations

import gc
import json
import random
import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import workbench
from workbench.engine.boundary import RunStopped
from workbench.engine.run_context import RunContext, set_current
from workbench.engine.snapshot import saved_training
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.errors import InputError, StateError


@pytest.fixture
def start(log, tmp_path, monkeypatch) -> Iterator[Callable[..., RunContext]]:
    """Begin a run, or another attempt of it."""
    monkeypatch.setattr(saved_training, "interval", lambda *_: 3)

    def start(attempt: int = 1) -> RunContext:
        folder = str(tmp_path / "snapshots")
        resumes = attempt > 1
        snapshots = RunSnapshots(
            log, folder, run=log.run, attempt=attempt, generation=1, resumes=resumes
        )
        run = RunContext(log, snapshots=snapshots)
        set_current(run)
        return run

    yield start
    set_current(None)


def test_the_batches_that_a_loop_takes_itself_say_its_epoch(start, log) -> None:
    run = start()

    for step in workbench.elastic({"total": 0}, steps=3):
        run.count_step(step + 1, (step + 1) / 2)  # as the hooks of a framework do

    assert (log.progress.iteration, log.progress.epoch) == (3, 1.5)


# -- without a run


def test_it_is_a_plain_loop_without_a_run() -> None:
    state = {"total": 0}

    for step in workbench.elastic(state, steps=5):
        state["total"] += step

    assert state["total"] == 0 + 1 + 2 + 3 + 4


def test_it_gives_batches_by_epochs() -> None:
    batches = workbench.GlobalBatches(10, 4, shuffle=False)

    steps = list(workbench.elastic({}, epochs=2, data=batches))

    assert [step.batch.tolist() for step in steps[:3]] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [(int(step), step.epoch, step.ends_epoch) for step in steps] == [
        (0, 0, False), (1, 0, False), (2, 0, True), (3, 1, False), (4, 1, False), (5, 1, True),
    ]  # fmt: skip


def test_torchrun_divides_the_batches(monkeypatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")

    (step,) = workbench.elastic({}, steps=1, data=workbench.GlobalBatches(64, 64, shuffle=False))

    assert step.batch.tolist() == [*range(43, 64)]
    assert step.weight == pytest.approx(21 * 3 / 64)


def test_a_loop_follows_another_one_that_was_left() -> None:
    for _ in workbench.elastic({}, steps=3):
        break

    assert len([*workbench.elastic({}, steps=3)]) == 3


def test_a_loop_of_another_form_ends_its_steps_itself() -> None:
    state = {"done": 0}
    loop = workbench.elastic(state)
    loop.restore()

    while state["done"] < 4:
        state["done"] += 1
        loop.commit()
    loop.finish()

    assert loop.step == 4
    assert repr(loop) == "<ElasticLoop of done, 4 steps done>"


# -- in a run


def test_a_loop_that_an_error_ends_has_reported_its_last_step(start, log) -> None:
    run = start()
    loop = workbench.elastic({}, steps=9)
    loop.restore()
    for _ in range(5):  # within a moment
        loop.commit()

    run.close()

    assert log.progress.iteration == 5
    assert not run.in_loop


def test_a_loop_that_has_ended_is_not_kept_by_its_run(start) -> None:
    run = start()

    for _ in workbench.elastic({}, steps=2):
        assert run.closing

    assert not run.closing


def test_the_steps_are_the_boundaries_and_the_iterations(start, taken) -> None:
    run = start()

    for _ in workbench.elastic({}, steps=4):
        workbench.report(loss=1.0)
        workbench.report(loss=2.0)

    assert (run.boundaries.count, run.iteration, run.in_loop) == (4, 4, 0)
    samples = [s for s in taken().samples if s.name == "loss"]
    assert [s.iteration for s in samples] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert (run.log.progress.iteration, run.log.progress.iterations_total) == (4, 4)


def test_a_run_stops_at_the_end_of_a_step(start) -> None:
    run = start()
    done = []

    def train() -> None:
        for step in workbench.elastic({}, steps=9):
            run.boundaries.stop_at(3)
            workbench.report(loss=1.0)
            done.append(int(step))

    with pytest.raises(RunStopped, match="iteration 3"):
        train()

    assert done == [0, 1, 2]


def test_a_plain_state_continues(start) -> None:
    def make() -> dict[str, object]:
        return {
            "w": np.zeros(2), "best": 0, "log": [], "counts": {}, "own": random.Random(3),
            "old": np.random.RandomState(4), "new": np.random.default_rng(5), "name": "a",
        }  # fmt: skip

    def train(state, steps: int) -> list[float]:
        log = state["log"]
        for step in workbench.elastic(state, steps=steps):
            state["w"] += step
            state["best"] = int(step)
            state["counts"][int(step)] = (step + 1, {"x"})
            log.append(state["own"].random() + state["old"].rand() + state["new"].random())
        return log

    start()
    whole = make()
    train(whole, 6)
    run = start()
    train(make(), 4)
    run.snapshots.close()
    start(2)
    second = make()

    assert train(second, 6) == whole["log"]
    assert second["w"].tolist() == whole["w"].tolist()
    assert (second["best"], second["counts"]) == (whole["best"], whole["counts"])


def test_numpy_reads_a_snapshot_without_us(start, tmp_path) -> None:
    run = start()
    state = {"w": np.arange(3.0), "rate": 0.5, "log": [1]}
    for _ in workbench.elastic(state, steps=2):
        pass
    run.snapshots.close()

    folder = tmp_path / "snapshots" / "attempt-1-training-1-iteration-2-final"
    with np.load(folder / "state.npz") as saved:
        assert {name: saved[name].tolist() for name in saved} == {"w": [0, 1, 2], "rate": 0.5}
    assert json.loads((folder / "manifest.json").read_text())["iteration"] == 2


def test_what_a_step_changes_meanwhile_is_not_in_the_snapshot(start) -> None:
    run = start()
    w = np.zeros(4)
    held, write = threading.Event(), run.snapshots.folder.write

    def slowly(manifest, contents, **options):
        held.wait(30)
        return write(manifest, contents, **options)

    run.snapshots.folder.write = slowly
    for step in workbench.elastic({"w": w}, steps=9):
        w += 1
        if step == 6:
            held.set()
            run.snapshots.writer.wait()
            break
    start(2)

    loop = workbench.elastic({"w": w})
    assert loop.restore()
    assert (loop.step, w.tolist()) == (5, [5.0] * 4)


def test_a_longer_loop_continues_where_the_shorter_one_ended(start) -> None:
    run, state = start(), {"seen": []}
    for step in workbench.elastic(state, steps=3):
        state["seen"].append(int(step))
    run.snapshots.close()
    start(2)

    for step in workbench.elastic(state, steps=5):
        state["seen"].append(int(step))

    assert state["seen"] == [0, 1, 2, 3, 4]


def test_nothing_keeps_the_state_after_the_loop(start) -> None:
    class Kept:
        def state_dict(self) -> dict[str, int]:
            return {}

        def load_state_dict(self, _: dict[str, int]) -> None:
            """Take nothing."""

    def train() -> weakref.ref[Kept]:
        kept = Kept()
        for _ in workbench.elastic({"kept": kept}, steps=7):
            pass
        return weakref.ref(kept)

    run = start()
    gc.disable()
    try:
        found = train()
        run.snapshots.close()
        assert found() is None
    finally:
        gc.enable()


# -- what is refused


@pytest.mark.parametrize(
    ("state", "options", "sentence"),
    [
        ([1], {}, "takes a dictionary, not a list"),
        ({"f": print}, {}, "state['f'] is a builtin_function_or_method, which has neither"),
        ({"l": threading.Lock()}, {}, "has neither state_dict nor serialize"),
        ({"o": np.array([print])}, {}, "state['o'] is a ndarray, which has neither"),
        ({"r": random.SystemRandom()}, {}, "state['r'] is a SystemRandom, which has neither"),
        ({"a/b": 1}, {}, "has an entry named 'a/b'; name each entry by a text without '/'"),
        ({1: 1}, {}, "has an entry named 1"),
        ({}, {"steps": -1}, "elastic(steps=…) takes a whole number from 0, not -1"),
        ({}, {"steps": 1.5}, "not 1.5"),
        ({}, {"epochs": 2}, "needs the data whose epochs it counts"),
        ({}, {"data": [1, 2]}, "not a list"),
        ({}, {"data": workbench.GlobalBatches(3, 1), "epochs": "two"}, "not 'two'"),
    ],
)  # fmt: skip
def test_an_argument_that_cannot_be_used_is_refused(state, options, sentence) -> None:
    with pytest.raises(InputError) as caught:
        workbench.elastic(state, **options)

    assert sentence in str(caught.value)


@pytest.mark.parametrize(("examples", "size"), [(0, 1), (3, 0), (3, 1.5), ("3", 1)])
def test_batches_without_a_size_are_refused(examples, size) -> None:
    with pytest.raises(InputError, match="takes a whole number from 1"):
        workbench.GlobalBatches(examples, size)


def test_a_loop_inside_of_another_one_is_refused() -> None:
    def train() -> None:
        for _ in workbench.elastic({}, steps=2):
            list(workbench.elastic({}, steps=2))

    with pytest.raises(StateError, match="inside of another one"):
        train()


def test_an_entry_that_comes_later_is_refused(start) -> None:
    start()
    state = {"a": 1}

    def train() -> None:
        for _ in workbench.elastic(state, steps=2):
            state["b"] = 1

    with pytest.raises(InputError, match=r"entries changed during the loop \(b\)"):
        train()


def test_an_entry_in_the_place_of_another_is_refused_before_the_end(start) -> None:
    start()
    state = {"a": 1}

    def train() -> None:
        for _ in workbench.elastic(state, steps=2):
            state["b"] = state.pop("a", 1)

    with pytest.raises(InputError, match=r"entries changed during the loop \(a, b\)"):
        train()


def test_the_hidden_states_of_recurrent_links_continue(start) -> None:
    chainer = pytest.importorskip("chainer")

    def model():
        return chainer.Sequential(chainer.links.LSTM(2, 3), chainer.links.StatefulGRU(3, 3))

    run, first = start(), model()
    for _ in workbench.elastic({"model": first}, steps=3):
        first(np.ones((4, 2), np.float32))
    run.snapshots.close()

    start(2)
    second = model()
    for _ in workbench.elastic({"model": second}, steps=4):
        break

    np.testing.assert_array_equal(second[0].h.array, first[0].h.array)
    np.testing.assert_array_equal(second[0].c.array, first[0].c.array)
    np.testing.assert_array_equal(second[1].h.array, first[1].h.array)
