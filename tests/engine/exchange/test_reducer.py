"""Each algorithm is tried as often as it takes to tell it from the others, and no longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import numpy

from workbench.core.performance.exchange_model import Algorithm
from workbench.engine.exchange.reducer import Reducer

RING, LAYERED, MPI = Algorithm.RING, Algorithm.HIERARCHICAL, Algorithm.MPI


class Rounds(Reducer):
    """A reducer between two nodes, without ranks, whose rounds take given milliseconds."""

    def __init__(self, rounds: Iterator[dict[Algorithm, float]]) -> None:
        self.nodes = 2
        self._shared, self._ring = object(), SimpleNamespace(size=2)
        self.transport = SimpleNamespace(size=2)
        self.asked: list[list[Algorithm]] = []
        self._left = rounds

    def _round(
        self, ways: Sequence[Algorithm], array: numpy.ndarray, in_a_row: int = 1
    ) -> list[float]:
        self.asked.append([*ways])
        took = next(self._left)
        return [took[one] / 1e3 for one in ways]


def rounds(*mpi: float) -> Iterator[dict[Algorithm, float]]:
    """Yield the first round, which does not count, and then rounds in which MPI's own differs."""
    yield {RING: 90.0, LAYERED: 90.0, MPI: 90.0}
    for one in mpi:
        yield {RING: 22.0, LAYERED: 6.0, MPI: one}
    while True:
        yield {RING: 22.0, LAYERED: 6.0, MPI: 3.6}


def test_what_is_three_times_as_slow_is_tried_twice_and_leaves_its_time_to_the_others() -> None:
    reducer = Rounds(rounds())

    took = reducer._time_all([RING, LAYERED, MPI], 262_144)

    assert took == {RING: 0.022, LAYERED: 0.006, MPI: 0.0036}
    assert reducer.asked[:3] == [[RING, LAYERED, MPI]] * 3
    assert reducer.asked[3:] == [[LAYERED, MPI]] * 7  # 0.1 s, without what RING took


def test_two_delays_do_not_make_the_quickest_one_slow() -> None:
    took = Rounds(rounds(17.9, 17.9))._time_all([RING, LAYERED, MPI], 262_144)

    assert min(took, key=took.__getitem__) is MPI


def test_a_header_does_not_go_round_a_ring_that_was_named() -> None:
    found, reducer = {}, Rounds(rounds())
    for named in (RING, LAYERED, MPI):
        reducer.forced = named
        found[named] = [reducer.algorithm_of_message(nbytes) for nbytes in (16, 1 << 20)]

    assert found == {RING: [MPI, RING], LAYERED: [MPI, LAYERED], MPI: [MPI, MPI]}
