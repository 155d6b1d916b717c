"""Divide the batches of all ranks, whose size does not depend on the number of ranks.

An epoch's order follows from the seed and the epoch alone, and the ranks' shares of a batch are
neighbours in it. So any number of ranks trains on the same batches in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

Indices = Any
"""A flat NumPy array of whole numbers."""


def epoch_order(examples: int, seed: int, epoch: int) -> Indices:
    """Return the numbers of all examples in the order of an epoch, which counts from 0."""
    return numpy.random.default_rng((seed, epoch)).permutation(examples)


def share(batch: Indices, rank: int, ranks: int) -> tuple[Indices, float]:
    """Return the part of a batch that ``rank`` trains on, and its weight.

    Shares differ by at most one example. The weight is the part's length divided by the mean
    length, so the mean over ranks of weighted mean losses is the mean loss of the whole batch.
    Of a batch that is smaller than the number of ranks, some ranks get its first example with a
    weight of 0, because the mean of no examples is not a number.
    """
    most, more = divmod(len(batch), ranks)
    start = rank * most + min(rank, more)
    part = batch[start : start + length(len(batch), rank, ranks)]
    return (part if len(part) else batch[:1]), weight(len(batch), rank, ranks)


def length(batch: int, rank: int, ranks: int) -> int:
    """Return the number of examples of a rank's share of a batch."""
    most, more = divmod(batch, ranks)
    return most + (rank < more)


def weight(batch: int, rank: int, ranks: int) -> float:
    """Return the length of a rank's share divided by the mean length."""
    return length(batch, rank, ranks) * ranks / batch


def total_batch(code: Sequence[int], total: int, now: Sequence[int]) -> int:
    """Return the batch of all ranks of a training that continues.

    It stays, if the code does: where a rank's batch is as large as before, and where the code
    divides the batch itself, as in ``64 // comm.size``. Else the code asks for another one.

    Args:
        code: The batch that the code gave each rank of the training when it was saved.
        total: The batch of all of them.
        now: The batch that it gives each rank now.
    """
    divides = all(abs(one * len(now) - total) < len(now) for one in now)
    return total if divides or {*now} <= {*code} else sum(now)
