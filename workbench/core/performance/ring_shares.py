"""Divide a ring allreduce among ranks whose links differ, so that none holds up the others.

A ring gives each rank an equal part. The link from rank ``i`` then carries all parts twice but for
those of the next two ranks: ``2 − p[i+1] − p[i+2]`` of the bytes (the sums of part ``k`` end on the
rank before ``k``). With unequal parts one slow node sends and receives each byte once in place of
``2(n−1)/n`` times, which no order of an equal ring can give it.
"""

from __future__ import annotations

from collections.abc import Sequence

# Below this share of the usual rate a link is slow; others pass for equal, as measurements scatter.
SLOW = 0.6
_HALVINGS = 25


def ring_seconds(rates: Sequence[float], shares: Sequence[float]) -> float:
    """Return the seconds that the slowest link of a ring needs for each byte of the array.

    Args:
        rates: Bytes per second from each rank to the next.
        shares: Each rank's part of the array; together 1.
    """
    return max(load / rate for load, rate in zip(_loads(shares), rates, strict=True))


def equal_shares(ranks: int) -> tuple[float, ...]:
    """Return the parts of an ordinary ring."""
    return (1 / ranks,) * ranks


def ring_shares(rates: Sequence[float]) -> tuple[float, ...]:
    """Return the parts with which a ring takes the least time; equal ones unless a link is slow.

    Args:
        rates: As for `ring_seconds`; at least two.
    """
    ranks = len(rates)
    # One slow node makes two links slow, which may be most of them.
    usual = sorted(rates)[-max(1, ranks // 4)]
    if min(rates) >= SLOW * usual:
        return equal_shares(ranks)
    alike = [rate if rate < SLOW * usual else usual for rate in rates]
    low, high = 0.0, ring_seconds(alike, equal_shares(ranks))
    best = equal_shares(ranks)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        shares = _least([max(0.0, 2 - middle * rate) for rate in alike])
        if sum(shares) <= 1:
            high, best = middle, shares
        else:
            low = middle
    left = (1 - sum(best)) / ranks
    return tuple(share + left for share in best)


def _loads(shares: Sequence[float]) -> list[float]:
    ranks = len(shares)
    return [2 - shares[(i + 1) % ranks] - shares[(i + 2) % ranks] for i in range(ranks)]


def _least(wanted: Sequence[float]) -> tuple[float, ...]:
    """Return the smallest parts, so that those after rank ``i`` and the next make ``wanted[i]``.

    From a given first part on, each part is the least that its link leaves to it; the sum of all
    is convex in the first.
    """
    low, high = 0.0, max(wanted)
    for _ in range(_HALVINGS):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if sum(_following(wanted, left)) <= sum(_following(wanted, right)):
            high = right
        else:
            low = left
    return _following(wanted, (low + high) / 2)


def _following(wanted: Sequence[float], first: float) -> tuple[float, ...]:
    """Return the least parts if that of rank 1 is ``first``."""
    ranks = len(wanted)
    parts = [first]  # of ranks 1, 2, …, and 0 as the last
    for link in range(ranks - 1):
        parts.append(max(0.0, wanted[link] - parts[-1]))
    parts[-1] = max(parts[-1], wanted[-1] - first)
    return (parts[-1], *parts[:-1])
