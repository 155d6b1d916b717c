"""Give each rank its share of batches whose size does not depend on the number of ranks."""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from workbench.core.run.batch import epoch_order, share
from workbench.engine.framework import frameworks
from workbench.engine.run_context import current
from workbench.engine.snapshot.entries import LoopData
from workbench.errors import InputError, StateError

_ORDER = ("examples", "seed", "shuffle")


class GlobalBatches:
    """The numbers of the examples of each batch, divided among the ranks.

    All ranks together train on ``size`` examples in a step, on any number of ranks, in an order
    that depends on ``seed`` and the epoch alone. Each example is visited once in an epoch, whose
    last batch is smaller if ``size`` does not divide ``examples``. Pass it to
    ``workbench.elastic(state, data=…)``, or to PyTorch's ``DataLoader(data, batch_sampler=…)``.

    Args:
        examples: Number of examples.
        size: Examples of a batch, of all ranks together.
        seed: Of the order.
        shuffle: Whether each epoch has another order; else it is that of the data.

    Raises:
        InputError: An argument is invalid.
    """

    def __init__(self, examples: int, size: int, *, seed: int = 0, shuffle: bool = True) -> None:
        self.examples, self.size = _positive("examples", examples), _positive("size", size)
        self.seed, self.shuffle = _whole("seed", seed, 0), bool(shuffle)
        self.epoch = 0
        """Epochs done."""
        self.position = 0
        """Examples of the present epoch that were trained on."""
        self._ordered = -1, numpy.arange(0)

    def __repr__(self) -> str:
        return (
            f"<GlobalBatches of {self.size} of {self.examples} examples, "
            f"epoch {self.epoch}, position {self.position}>"
        )

    def __len__(self) -> int:
        """Return the number of batches that are left in the present epoch."""
        return math.ceil((self.examples - self.position) / self.size)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield this rank's share of each batch that is left in the present epoch."""
        order = self._order()
        for position in range(self.position, self.examples, self.size):
            yield share(order[position : position + self.size], *membership())[0].tolist()

    def present(self) -> tuple[Any, float]:
        """Return this rank's share of the present batch as a NumPy array, and its weight."""
        batch = self._order()[self.position : self.position + self.size]
        return share(batch, *membership())

    @property
    def is_last(self) -> bool:
        """Whether the present batch is the last of its epoch."""
        return self.position + self.size >= self.examples

    def advance(self) -> None:
        """Count the present batch as trained on."""
        self.position += self.size
        if self.position >= self.examples:
            self.epoch, self.position = self.epoch + 1, 0

    def _order(self) -> Any:
        if not self.shuffle:
            return numpy.arange(self.examples)
        if self._ordered[0] != self.epoch:
            self._ordered = self.epoch, epoch_order(self.examples, self.seed, self.epoch)
        return self._ordered[1]


def batches_state(batches: GlobalBatches) -> dict[str, Any]:
    """Return the place of batches, and what their order depends on."""
    return {name: getattr(batches, name) for name in (*_ORDER, "epoch", "position")}


def restore_batches(batches: GlobalBatches, saved: dict[str, Any]) -> None:
    """Set the place of batches.

    Raises:
        StateError: Their order is another one now.
    """
    for name in _ORDER:
        if saved[name] != (present := getattr(batches, name)):
            raise StateError(
                f"The loop's GlobalBatches have {name}={present}, and those of the snapshot "
                f"{name}={saved[name]}",
                "resume with the data that the snapshot was saved from.",
            )
    batches.epoch, batches.position = saved["epoch"], saved["position"]


def _positive(name: str, value: Any) -> int:
    return _whole(name, value, 1)


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(
            f"GlobalBatches({name}=…) takes a whole number from {least}, not {value!r:.80}",
            "pass len(…) of the data and the batch size of all ranks together.",
        )
    return number


class GlobalBatchesData(LoopData):
    """The numbers of a rank's examples, as a NumPy array."""

    kind = "GlobalBatches"

    @property
    def batches(self) -> GlobalBatches:
        """What chooses the batches."""
        found: GlobalBatches = self.value
        return found

    @property
    def epoch(self) -> float:
        """Epochs done, such as 1.5."""
        return self.batches.epoch + self.batches.position / self.batches.examples

    @property
    def epochs_before(self) -> int:
        """Whole epochs that were done before the present batch."""
        return self.batches.epoch

    @property
    def ends_epoch(self) -> bool:
        """Whether the present batch is the last of its epoch."""
        return self.batches.is_last

    @property
    def examples(self) -> int:
        """Examples of an epoch."""
        return self.batches.examples

    def given(self) -> Any:
        """Return this rank's share of the present batch; one without weight only fills it."""
        part, weight = self.batches.present()
        return part if weight else part[:0]

    def give(self) -> tuple[Any, float] | None:
        """Return this rank's share of the present batch, and its weight."""
        return self.batches.present()

    def trained(self) -> None:
        """Go to the next batch."""
        self.batches.advance()

    def own(self) -> Any:
        """Return the place, and what the order depends on."""
        return batches_state(self.batches)

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set the place; another batch size continues the same order."""
        restore_batches(self.batches, owns[0])
        return ""


def membership() -> tuple[int, int]:
    """Return rank and world size: of the run, of a framework, of torchrun, of MPI, or 0 of 1."""
    if current() is None:
        for one in frameworks():
            if (found := one.membership()) is not None:
                return found
        rank, ranks = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
        if rank.isdecimal() and ranks.isdecimal():
            return int(rank), int(ranks)
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        return int(mpi.COMM_WORLD.rank), int(mpi.COMM_WORLD.size)
    return 0, 1
