"""Continue a training's iterators on other ranks, with the batch of all ranks that it had.

The first ranks of a run settle it; of one that began while nodes booted, those on all nodes. On
others each iterator gives its rank a share of it, from one order of the whole data. Where that
cannot be done, or is not wanted, a rank keeps its batch.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
from chainer.iterators.order_samplers import ShuffleOrderSampler

from workbench.core.recovery.remaining_examples import merge_examples, smallest
from workbench.core.run.batch import WANTED_VARIABLE, grows, length, total_batch, weight
from workbench.core.run.run_options import BATCH_VARIABLE, GLOBAL
from workbench.frameworks.chainer.global_order import GlobalOrder, Indices, follow_global_orders
from workbench.frameworks.chainer.iterators import (
    examples_of,
    further_examples,
    is_known,
    order_sampler_of,
    own_iterators,
    part_of,
    place_in_data,
    restore_iterator,
    set_batch,
    set_order,
)

_BATCH, _GROWTH = "workbench_batch", "workbench_growth"


@dataclass(frozen=True)
class KeptBatch:
    """The batch of all ranks, which an iterator keeps.

    Args:
        total: Examples in it.
        first: Those of a rank of the run's first ranks.
        code: What the code gave each of the present ranks.
    """

    total: int
    first: int
    code: int


@dataclass(frozen=True)
class BatchChange:
    """How the batch of all ranks changes with their number, where a rank keeps its batch.

    Args:
        before: Examples in it, on the ranks of the snapshot.
        now: Examples in it.
        examples: Of an epoch.
    """

    before: int = 1
    now: int = 1
    examples: int = 0


@dataclass(frozen=True)
class CodeBatch:
    """A rank's iterator as its code made it.

    Args:
        batch: Examples of its batches.
        whole: Examples of the whole data; 0 if the data is not a part of one.
        examples: Their numbers in the whole.
        sampler: How orders are drawn: "shuffled", "in order", or "" for the user's own way.
    """

    batch: int
    whole: int = 0
    examples: Indices = field(default_factory=lambda: numpy.arange(0))
    sampler: str = ""


def parts_of(updater: Any) -> dict[str, CodeBatch]:
    """Return the known iterators of an updater by name, as the code made them."""
    return {name: _part(one) for name, one in own_iterators(updater).items() if is_known(one)}


def find_undivided(updater: Any) -> str:
    """Return the kind of what gives a training its data and is not Chainer's own; empty if none.

    It is unknown how such an iterator continues on another number of ranks.
    """
    iterators = own_iterators(updater)
    if not iterators:
        return type(updater).__name__
    return next((type(one).__name__ for one in iterators.values() if not is_known(one)), "")


def _part(iterator: Any) -> CodeBatch:
    part, sampler = part_of(iterator.dataset), iterator.order_sampler
    kind = "shuffled" if type(sampler) is ShuffleOrderSampler else ""
    kind = "in order" if sampler is None else kind
    if part is None:
        return CodeBatch(iterator.batch_size, sampler=kind)
    return CodeBatch(iterator.batch_size, len(part._dataset), smallest(examples_of(part)), kind)


def place(iterator: Any, rank: int, ranks: int) -> dict[str, Any]:
    """Return what Chainer does not save of an iterator's place, and of its batch."""
    kept, sampler = kept_batch(iterator), iterator.order_sampler
    batch = {"batch": int(iterator.batch_size) if kept is None else kept.code}
    if kept is not None:
        batch |= {"total": kept.total, "first": kept.first}
    batch |= vars(iterator).get(_GROWTH) or _growth_of({}, ranks)
    if not isinstance(sampler, GlobalOrder):
        return {**place_in_data(iterator), **batch}
    position, _, _, order = iterator._state
    rest = order[position:]
    return {
        "length": len(iterator.dataset),
        "part": None,
        # Of the ranks together what is left, in its order.
        "remaining": smallest(rest[rank::ranks]),
        "has_rest": True,
        "seed": sampler.seed,
        **batch,
    }


def _growth_of(place: Mapping[str, Any], ranks: int) -> dict[str, int]:
    """Return the most ranks of a training so far, and those that were asked for as it began."""
    wanted = place.get("wanted", os.environ.get(WANTED_VARIABLE, "0"))
    return {"most": max(ranks, int(place.get("most", 0))), "wanted": int(wanted)}


def kept_batch(iterator: Any) -> KeptBatch | None:
    """Return the batch of all ranks, if the iterator keeps it on other ranks than the first."""
    found: KeptBatch | None = vars(iterator).get(_BATCH)
    return found


def restore_iterators(
    updater: Any,
    saved: Sequence[Mapping[str, dict[str, Any]]],
    places: Sequence[Mapping[str, dict[str, Any]]],
    parts: Sequence[Mapping[str, CodeBatch]],
    rank: int,
) -> tuple[list[str], BatchChange]:
    """Continue the epoch of an updater's iterators; return what is not exact.

    Args:
        saved: For each rank of the snapshot, what Chainer saves of the iterators, by their names.
        places: For each of them, what ``place`` returned.
        parts: For each rank of now, what ``parts_of`` returned.
    """
    ranks, iterators = len(parts), own_iterators(updater)
    moves = ranks != len(places)
    known = {
        name: one
        for name, one in iterators.items()
        if is_known(one) and all(name in there for there in (*places, *parts))
    }
    remarks = []
    for name in iterators.keys() - known.keys():
        if moves:
            kind = type(iterators[name]).__name__
            remarks.append(f"a {kind} cannot be divided among another number of ranks")
    moved = [
        _Move(one, [r[name] for r in saved], [r[name] for r in places], [r[name] for r in parts])
        for name, one in known.items()
    ]
    choice = os.environ.get(BATCH_VARIABLE)
    keeps = choice == GLOBAL or (choice is None and not any(one.grows for one in moved))
    why = _hindrance(updater, iterators, moved) if keeps and moves else ""
    for one in moved:
        remarks.append(one.restore(rank, keeps=keeps and not why))
    if why:
        changed = [one for one in moved if one.total != sum(one.code)]
        now = f", so that of all ranks is {sum(changed[0].code)} now" if changed else ""
        remarks.append(f"each rank keeps its batch{now}, because {why}")
    return [one for one in remarks if one], _change(moved, keeps=keeps and not why)


def _change(moved: Sequence[_Move], *, keeps: bool) -> BatchChange:
    if keeps or not moved or moved[0].total != moved[0].was:
        return BatchChange()
    main = moved[0]
    examples = len(main.iterator.dataset) * len(main.parts)
    return BatchChange(main.was, sum(main.code), examples)


@dataclass(frozen=True)
class _Move:
    """An iterator that continues, what is saved of it for each rank, and the ranks of now."""

    iterator: Any
    saved: Sequence[dict[str, Any]]
    places: Sequence[dict[str, Any]]
    parts: Sequence[CodeBatch]

    @property
    def code(self) -> list[int]:
        """The batch that the code gives each rank now."""
        return [one.batch for one in self.parts]

    @property
    def before(self) -> list[int]:
        """The batch that the code gave each rank of the snapshot; now's, if it is not known."""
        return [int(one.get("batch", self.code[0])) for one in self.places]

    @property
    def was(self) -> int:
        """The batch of all ranks of the snapshot."""
        return int(self.places[0].get("total", sum(self.before)))

    @property
    def total(self) -> int:
        """The batch of all ranks, where it is kept."""
        return total_batch(self.before, self.was, self.code)

    @property
    def is_global(self) -> bool:
        """Whether the snapshot's ranks had shares of batches already."""
        return "seed" in self.places[0]

    @property
    def grows(self) -> bool:
        """Whether more of the ranks are there that were asked for as the training began."""
        before = _growth_of({"wanted": 0, **self.places[0]}, len(self.places))
        return grows(before["most"], len(self.parts), before["wanted"])

    @property
    def is_divided(self) -> bool:
        """Whether all examples of the epoch, and those that are left, are known."""
        if any(one.sampler == "" for one in self.parts):
            return False
        wholes = {one.whole for one in self.parts}
        left = all(one["remaining"] is not None for one in self.places)
        return left and len(wholes) == 1 and 0 not in wholes

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each rank's share."""
        ranks = len(self.parts)
        return tuple(weight(self.total, rank, ranks) for rank in range(ranks))

    def restore(self, rank: int, *, keeps: bool) -> str:
        """Continue the iterator's epoch; return what is not exact."""
        ranks, total = len(self.parts), self.total
        setattr(self.iterator, _GROWTH, _growth_of({"wanted": 0, **self.places[0]}, ranks))
        is_same = ranks == len(self.places) and not self.is_global
        if keeps and (not is_same or "total" in self.places[0]):
            # A batch that the code has changed is a new first one.
            first = int(self.places[0].get("first", self.before[0]))
            kept = KeptBatch(total, first if total == self.was else self.code[0], self.code[rank])
            setattr(self.iterator, _BATCH, kept)
            if self.is_divided and not is_same and self._share(rank):
                return ""
            set_batch(self.iterator, max(1, length(total, rank, ranks)))
        return restore_iterator(self.iterator, self.saved, self.places, rank, ranks)

    def _share(self, rank: int) -> bool:
        """Let the iterator give its rank its share; return whether it has examples."""
        numbers = [one.examples for one in self.parts]
        is_shuffled = self.parts[rank].sampler == "shuffled"
        examples = (
            numpy.unique(numpy.concatenate(numbers)) if is_shuffled else merge_examples(numbers)
        )
        rest = merge_examples([one["remaining"] for one in self.places])
        rest = rest[numpy.isin(rest, examples)]
        if not len(rest):
            return False
        iterator, state = self.iterator, self.saved[0]
        seed = self.places[0].get("seed")
        seed = zlib.crc32(rest.tobytes()) if seed is None and is_shuffled else seed
        first = further_examples(part_of(iterator.dataset), self.parts[rank].whole)
        iterator.order_sampler = order_sampler_of(iterator).order_sampler = GlobalOrder(
            examples.astype(numpy.intp),
            self.total,
            rank,
            len(self.parts),
            seed=seed if is_shuffled else None,
            first=first,
        )
        follow_global_orders()
        set_batch(iterator, max(1, length(self.total, rank, len(self.parts))))
        done = numpy.setdiff1d(examples, rest)
        order = numpy.concatenate([done, rest]).astype(numpy.intp)
        set_order(iterator, {**state, "current_position": len(done)}, order)
        return True


def _hindrance(updater: Any, iterators: Mapping[str, Any], moved: Sequence[_Move]) -> str:
    """Return why the batch of all ranks cannot be kept; empty if it can."""
    if not iterators:
        return f"a {type(updater).__name__} does not show its iterators"
    if len(moved) < len(iterators):
        return "not all iterators of its updater are Chainer's own"
    for one in moved:
        is_even = one.total % len(one.parts) == 0
        if any(part.sampler == "" for part in one.parts) and not is_even:
            return "its iterator has an order sampler of its own"
        if not one.is_divided and not is_even:
            return "the data is not divided by chainermn.scatter_dataset"
    if len({one.weights for one in moved}) > 1:
        return "its iterators have batches of different sizes"
    return ""
