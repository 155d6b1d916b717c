"""What it costs to count the visits of examples: nothing in a step, and a sum for each epoch."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import workbench.compat

chainer = pytest.importorskip("chainer")

from workbench.frameworks.chainer.iterator_visits import IteratorVisits  # noqa: E402  # after the compat layer

assert workbench.compat
EXAMPLES, BATCH = 1_000, 10


class CountedPeers:
    """Ranks that count what they send: this one, and one like it."""

    rank, size = 0, 2

    def __init__(self) -> None:
        self.gathered = 0
        self.summed: list[int] = []  # bytes

    def gather(self, value: Any) -> list[Any]:
        self.gathered += 1
        return [value, value]

    def sum(self, array: Any) -> Any:
        self.summed.append(array.nbytes)
        return array + array[::-1]


class Updater:
    """As much of Chainer's as is looked at."""

    def __init__(self, iterator: Any) -> None:
        self._iterators = {"main": iterator}


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_ranks_send_each_other_nothing_but_a_sum_with_the_next_snapshot(epochs) -> None:
    half = chainer.datasets.SubDataset(numpy.arange(EXAMPLES), 0, EXAMPLES // 2)
    iterator = chainer.iterators.SerialIterator(half, BATCH)
    peers = CountedPeers()
    visits = IteratorVisits(Updater(iterator), peers)
    visits.begin()

    for iteration in range(1, 1 + epochs * EXAMPLES // 2 // BATCH):
        next(iterator)
        visits.note(iteration)
    before = peers.gathered, [*peers.summed]
    found = visits.count(1)
    kept = (peers.gathered, [*peers.summed]), visits.count(1)

    assert before == (0, [])
    assert [one.times for one in found] == [((1, EXAMPLES),)] * epochs
    assert kept == ((3, [EXAMPLES, epochs * EXAMPLES]), [])
    assert (peers.gathered, len(peers.summed)) == (4, 2)  # a snapshot without an epoch's end


def test_a_step_looks_at_the_iterator_and_makes_no_array(monkeypatch) -> None:
    iterator = chainer.iterators.SerialIterator(numpy.arange(EXAMPLES), BATCH)
    visits = IteratorVisits(Updater(iterator), CountedPeers())
    visits.begin()
    counted = []
    monkeypatch.setattr(numpy, "bincount", lambda *_, **__: counted.append(1) or numpy.zeros(1))

    for iteration in range(1, EXAMPLES // BATCH + 2):
        next(iterator)
        visits.note(iteration)

    assert len(counted) == 1  # at the epoch's end
