"""Give an elastic loop the batches of a PyTorch ``DataLoader``, and continue its epoch.

The order of an epoch is noted when its sampler draws it. On as many ranks as before, the epoch
continues with what was left of it. On others, the remaining examples of all ranks are dealt out
again if they were divided, as by ``DistributedSampler``.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader

from workbench.core.recovery.remaining_examples import are_divided, dealt, smallest
from workbench.core.run.batch import WANTED_VARIABLE
from workbench.engine.elastic.global_batches import GlobalBatches, GlobalBatchesData, membership
from workbench.engine.snapshot.entries import LoopData
from workbench.errors import InputError
from workbench.frameworks.torch.common_batches import CommonLoaderData
from workbench.frameworks.torch.common_stream import ONE_STREAM, find_stream, take_stream

_DOUBTFUL = "some examples of this epoch may be visited twice or not at all"
NOT_DIVIDED = f"the DataLoader has no DistributedSampler, so {_DOUBTFUL}"


class NotedOrder:
    """A sampler in the place of another one, whose order it notes; also of batches.

    ``rest`` is what the next pass visits in place of the sampler's order.
    """

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self.order: list[Any] | None = None
        self.rest: list[Any] | None = None
        self._kept: Any = None

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass."""
        self.order, self.rest = [*self.sampler] if self.rest is None else self.rest, None
        self._kept = None
        return iter(self.order)

    def end(self) -> None:
        """Note that the pass has ended."""
        self.order = self._kept = None

    def remaining(self, visited: int) -> Any:
        """Return what is left of the pass, which may not have begun; None if none is known.

        Numbers are in a NumPy array, anything else is in a list.
        """
        order = self.order if self.rest is None else self.rest
        if order is None:
            return None
        if self._kept is None:
            self._kept = numpy.asarray(order) if _are_numbers(order) else order
        left = self._kept[visited:]
        return smallest(left) if isinstance(left, numpy.ndarray) else left

    def __len__(self) -> int:
        """Return the length of the present pass."""
        found = self.order if self.rest is None else self.rest
        return len(self.sampler) if found is None else len(found)

    def __getattr__(self, name: str) -> Any:
        """Return the sampler's attributes."""
        return getattr(self.sampler, name)


class LoaderData(LoopData):
    """A ``DataLoader`` whose epochs follow one another.

    Before each epoch ``set_epoch`` of its samplers and its data set is called, where they have it.
    """

    kind = "a DataLoader"

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self._order, self._size = _note_order(data)
        self._batches: Iterator[Any] | None = None
        self._whole = 0  # epochs
        self._given = self._trained = 0  # batches of this pass, which may be the rest of an epoch
        self._left = 1.0  # the share of the epoch that this pass is
        self._generators: dict[str, Any] = {}

    @property
    def epoch(self) -> float:
        """Epochs done, such as 1.5."""
        length = self._length
        done = self._trained / length if length else 0.0
        return self._whole + 1.0 - self._left * (1.0 - done)

    @property
    def epochs_before(self) -> int:
        """Whole epochs that were done before the batch that was given last."""
        return self._whole

    @property
    def _length(self) -> int:
        """Batches of this pass."""
        return len(self.value)

    @property
    def ends_epoch(self) -> bool:
        """Whether the batch that was given last is the last of its epoch."""
        return self._given == self._length

    def begin(self) -> None:
        """Continue the epoch that was in progress; a new one begins with its first batch."""
        if self._order.rest is not None:
            self._open()
        self._restore_generators(self._generators)

    def give(self) -> tuple[Any, float] | None:
        """Return the next batch; None if an epoch ended just now.

        Raises:
            StopIteration: The loader has no batches.
        """
        try:
            batch = next(self._open() if self._batches is None else self._batches)
        except StopIteration:
            if not self._given:
                raise
            self._end()
            return None
        self._given += 1
        return batch, 1.0

    def close(self) -> None:
        """End the workers, which would otherwise wait for the garbage collector."""
        self._batches = None

    @property
    def examples(self) -> int:
        """Examples of the data set."""
        return len(self.value.dataset)

    def given(self) -> Any:
        """Return the numbers of the batch that was given last; None if they are unknown."""
        order = self._order.order
        if order is None:
            return None
        part = order[self._trained * self._size : (self._trained + 1) * self._size]
        if not part:
            return None
        numbers = part if self._size > 1 or not isinstance(part[0], list) else part[0]
        return numpy.asarray(numbers, numpy.int64) if _are_numbers(numbers) else None

    def trained(self) -> None:
        """Count the batch that was given last as trained on."""
        self._trained += 1
        if self._trained == self._length:
            self._end()

    def _open(self) -> Iterator[Any]:
        """Begin a pass; workers start here."""
        loader = self.value
        for one in (loader.sampler, loader.batch_sampler, loader.dataset):
            if callable(set_epoch := getattr(one, "set_epoch", None)):
                set_epoch(self._whole)
        batches: Iterator[Any] = iter(loader)
        self._batches = batches
        return batches

    def _end(self) -> None:
        """End the pass, and with it the epoch."""
        self._batches = None
        self._whole, self._left = self._whole + 1, 1.0
        self._given = self._trained = 0
        self._order.end()

    def own(self) -> Any:
        """Return the place: what is left of the epoch."""
        left, order = self._left, self._order
        if length := self._length:
            left *= 1.0 - self._trained / length
        return {
            "epoch": self._whole,
            "left": left,
            "remaining": order.remaining(self._trained * self._size),
            "is_divided": hasattr(self.value.sampler, "num_replicas"),
            "generators": self._generator_states(),
        }

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Continue the epoch; on other ranks its remaining examples are dealt out again."""
        own = owns[rank] if rank < len(owns) else owns[0]
        self._whole, self._left = own["epoch"], own["left"]
        if rank < len(owns):
            self._generators = own["generators"]
        if own["remaining"] is None:  # no epoch has begun
            return ""
        if ranks == len(owns):
            self._order.rest = _list_order(own["remaining"])
            return ""
        return self._deal(owns, rank, ranks)

    def _deal(self, owns: Sequence[Any], rank: int, ranks: int) -> str:
        remaining = [one["remaining"] for one in owns]
        lists = [_flat(one) for one in remaining]
        if any(one is None for one in lists):
            self._order.rest = _list_order(remaining[rank % len(owns)])
            return NOT_DIVIDED
        was = len(owns) == 1 or owns[0]["is_divided"] or are_divided(lists)
        knows_ranks = hasattr(self.value.sampler, "num_replicas")
        if not (was and (ranks == 1 or knows_ranks or len(owns) > 1)):
            self._order.rest = _list_order(remaining[rank % len(owns)])
            return NOT_DIVIDED
        own = dealt(lists, rank, ranks).tolist()
        longest = max((len(one) for one in remaining[0] if isinstance(one, list)), default=0)
        self._order.rest = _cut(own, longest) if longest else own
        return self._change(len(owns), ranks)

    def _change(self, before: int, now: int) -> str:
        """Return how the steps change with the number of ranks; empty if that is unknown."""
        batch, examples = self.value.batch_size, len(self.value.dataset)
        if not batch:
            return ""
        steps = [math.ceil(examples / (batch * ranks)) for ranks in (before, now)]
        return (
            f"all ranks have {batch * now} examples in a step, and had {batch * before}; an epoch "
            f"has {steps[1]} steps, and had {steps[0]}, which a schedule in steps does not know; "
            "with workbench.GlobalBatches both stay"
        )

    def _generators_by_name(self) -> dict[str, Any]:
        loader = self.value
        sampler = getattr(loader.sampler, "generator", None)
        found = {"loader": loader.generator, "sampler": sampler}
        return {name: one for name, one in found.items() if isinstance(one, torch.Generator)}

    def _generator_states(self) -> dict[str, Any]:
        found = self._generators_by_name()
        return {name: one.get_state().numpy().copy() for name, one in found.items()}

    def _restore_generators(self, states: dict[str, Any]) -> None:
        for name, one in self._generators_by_name().items():
            if name in states:
                one.set_state(torch.from_numpy(states[name].copy()))


class GlobalLoaderData(GlobalBatchesData):
    """A ``DataLoader`` whose batches ``GlobalBatches`` choose."""

    kind = "a DataLoader of GlobalBatches"

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self._batches: Iterator[Any] | None = None

    @property
    def batches(self) -> GlobalBatches:
        """What chooses the batches."""
        found: GlobalBatches = self.value.batch_sampler
        return found

    def begin(self) -> None:
        """Continue the epoch that was in progress; a new one begins with its first batch."""
        if self.batches.position:
            self._batches = iter(self.value)

    def give(self) -> tuple[Any, float] | None:
        """Return the next batch, and its weight."""
        if self._batches is None:
            self._batches = iter(self.value)
        return next(self._batches), self.batches.present()[1]

    def close(self) -> None:
        """End the workers, which would otherwise wait for the garbage collector."""
        self._batches = None

    def trained(self) -> None:
        """Go to the next batch."""
        super().trained()
        if not self.batches.position:
            self._batches = None


def loader_data(data: Any) -> LoopData | None:
    """Return what gives a loop the batches of a ``DataLoader``; None if it is none.

    Raises:
        InputError: Its place in an epoch cannot be known.
    """
    if not isinstance(data, DataLoader):
        return None
    batches = data.batch_sampler
    if isinstance(batches, GlobalBatches):
        return GlobalLoaderData(data)
    if (stream := find_stream(data.dataset, batches)) is None:
        return LoaderData(data)
    rank, ranks = membership()
    first = max(ranks, int(os.environ.get(WANTED_VARIABLE, "0")))
    total = (data.batch_size or 1) * first
    found = take_stream(data, stream, sys.maxsize, total, (rank, ranks), data.drop_last)
    if isinstance(found, str):
        raise InputError(f"elastic(data=…) has a DataLoader, and {found}", ONE_STREAM)
    return CommonLoaderData(*found, "a DataLoader of a stream")


def _note_order(loader: Any) -> tuple[NotedOrder, int]:
    """Have a loader's order noted; return the order and the entries of it that a batch takes."""
    batches = loader.batch_sampler
    own = "sampler" if batches is None else "batch_sampler"
    takes = getattr(batches, "batch_size", 1) if type(batches) is _BatchSampler else 1
    owner, name = (
        (vars(batches), "sampler") if type(batches) is _BatchSampler else (vars(loader), own)
    )
    before = owner[name]
    if isinstance(before, NotedOrder):  # of an earlier loop
        before = before.sampler
    owner[name] = noted = NotedOrder(before)
    return noted, takes


_BatchSampler = torch.utils.data.BatchSampler


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(one, int | numpy.integer) for one in values)


def _flat(remaining: Any) -> Any:
    """Return the numbers of the examples in an order of examples or of batches, or None."""
    if isinstance(remaining, numpy.ndarray):
        return remaining.astype(numpy.int64)
    if not all(isinstance(one, list) and _are_numbers(one) for one in remaining):
        return None
    return numpy.array([number for one in remaining for number in one], numpy.int64)


def _list_order(remaining: Any) -> list[Any]:
    """Return an order as the sampler gave it: of plain numbers, which cannot overflow."""
    return [*remaining] if isinstance(remaining, list) else remaining.tolist()


def _cut(numbers: Sequence[int], size: int) -> list[Sequence[int]]:
    return [numbers[at : at + size] for at in range(0, len(numbers), size)]
