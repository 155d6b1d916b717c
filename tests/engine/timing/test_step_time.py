"""A step's time is divided: compute, communication, data, other."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest

from workbench.engine.timing import call_timing, step_time
from workbench.engine.timing.mpi_calls import watch
from workbench.engine.timing.step_probe import MpiActivity
from workbench.engine.timing.step_time import PARTS
from workbench.frameworks.chainer.trainer_time import TrainerTime


class Iterator:
    def next(self) -> str:
        time.sleep(0.02)
        return "batch"


def convert(batch: str) -> str:
    time.sleep(0.01)
    return batch.upper()


class Updater:
    """As much of Chainer's updater as is timed: 30 ms of data, 40 of MPI, 10 of its own."""

    def __init__(self, converter=convert) -> None:
        self._iterators = {"main": Iterator()}
        self.converter = converter

    def update(self) -> str:
        batch = self.converter(self._iterators["main"].next())
        time.sleep(0.04)
        watch.seconds += 0.04
        time.sleep(0.01)
        return batch


def reported(batch) -> dict[str, float]:
    return {sample.name: sample.value for sample in batch.samples}


def test_the_parts_of_a_step_are_distinguished_and_add_up(log, taken) -> None:
    start = time.perf_counter()
    timing, updater = TrainerTime(log), Updater()

    with timing.installed(updater):
        for iteration in (1, 2):
            assert updater.update() == "BATCH"
            time.sleep(0.05)  # extensions
            timing.step(iteration)
    timing.finish(2)

    passed = (time.perf_counter() - start) / 2
    parts = reported(taken())
    assert [*parts] == [*PARTS]
    # A sleep may be longer than asked for, never shorter; so a wrong part breaks a bound.
    assert parts["step/communication"] == pytest.approx(0.04)
    assert parts["step/data"] >= 0.03
    assert parts["step/compute"] >= 0.01
    assert parts["step/other"] >= 0.05
    assert 0.8 * passed <= sum(parts.values()) <= passed


def test_communication_of_extensions_is_not_counted_twice(log, taken) -> None:
    start = time.perf_counter()
    timing = TrainerTime(log)

    time.sleep(0.03)
    watch.seconds += 0.03
    timing.step(1)
    timing.finish(1)

    parts = reported(taken())
    assert parts["step/communication"] == pytest.approx(0.03)
    assert sum(parts.values()) <= time.perf_counter() - start
    assert parts["step/compute"] == parts["step/data"] == 0.0


def test_messages_to_one_rank_are_distinguished_from_what_all_do(log, taken) -> None:
    class Passing(Updater):
        def update(self) -> str:
            watch.seconds += 0.01
            watch.passed += 0.01
            time.sleep(0.01)
            return super().update()

    timing, updater = TrainerTime(log), Passing()
    with timing.installed(updater):
        updater.update()
        timing.step(1)
    timing.finish(1)

    parts = reported(taken())
    assert parts["step/point-to-point"] == pytest.approx(0.01)
    assert parts["step/communication"] == pytest.approx(0.04)
    assert 0.01 <= parts["step/compute"] < 0.04


def test_an_updater_is_left_as_it_was(log) -> None:
    updater = Updater()
    iterator = updater._iterators["main"]

    with TrainerTime(log).installed(updater):
        assert "update" in vars(updater)
        assert "next" in vars(iterator)
        assert updater.converter is not convert

    assert vars(updater) == {"_iterators": {"main": iterator}, "converter": convert}
    assert vars(iterator) == {}


def test_an_updater_is_left_as_it_was_when_training_fails(log) -> None:
    updater = Updater()

    with pytest.raises(ZeroDivisionError), TrainerTime(log).installed(updater):
        raise ZeroDivisionError

    assert "update" not in vars(updater)
    assert updater.converter is convert


def test_a_converter_that_is_an_object_is_not_replaced(log) -> None:
    class Converter:
        stream = None

        def __call__(self, batch: str) -> str:
            return batch

    converter = Converter()
    updater = Updater(converter)

    with TrainerTime(log).installed(updater):
        assert updater.converter is converter


def test_an_updater_without_iterators_is_timed_too(log, taken) -> None:
    class Bare:
        def update(self) -> None:
            time.sleep(0.02)

    timing, updater = TrainerTime(log), Bare()
    with timing.installed(updater):
        updater.update()
        timing.step(1)
    timing.finish(1)

    assert reported(taken())["step/compute"] >= 0.02


def test_means_are_reported_from_time_to_time(log, taken) -> None:
    timing = TrainerTime(log)
    end = time.perf_counter() + 2.2 * step_time.REPORT_SECONDS

    iteration = 0
    while time.perf_counter() < end:
        time.sleep(0.01)
        iteration += 1
        timing.step(iteration)

    others = [s for s in taken().samples if s.name == "step/other"]
    assert 1 <= len(others) <= 2
    assert all(sample.value >= 0.01 for sample in others)


def test_parts_are_exact_though_short_steps_are_counted_together(log, taken, monkeypatch) -> None:
    now = 100.0

    def spend(seconds: float) -> None:
        nonlocal now
        now += seconds

    class Short:
        def update(self) -> None:
            spend(0.002)
            watch.seconds += 0.0005

    monkeypatch.setattr(call_timing, "compiled", None)  # its clock is the system's
    monkeypatch.setattr(step_time.time, "perf_counter", lambda: now)
    timing, updater = TrainerTime(log), Short()
    with timing.installed(updater):
        for iteration in range(1, 211):
            updater.update()
            spend(0.001 if iteration % 70 else 0.701)  # an evaluation each 70 steps
            timing.step(iteration)
    timing.finish(210)

    samples = taken().samples
    # Of each evaluation there is one report, and one of what follows the last.
    ends = [0, *(s.iteration for s in samples if s.name == "step/other")]
    assert ends == [0, 70, 140, 210]
    for end in ends[1:]:
        parts = {s.name: s.value for s in samples if s.iteration == end}
        assert parts["step/compute"] == pytest.approx(0.0015)
        assert parts["step/communication"] == pytest.approx(0.0005)
        assert parts["step/other"] == pytest.approx(0.011)


def test_the_pace_of_steps_that_are_counted_together_is_that_of_each() -> None:
    one, together = MpiActivity(), MpiActivity()
    for activity in (one, together):
        activity.count_step(0.5)

    for _ in range(20):
        one.count_step(0.1)
    together.note_pace(0.1, 20)

    assert together.pace == pytest.approx(one.pace)
    assert 0.1 < one.pace < 0.2


def test_a_training_without_a_step_tells_nothing(log, taken) -> None:
    TrainerTime(log).finish(0)

    assert taken().samples == ()


def test_processor_time_is_read_in_some_backward_passes_and_stated_for_these(
    log, taken, monkeypatch
) -> None:
    now, readings = 0.0, []

    def advance() -> None:
        nonlocal now
        now += 0.01

    def used() -> float:
        readings.append(now)
        return 2 * now

    monkeypatch.setattr(step_time.time, "perf_counter", lambda: now)
    monkeypatch.setattr(step_time.time, "process_time", used)
    chainer_variable = SimpleNamespace(Variable=SimpleNamespace(backward=advance))
    monkeypatch.setitem(sys.modules, "chainer.variable", chainer_variable)
    timing = TrainerTime(log)

    with timing.installed(SimpleNamespace(update=lambda: None)):
        for number in range(1, 31):
            chainer_variable.Variable.backward()
            timing.step(number)
    timing.finish(30)

    values = reported(taken())
    assert len(readings) == 2 * 6  # of 30 passes of 10 ms, one in 50 ms
    assert values["exchange/busy"] == pytest.approx(2.0)
    assert values["exchange/backward"] == pytest.approx(0.01)
