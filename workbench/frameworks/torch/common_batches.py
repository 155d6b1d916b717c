"""Give each rank its part of a loader's batches, in an order that all ranks have in common.

An epoch's order is the loader's own, the same on all ranks, and each update takes the next examples
of it, as many on any number of ranks. So the place in an epoch is a number of updates.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Sampler,
)

from workbench.core.recovery.remaining_examples import smallest
from workbench.core.run.batch import share
from workbench.core.run.run_options import BATCH_VARIABLE, PER_RANK
from workbench.engine.snapshot.entries import LoopData
from workbench.errors import InputError, StateError

RandomStates = tuple[Any, ...]
"""Of Python, NumPy, and PyTorch on processors."""
Units = Any
"""An order: a NumPy array of examples, or a list of whole batches where a sampler chooses these."""


class CommonBatches(Sampler[Any]):
    """A batch sampler in the place of a loader's own; it gives this rank's part of each batch.

    An update trains on ``total`` examples of all ranks, in ``parts`` one after another, so that
    no rank has more than ``most`` at once. Each example is given once in an epoch, whose last
    update has fewer. Where ``continues`` is true, a pass begins at the place in the epoch, else
    at its beginning.

    Args:
        batches: The loader's own batch sampler, which knows no ranks.
        most: Examples of a rank at once.
        total: Examples of an update, of all ranks.
    """

    split_batches = even_batches = False

    def __init__(self, batches: Any, most: int, total: int, rank: int, ranks: int) -> None:
        self.batch_sampler = batches
        self.is_plain = type(batches) is BatchSampler
        size = 1 if self.is_plain else getattr(batches, "batch_size", 1) or 1
        self.most, self.total = (most if self.is_plain else 1), max(1, total // size)
        self.rank, self.ranks = rank, ranks
        self.drop_last = bool(getattr(batches, "drop_last", False))
        self.sampler = batches.sampler if self.is_plain else batches
        self.continues = False
        self.epoch = self.done = 0
        """Epochs done, and updates of the present one."""
        self._order: Units | None = None
        self._begun = False  # whether ``_order`` has been given in this process
        self.may_be_saved: Callable[[], bool] = lambda: False
        """Whether a snapshot may follow the update that is trained on."""
        self._noted: tuple[int, RandomStates] | None = None  # when an update was first asked for
        self._is_resumed = False
        self._drawn: RandomStates | None = None  # when that of the snapshot was, if ahead of it
        self._kept: RandomStates | None = None  # of the snapshot
        self._read_generator()

    def _read_generator(self) -> None:
        # One of its own makes the next epochs' orders independent of what else is drawn.
        if getattr(self.sampler, "generator", False) is None:
            self.sampler.generator = torch.Generator()
            self.sampler.generator.manual_seed(torch.random.initial_seed())

    @property
    def batch_size(self) -> int:
        """Examples of this rank at once."""
        return min(self.most, math.ceil(self.total / self.ranks))

    @property
    def num_processes(self) -> int:
        """The number of ranks, as accelerate calls it."""
        return self.ranks

    @property
    def parts(self) -> int:
        """How many times a rank accumulates gradients in an update."""
        return self._count(self.total)

    def count_parts(self, update: int, ranks: int = 0) -> int:
        """Return how many parts an update of the epoch has; on the present ranks, or on others."""
        return self._count(self.size(update), ranks)

    def _count(self, examples: int, ranks: int = 0) -> int:
        return math.ceil(examples / (self.most * (ranks or self.ranks)))

    @property
    def examples(self) -> int:
        """Examples of an epoch, or batches where the sampler chooses these."""
        return len(self.sampler)

    @property
    def updates(self) -> int:
        """Updates of an epoch."""
        left = 0 if self.drop_last and self.is_plain else bool(self.examples % self.total)
        return self.examples // self.total + left

    def size(self, update: int) -> int:
        """Return the examples of an update of the epoch."""
        return min(self.total, self.examples - update * self.total)

    def __len__(self) -> int:
        """Return how often a rank gets examples in an epoch."""
        if not self.updates:
            return 0
        return (self.updates - 1) * self.parts + self._count(self.size(self.updates - 1))

    def set_epoch(self, epoch: int) -> None:
        """Tell the loader's own sampler which epoch begins."""
        for one in dict.fromkeys((self.batch_sampler, self.sampler)):
            if callable(own := getattr(one, "set_epoch", None)):
                own(epoch)

    def __iter__(self) -> Iterator[Any]:
        """Give the batches of the epoch, in the order of a snapshot if there is one."""
        for update, units in self._read_updates():
            if self.may_be_saved():
                self._noted = update, random_states()
            for part, _ in self._divide(units):
                following = self._continue_random(update)
                if self.is_plain:
                    yield part.tolist() if isinstance(part, numpy.ndarray) else [*part]
                else:
                    yield part[0]
                if following is not None:
                    set_random_states(following)

    def _continue_random(self, update: int) -> RandomStates | None:
        """Have the snapshot's next update draw the random numbers that it drew before.

        Returns:
            What is drawn from afterwards, if that update had been read ahead.
        """
        if not self._is_resumed or update != self.done:
            return None
        self._is_resumed = False
        if states := self._drawn or self._kept:
            set_random_states(states)
        return self._kept if self._drawn else None

    def keep_random(self) -> None:
        """Note the random numbers that were restored, as a loader that begins draws some."""
        if self._is_resumed:
            self._kept = random_states()

    def _read_updates(self) -> Iterator[tuple[int, Units]]:
        """Yield each update of a pass, and its examples of all ranks."""
        # Not before the first batch: a loader with processes begins twice, and uses the second.
        if self._order is None or self._begun:
            self._order = self._draw()
        self._begun, order = True, self._order
        for update in range(self.done if self.continues else 0, self.updates):
            yield update, self._cut(order, update)

    def _draw(self) -> Units:
        found = [*self.sampler]
        if self.is_plain and all(isinstance(one, int | numpy.integer) for one in found):
            return smallest(numpy.asarray(found, numpy.int64))
        return found

    def _cut(self, order: Units, update: int) -> Units:
        return order[update * self.total : update * self.total + self.size(update)]

    def _divide(self, batch: Units) -> Iterator[tuple[Units, float]]:
        """Yield this rank's examples of each part of an update, and the weight of their mean."""
        count = self._count(len(batch))
        for number in range(count):
            part, weight = share(batch, number, count)
            own, own_weight = share(part, self.rank, self.ranks)
            yield own, weight * own_weight

    def weight(self, part: int) -> float:
        """Return the weight of the mean loss of a part of the present update.

        The mean over its parts and over ranks is then that of the update. It is 0 for an example
        that only fills a rank's part of a batch which is smaller than the number of ranks.
        """
        return [one for _, one in self._divide(range(self.size(self.done)))][part]

    def given(self) -> Any:
        """Return this rank's examples of the present update, in a NumPy array; None if unknown."""
        order = self._order
        if not isinstance(order, numpy.ndarray):
            return None  # whole batches, which a sampler of its own chooses
        parts = [part for part, weight in self._divide(self._cut(order, self.done)) if weight]
        return numpy.concatenate([order[:0], *parts])

    def advance(self) -> None:
        """Count the present update as trained on."""
        self.done += 1
        if self.done >= self.updates:
            self.end_epoch()

    def end_epoch(self) -> None:
        """Count the present epoch as done, where its library ends it before its end."""
        if self.done:
            self.epoch, self.done, self._order = self.epoch + 1, 0, None
            self._noted = None  # its numbers of updates come again

    def sample(self) -> list[float]:
        """Return numbers that differ between ranks whose examples do."""
        order = self._order
        if order is None:
            return [self.epoch, self.done]
        is_array = isinstance(order, numpy.ndarray)
        return self._sampled(zlib.crc32(order.tobytes() if is_array else repr(order).encode()))

    def _sampled(self, checksum: int) -> list[float]:
        return [self.epoch, self.done, checksum & 1023, checksum >> 10 & 1023, checksum >> 20]

    def place(self) -> dict[str, Any]:
        """Return the place, the order of the epoch, and what the next ones' orders depend on."""
        generator = getattr(self.sampler, "generator", None)
        return {
            "epoch": self.epoch,
            "done": self.done,
            "total": self.total,
            "examples": self.examples,
            "order": None if self.rank or not self.done else self._order,
            "generator": generator.get_state().numpy().copy() if generator is not None else None,
            "seed": getattr(self.sampler, "initial_seed", None),
            "drawn": self._noted[1] if self._noted and self._noted[0] == self.done else None,
        }

    def set_place(self, saved: Mapping[str, Any], drawn: RandomStates | None = None) -> str:
        """Continue there, with the same batch of all ranks; return what is not exact.

        Args:
            drawn: What this rank read the next update from, if it had read it.

        Raises:
            StateError: The data is another one.
        """
        if isinstance(self.sampler, FirstExamples):
            self.sampler.limit(saved["examples"])
        if saved["examples"] != self.examples:
            raise StateError(
                f"The data has {self.examples} examples, and that of the snapshot "
                f"{saved['examples']}",
                "resume with the data that the snapshot was saved from.",
            )
        self.total, self.epoch, self.done = saved["total"], saved["epoch"], saved["done"]
        self._order, self._begun = saved["order"], False
        self._is_resumed, self._drawn = bool(self.done), drawn
        if saved["generator"] is not None and getattr(self.sampler, "generator", None):
            self.sampler.generator.set_state(torch.from_numpy(saved["generator"].copy()))
        if saved["seed"] is not None:
            self.sampler.initial_seed = saved["seed"]
        return ""


class CommonBatchesData(LoopData):
    """The place in ``CommonBatches``; ``is_over`` notes that the library has ended its training."""

    kind = "batches of all ranks"
    is_over = False
    _restored: Any = None

    def __init__(self, batches: CommonBatches) -> None:
        if os.environ.get(BATCH_VARIABLE) == PER_RANK:
            raise InputError(
                "--keep-batch per-rank cannot be kept here, where an epoch is counted in batches "
                "of all ranks",
                "leave it out: the batch of all ranks stays.",
            )
        super().__init__(batches)

    @property
    def batches(self) -> CommonBatches:
        """What chooses the batches."""
        found: CommonBatches = self.value
        return found

    @property
    def epoch(self) -> float:
        """Epochs done, such as 1.5."""
        batches = self.batches
        return batches.epoch + (batches.done / batches.updates if batches.examples else 0)

    @property
    def epochs_before(self) -> int:
        """Whole epochs that were done before the present batch."""
        return self.batches.epoch

    @property
    def ends_epoch(self) -> bool:
        """Whether the present update is the last of its epoch."""
        return self.batches.done + 1 >= self.batches.updates

    @property
    def examples(self) -> int:
        """Examples of an epoch; those that a sampler leaves out are not among them."""
        return self.batches.examples

    def given(self) -> Any:
        """Return this rank's examples of the present update."""
        return self.batches.given()

    def trained(self) -> None:
        """Go to the next update."""
        self.batches.advance()

    def watch(self, may_be_saved: Callable[[], bool]) -> None:
        """Note what an update is read from where a snapshot may follow the one before it."""
        self.batches.may_be_saved = may_be_saved

    def sample(self) -> list[float]:
        """Return numbers that differ between ranks whose examples do."""
        return self.batches.sample()

    def own(self) -> Any:
        """Return the place."""
        return {**self.batches.place(), "is_over": self.is_over}

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Continue there; once, because a library may read before the rest is restored."""
        if self._restored is owns[0]:
            return ""
        self._restored, self.is_over = owns[0], owns[0]["is_over"]
        drawn = owns[rank].get("drawn") if rank < len(owns) else None
        return self.batches.set_place(owns[0], drawn)


class CommonLoaderData(CommonBatchesData):
    """A loader whose batches are common ones, and its place in them.

    Args:
        loader: What gives the batches, and ends its pass after the last one.
        kind: What it is, for a reader.
        end_batch: Returns whether the model was updated after a batch, which ends an epoch or not.
    """

    def __init__(
        self,
        loader: Any,
        batches: CommonBatches,
        kind: str,
        end_batch: Callable[[bool], bool] = lambda _: True,
    ) -> None:
        super().__init__(batches)
        self.kind = kind
        self._end_batch = end_batch
        batches.continues = True
        self._loader = loader
        self._pass: Iterator[Any] | None = None

    def give(self) -> tuple[Any, float] | None:
        """Return the next batch, and its weight."""
        if self._pass is None:
            getattr(self._loader, "set_epoch", self.batches.set_epoch)(self.batches.epoch)
            self.batches.keep_random()
            self._pass = iter(self._loader)
        return next(self._pass), self.batches.weight(0)

    def close(self) -> None:
        """End the workers, which would otherwise wait for the garbage collector."""
        self._pass = None

    def trained(self) -> None:
        """Go to the next batch."""
        self.ends_update = self._end_batch(self.ends_epoch)
        super().trained()
        if not self.batches.done and self._pass is not None:
            for _ in self._pass:  # none is left; the loader then counts the epoch
                pass
            self._pass = None


def random_states() -> RandomStates:
    """Return what is drawn from where data is read."""
    return random.getstate(), numpy.random.get_state(), torch.get_rng_state().numpy()


def set_random_states(states: RandomStates) -> None:
    """Draw from here on as from where the states are of."""
    python, numpys, torchs = states
    random.setstate(python)
    numpy.random.set_state(numpys)
    torch.set_rng_state(torch.from_numpy(torchs.copy()))


def why_not_common(batches: Any) -> str:
    """Return why the batches of a loader cannot be given to any number of ranks; empty if they can.

    Args:
        batches: Its own batch sampler, which knows no ranks.
    """
    if batches is None:
        return "its loader makes no batches (batch_size=None)"
    own = batches.sampler if type(batches) is BatchSampler else batches
    is_known = type(own) is DistributedSampler
    if (hasattr(own, "num_replicas") and not is_known) or hasattr(own, "dp_size"):
        return f"its {type(own).__name__} divides the data by ranks itself"
    try:
        len(own)
    except TypeError:
        return f"its {type(own).__name__} has no length"
    return ""


def undivide(batches: Any) -> None:
    """Have the ``DistributedSampler`` of a batch sampler, if it has one, give all ranks all."""
    own: Any = getattr(batches, "sampler", None)
    if isinstance(own, DistributedSampler):
        own.num_replicas, own.rank = 1, 0
        own.num_samples = own.total_size = len(own.dataset)


class FirstExamples(Sampler[int]):
    """The first examples of each epoch of another sampler."""

    def __init__(self, sampler: Any, examples: int) -> None:
        self.sampler = sampler
        self.limit(examples)

    def limit(self, examples: int) -> None:
        """Set how many examples an epoch has, at most all."""
        self._examples = min(examples, len(self.sampler))

    def __len__(self) -> int:
        return self._examples

    def __iter__(self) -> Iterator[int]:
        return itertools.islice(iter(self.sampler), self._examples)

    def set_epoch(self, epoch: int) -> None:
        """Tell the sampler which epoch begins."""
        if callable(own := getattr(self.sampler, "set_epoch", None)):
            own(epoch)


def is_divided(loader: Any) -> bool:
    """Return whether a loader's own sampler divides its examples among ranks."""
    batches = getattr(loader, "batch_sampler", None)
    return isinstance(getattr(batches, "sampler", None), DistributedSampler)


def has_order(loader: Any) -> bool:
    """Return whether the examples of a loader are the same ones on all ranks, in one order.

    One that shuffles draws on each rank by itself.
    """
    batches: Any = getattr(loader, "batch_sampler", None)
    is_plain = type(batches) is BatchSampler and type(batches.sampler) is not RandomSampler
    return is_plain and not is_divided(loader)


def limit_examples(sampler: Any, size: int, ranks: int, limit: int | float) -> FirstExamples:
    """Return the first examples of a sampler: those of some batches of each of some ranks.

    Args:
        size: Of a batch.
        limit: Batches of a rank, or the part that is used of all.
    """
    batches = math.ceil(len(sampler) / (size * ranks))
    most = min(limit, batches) if isinstance(limit, int) else int(batches * limit)
    return FirstExamples(sampler, most * size * ranks)


def common_batches_of(
    loader: Any,
    *,
    accumulated: int,
    ranks: int,
    place: tuple[int, int],
    seed: int,
    limit: int | float = 1.0,
) -> CommonBatches | str:
    """Return what gives any number of ranks the batches of a loader that ``ranks`` would have.

    Shuffled examples are in the order of a ``DistributedSampler``, as on several ranks elsewhere,
    so each update has the same ones.

    Args:
        accumulated: Batches of each rank in an update.
        place: The present rank, and the number of present ranks.
        seed: Of the order.
        limit: Batches of each of ``ranks`` in an epoch, or the part that is used of all.

    Returns:
        Why it is not possible, as a clause, where it is not.
    """
    if not isinstance(loader, DataLoader):
        return "its data is no DataLoader"
    own = loader.batch_sampler
    if why := why_not_common(own):
        return why
    assert own is not None
    undivide(own)
    size = getattr(own, "batch_size", 1) or 1
    if type(own) is BatchSampler:
        sampler: Any = own.sampler
        if type(sampler) is RandomSampler and not sampler.replacement:
            sampler = DistributedSampler(loader.dataset, 1, 0, shuffle=True, seed=seed)
        own = BatchSampler(sampler, own.batch_size, own.drop_last)
    elif limit != 1.0:
        return f"its {type(own).__name__} chooses whole batches, and an epoch has some of them"
    else:
        sampler = own
    if getattr(sampler, "generator", False) is None:
        sampler.generator = torch.Generator().manual_seed(seed)
    if isinstance(limit, int) or limit != 1.0:
        if not len(first := limit_examples(sampler, size, ranks, limit)):
            return "the part of its data that an epoch uses is no whole batch"
        own = BatchSampler(first, own.batch_size, own.drop_last)
    return CommonBatches(own, size, size * accumulated * ranks, *place)
