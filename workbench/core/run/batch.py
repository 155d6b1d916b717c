"""The batch of all ranks: its shares, and what stays when a training moves to other ranks.

An epoch's order follows from the seed and the epoch alone, and the ranks' shares of a batch are
neighbours in it. So any number of ranks trains on the same batches in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.core.fleet.model import FleetWish

Indices = Any
"""A flat NumPy array of whole numbers."""

WANTED_VARIABLE = "WORKBENCH_RANKS_WANTED"
"""The ranks that a run is to have which begins on fewer."""


def early_environment(
    fleet: FleetWish, hosts: Sequence[str], before: int = 0
) -> tuple[tuple[str, str], ...]:
    """Return the environment variable of a run that begins on fewer ranks than it is to have.

    Other nodes still boot, or were lost before its first snapshot, so that it begins again.

    Args:
        hosts: The address of each rank's host.
        before: The most ranks on which it has begun before, if it begins again; 0 if it does not.
    """
    nodes, wanted = len({*hosts}), before
    if fleet.starts_early and nodes < fleet.nodes:
        wanted = max(wanted, len(hosts) * fleet.nodes // nodes)
    return ((WANTED_VARIABLE, str(wanted)),) if wanted > len(hosts) else ()


def grows(most: int, ranks: int, wanted: int) -> bool:
    """Return whether a training that began early comes to more of the ranks that it is to have.

    Then each rank keeps its batch, and that of all ranks grows. The code does not say what it would
    give all ranks: on one, a script that divides its batch looks as one that does not. Once the
    training has had all of them, the batch of all ranks stays.

    Args:
        most: The most ranks that it had so far.
        wanted: The ranks on all nodes that were asked for; 0 if it began on all of them.
    """
    return most < min(ranks, wanted)


def epoch_order(examples: int, seed: int, epoch: int) -> Indices:
    """Return the numbers of all examples in the order of an epoch, which counts from 0."""
    import numpy  # the supervisor, which divides no batch, does without

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
