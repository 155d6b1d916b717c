"""Count how often the examples of a trainer's epochs were visited, by where its iterator is.

Between two iterations an iterator's state says which part of its order was given. So a step costs
one look at it, and an epoch is counted once. The counts of the ranks are added where the training
is saved next, where all of them meet, and are saved with the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy

from workbench.core.run.batch import length
from workbench.core.run.rank_protocol import ExamplesVisited
from workbench.engine.snapshot.peers import Peers
from workbench.engine.snapshot.visits import (
    MOST_EXAMPLES,
    add_arrays,
    add_counts,
    build_report,
    count_times,
    find_usual,
    pack_counts,
    unpack_counts,
)
from workbench.frameworks.chainer.global_order import GlobalOrder
from workbench.frameworks.chainer.iterators import (
    examples_of,
    is_known,
    numbers_in_whole,
    own_iterators,
    part_of,
)


class IteratorVisits:
    """The visits of the examples of an updater's main iterator, if that is one of Chainer's.

    Ranks whose data is no part of a larger one may have the same examples or others: each counts
    its own then.
    """

    def __init__(self, updater: Any, peers: Peers) -> None:
        found = own_iterators(updater)
        main = found.get("main", next(iter(found.values()), None))
        self._iterator = main if is_known(main) else None
        self._peers = peers
        self._epoch = -1
        self._order: Any = None
        self._start = self._position = 0  # in the order: from where on it is counted, and to where
        self._before: Any = None  # what was counted before; None where the epoch is not known whole
        self._ended: dict[int, tuple[int, Any]] = {}  # by epoch: the iteration, and its counts
        self._saved: Sequence[Any] = ()
        self._is_visited: Any = None  # for each example of the whole: whether a rank has it

    def __repr__(self) -> str:
        return f"<IteratorVisits of epoch {self._epoch}>"

    def begin(self) -> None:
        """Count from the iterator's present place."""
        if self._iterator is None:
            return
        state = self._iterator._state
        self._turn(state)
        self._start = self._position = int(state.current_position)
        if self._start:
            self._before = None
        owns, self._saved = self._saved, ()
        if owns and all(one and one["examples"] == self._examples for one in owns):
            self._continue(owns)

    def _continue(self, owns: Sequence[Any]) -> None:
        """Continue what a snapshot has of each rank."""
        rank, is_same = self._peers.rank, self._peers.size == len(owns)
        every = [one["counts"] and unpack_counts(one["counts"]) for one in owns]
        is_known_whole = all(
            one["epoch"] == self._epoch and counts is not None
            for one, counts in zip(owns, every, strict=True)
        )
        if is_same:
            self._ended = owns[rank]["ended"]
            self._before = every[rank] if is_known_whole else None
        elif is_known_whole and not self._is_apart:  # rank 0 continues all of them
            self._before = add_arrays(every) if rank == 0 else 0

    def note(self, iteration: int) -> None:
        """Look where the iterator is, at the end of an iteration."""
        if self._iterator is None:
            return
        state = self._iterator._state
        if state.epoch != self._epoch:
            counts = self._counts(len(self._order))
            if state.epoch == self._epoch + 1 and counts is not None:
                self._ended[self._epoch] = iteration, counts
            self._turn(state)
        self._position = state.current_position

    def count(self, training: int) -> list[ExamplesVisited]:
        """Return the visits of the epochs that have ended on all ranks; collective.

        Args:
            training: Its number within the run.
        """
        peers, is_known_here = self._peers, self._iterator is not None
        own = (self._examples, self._is_apart, [*self._ended]) if is_known_here else (0, False, [])
        every = peers.gather(own)
        ended = sorted(set.intersection(*({*one[2]} for one in every)))
        if not ended or len({one[:2] if not one[1] else True for one in every}) > 1:
            return []
        found = [(epoch, *self._ended.pop(epoch)) for epoch in ended]
        if self._is_apart:
            times = peers.gather([count_times(counts) for _, _, counts in found])
            return [
                build_report(at, epoch, sum(map(Counter, each), Counter()), training, apart=True)
                for (epoch, at, _), each in zip(found, zip(*times, strict=True), strict=True)
            ]
        if self._is_visited is None:  # once: the parts stay
            self._is_visited = add_counts(peers, self._is_part().astype(numpy.uint8)) > 0
        total = add_counts(peers, numpy.concatenate([counts for _, _, counts in found]))
        reports = []
        for (epoch, at, _), counts in zip(found, numpy.split(total, len(found)), strict=True):
            numbers = numpy.flatnonzero(self._is_visited | (counts > 0))
            many = count_times(counts[numbers])
            others = numbers[counts[numbers] != find_usual(many)]
            reports.append(build_report(at, epoch, many, training, others))
        return reports

    def own(self) -> Any:
        """Return what a snapshot has of this rank."""
        if self._iterator is None:
            return None
        counts = self._counts(self._position)
        return {
            "examples": self._examples,
            "epoch": self._epoch,
            "counts": None if counts is None else pack_counts(counts),
            "ended": {**self._ended},
        }

    def restore(self, owns: Sequence[Any]) -> None:
        """Continue from what a snapshot has of each rank, once the training begins."""
        self._saved = owns

    # -- inside

    @property
    def _examples(self) -> int:
        """Those of the whole data."""
        assert self._iterator is not None
        part = part_of(self._iterator.dataset)
        return len(self._iterator.dataset if part is None else part._dataset)

    @property
    def _is_apart(self) -> bool:
        assert self._iterator is not None
        return self._peers.size > 1 and part_of(self._iterator.dataset) is None

    def _is_part(self) -> Any:
        """Return for each example of the whole data whether it is in this rank's part."""
        assert self._iterator is not None
        part = part_of(self._iterator.dataset)
        found = numpy.full(self._examples, part is None)
        if part is not None:
            found[examples_of(part)] = True
        return found

    def _turn(self, state: Any) -> None:
        """Begin an epoch."""
        assert self._iterator is not None
        order = state.order
        self._epoch, self._start = state.epoch, 0
        self._order = numpy.arange(len(self._iterator.dataset)) if order is None else order
        sampler = self._iterator.order_sampler
        is_divisible = self._iterator.repeat or not isinstance(sampler, GlobalOrder)
        self._before = 0 if is_divisible and 0 < self._examples <= MOST_EXAMPLES else None

    def _counts(self, end: int) -> Any:
        """Return how often this rank has visited each example up to a place in the order."""
        if self._before is None or self._iterator is None:
            return None
        numbers, sampler = self._order[self._start : end], self._iterator.order_sampler
        part = part_of(self._iterator.dataset)
        if isinstance(sampler, GlobalOrder):  # its batches have one length, also over an end
            most, more = divmod(sampler.total, sampler.ranks)
            first = sampler.rank * most + min(sampler.rank, more)
            within = (numpy.arange(self._start, end) - self._position) % sampler.total - first
            own = length(sampler.total, sampler.rank, sampler.ranks)
            numbers = numbers[(within >= 0) & (within < own)]
        elif part is not None:
            numbers = numbers_in_whole(part, numbers)
        counts = self._before + numpy.bincount(numbers, minlength=self._examples)
        return counts.astype(numpy.min_scalar_type(int(counts.max(initial=0))))
