"""Divide the batches of all ranks, whose size does not depend on the number of ranks.

An epoch's order follows from the seed and the epoch alone, and the ranks' shares of a batch are
neighbours in it. So any number of ranks trains on the same batches in the same order.
"""

from __future__ import annotations

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
    part = batch[start : start + most + (rank < more)]
    if not len(part):
        return batch[:1], 0.0
    return part, len(part) * ranks / len(batch)
