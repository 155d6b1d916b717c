"""The time between two steps of a loop is divided by what happened in it."""

from __future__ import annotations

import pytest

from workbench.core.performance.step_sampling import Instant, LoopTime


def at(time: float, mpi: float = 0.0) -> Instant:
    return Instant(time, mpi)


def parts(loop: LoopTime, ended: Instant) -> tuple[float, float, float]:
    found = loop.step(ended)
    return pytest.approx((found.update, found.inside, found.data))


def test_a_step_lasts_from_the_request_of_its_batch_to_its_end() -> None:
    loop = LoopTime(at(0))
    loop.fetched(at(1, mpi=0.5), at(3, mpi=0.5))
    loop.backward()

    assert parts(loop, at(7, mpi=1.5)) == (6.0, 1.0, 2.0)  # the second before is none of it


def test_batches_that_are_only_evaluated_are_none_of_the_step() -> None:
    loop = LoopTime(at(0))
    for second in (0, 10, 20):
        loop.fetched(at(second), at(second + 2))
    loop.backward()

    assert parts(loop, at(25)) == (5.0, 0.0, 2.0)


def test_a_step_may_have_several_batches() -> None:
    loop = LoopTime(at(0))
    for second in (1, 11):
        loop.fetched(at(second), at(second + 2))
        loop.backward()

    assert parts(loop, at(20)) == (19.0, 0.0, 4.0)


def test_without_a_batch_the_whole_time_is_the_step() -> None:
    loop = LoopTime(at(0))
    loop.backward()
    loop.step(at(4))
    loop.backward()

    assert parts(loop, at(9)) == (5.0, 0.0, 0.0)


def test_a_batch_that_is_fetched_ahead_is_waited_for_all_the_same() -> None:
    loop = LoopTime(at(0))
    loop.fetched(at(0), at(2))
    loop.backward()
    loop.fetched(at(5), at(6))

    assert parts(loop, at(7)) == (7.0, 0.0, 3.0)


def test_a_step_without_a_backward_pass_has_its_batch_too() -> None:
    loop = LoopTime(at(0))
    loop.fetched(at(1), at(2))

    assert parts(loop, at(5)) == (4.0, 0.0, 1.0)
