"""Visits are counted over ranks and attempts, and what was lost with its model is not."""

from __future__ import annotations

from typing import Any

import numpy

from workbench.engine.snapshot.entries import LoopData
from workbench.engine.snapshot.visits import Visits

EXAMPLES, BATCH = 10, 4


class Numbers(LoopData):
    """Batches of the numbers from 0, which a rank has its share of."""

    def __init__(self, rank: int = 0, ranks: int = 1, done: int = 0) -> None:
        super().__init__(None)
        self.visits = Visits()
        self.rank, self.ranks, self.done = rank, ranks, done

    spacing = 1
    """Of the examples of an epoch; a sampler leaves out those between them."""

    examples = EXAMPLES  # type: ignore[assignment]  # a property elsewhere

    @property
    def epoch(self) -> float:
        return self.done // 3 + self.done % 3 / 3

    @property
    def epochs_before(self) -> int:
        return self.done // 3

    @property
    def ends_epoch(self) -> bool:
        return self.done % 3 == 2

    def given(self) -> Any:
        start = self.done % 3 * BATCH
        numbers = numpy.arange(start, min(start + BATCH, EXAMPLES))[self.rank :: self.ranks]
        return numbers * self.spacing

    def trained(self) -> None:
        self.done += 1


class Alone:
    """What one rank and others say, where all have been counted by turns."""

    rank = 0

    def __init__(self, *others: Visits) -> None:
        self._others = others

    def gather(self, value: Any) -> list[Any]:
        if isinstance(value, int):
            return [value, *(int(one._counts.max()) for one in self._others)]
        return [value, *((one._examples, len(one._counts)) for one in self._others)]

    def sum(self, array: Any) -> Any:
        for one in self._others:
            one._grow(len(array))
        return sum((one._counts for one in self._others), array)


def train(data: Numbers, steps: int) -> Visits:
    """Train so many steps with what the data has counted before."""
    for _ in range(steps):
        data.visits.note(data)
        data.trained()
    return data.visits


def end(visits: Visits, *others: Visits) -> Any:
    for one in others:
        one.own()  # counts what waits
    return visits.end(Alone(*others), 3, 1)  # type: ignore[arg-type]  # has what is used


def test_each_example_is_visited_once_by_the_ranks_together() -> None:
    one, two = (train(Numbers(rank, 2), 3) for rank in range(2))
    found = end(one, two)
    assert (found.epoch, found.times, found.others) == (0, ((1, EXAMPLES),), ())


def test_what_is_done_again_after_a_loss_counts_once() -> None:
    saved = [train(Numbers(rank, 2), 1) for rank in range(2)]
    owns = [one.own() for one in saved]
    for rank, one in enumerate(saved):  # their model is lost
        train(_with(one, Numbers(rank, 2, 1)), 1)
    later = [_restored(owns, rank) for rank in range(3)]
    found = end(*(train(_with(one, Numbers(rank, 3, 1)), 2) for rank, one in enumerate(later)))
    assert found.times == ((1, EXAMPLES),)


def test_what_is_visited_twice_or_never_is_named() -> None:
    visits = train(Numbers(), 1)
    train(_with(visits, Numbers(done=0)), 1)  # the first batch again
    found = end(train(_with(visits, Numbers(done=2)), 1))
    assert found.times == ((0, 4), (1, 2), (2, 4))
    assert found.others == (0, 1, 2, 3, 8, 9)  # as many were visited twice as never


def test_examples_that_a_sampler_leaves_out_are_no_misses() -> None:
    saved = [train(_spaced(Numbers(rank, 2)), 1) for rank in range(2)]
    owns = [one.own() for one in saved]
    later = [_spaced(_with(_restored(owns, rank), Numbers(rank, 3, 1))) for rank in range(3)]

    found = end(*(train(one, 2) for one in later))

    assert (found.times, found.others) == (((1, EXAMPLES),), ())


def test_a_missed_example_is_counted_among_those_that_are_left_out() -> None:
    visits = train(_spaced(Numbers()), 1)
    train(_spaced(_with(visits, Numbers(done=0))), 1)  # the first batch again

    found = end(train(_spaced(_with(visits, Numbers(done=2))), 1))

    assert found.times == ((0, 4), (1, 2), (2, 4))
    assert found.others == (0, 7, 14, 21, 56, 63)


def _spaced(data: Numbers) -> Numbers:
    data.spacing = 7
    return data


def test_an_epoch_that_was_begun_uncounted_is_not_known() -> None:
    assert end(train(Numbers(done=1), 2)) is None
    restored = _restored([None], 0)  # the snapshot of another version
    assert end(train(_with(restored, Numbers(done=2)), 1)) is None
    assert end(train(_with(restored, Numbers(done=3)), 3)).epoch == 1


def test_visits_of_a_next_epoch_begin_from_nothing() -> None:
    assert end(train(Numbers(), 6)).times == ((1, EXAMPLES),)


def _with(visits: Visits, data: Numbers) -> Numbers:
    data.visits = visits
    return data


def _restored(owns: list[Any], rank: int) -> Visits:
    visits = Visits()
    visits.restore(owns, rank)
    return visits


def test_more_visits_than_a_byte_holds_are_counted() -> None:
    every = [train(Numbers(), 3) for _ in range(300)]  # ranks that do not divide the data
    restored = _restored([train(Numbers(), 2).own()] * 300, 0)

    assert end(*every).times == ((300, EXAMPLES),)
    found = end(train(_with(restored, Numbers(done=2)), 1))
    assert found.times == ((1, 2), (300, 8))  # what the one rank that is left has not done
