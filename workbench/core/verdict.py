"""Say where the time of a step goes, what to do about it, and how much faster that would be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from workbench.core.bandwidth import busbw
from workbench.core.change import (
    Change,
    Observed,
    expected,
    parts_after,
    speedup,
    told_apart,
)
from workbench.core.exchange import CARRIED, PLAIN, Codec
from workbench.core.size import gbits, size_text
from workbench.core.straggler import Straggler, sentences, straggler

# Of a step: less than that is not worth a word.
NOTABLE = 0.15
# A remedy that gives less is not named.
GIVES = 1.05
# A link of the kind that is rented where the network matters.
FAST_GBITS = 10.0
# Where a quarter of a step is communication, three quarters of what is paid for is work.
BEARABLE = 0.25


class Cause(StrEnum):
    """What a step's time goes into, beside the work itself."""

    NETWORK = "network-bound"
    LATENCY = "latency-bound"
    STRAGGLER = "straggler"
    DATA = "data-bound"
    BATCH = "batch too small"
    COMPUTE = "compute-bound"


@dataclass(frozen=True)
class Remedy:
    """One thing to do, and what comes of it.

    Args:
        do: What to type, or to rent.
        speedup: Examples a second, as a multiple of today's.
        seconds: Of a step then.
    """

    do: str
    change: Change
    speedup: float
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """What a run spends its time on.

    Args:
        share: Of a step that goes into the cause.
        nbytes: Of gradients as they move.
        plain: Bytes of gradients before any codec.
        busbw: Bytes a second over each link while gradients move; 0 where none do.
        straggler: None where that is not the cause.
        remedies: The best first.
    """

    cause: Cause
    share: float
    seconds: float
    nbytes: float
    plain: float
    codec: Codec
    busbw: float
    rating: float
    straggler: Straggler | None = None
    remedies: tuple[Remedy, ...] = ()


def judge(observed: Observed) -> Verdict:
    """Return the verdict on a run."""
    ranks = told_apart(observed.ranks)
    seen = replace(observed, ranks=ranks)
    total = fmean(one.total for one in ranks)
    slow = straggler(ranks)
    cause, share = _cause(seen, total, slow)
    wire = seen.nbytes * seen.coding.ratio
    # Bytes move beneath the compute as well, where they do.
    moving = max(fmean(one.moving for one in ranks), seen.whole)
    return Verdict(
        cause=cause,
        share=share,
        seconds=total,
        nbytes=wire,
        plain=seen.nbytes,
        codec=seen.coding.codec,
        busbw=_carried(seen, wire, moving) if moving and wire else 0.0,
        rating=seen.rating,
        straggler=slow if cause is Cause.STRAGGLER else None,
        remedies=_remedies(seen, cause),
    )


def _carried(seen: Observed, wire: float, moving: float) -> float:
    """Return the bytes a second that each link carried."""
    if seen.coding.sums:
        return busbw(wire, moving, max(2, seen.nodes))
    return (max(2, seen.nodes) - 1) * wire / moving  # each gets what all others send


def _cause(seen: Observed, total: float, slow: Straggler | None) -> tuple[Cause, float]:
    shares = {
        Cause.NETWORK: fmean(one.moving for one in seen.ranks) / total,
        Cause.STRAGGLER: max(one.waiting for one in seen.ranks) / total if slow else 0.0,
        Cause.DATA: fmean(one.data for one in seen.ranks) / total,
    }
    cause = max(shares, key=lambda one: shares[one])
    share = shares[cause]
    if share < NOTABLE:
        return Cause.COMPUTE, fmean(one.compute for one in seen.ranks) / total
    if cause is Cause.NETWORK and _is_latency(seen):
        return Cause.LATENCY, share
    if cause is Cause.NETWORK and _is_small(seen):
        return Cause.BATCH, share
    return cause, share


def _is_latency(seen: Observed) -> bool:
    """Tell whether the same bytes in one piece would take half the time or less."""
    if seen.link is None or seen.messages <= 1:
        return False
    whole = parts_after(seen, Change(messages=1)).exchange
    return parts_after(seen, Change()).exchange > 2 * whole


def _is_small(seen: Observed) -> bool:
    """Tell whether not even a fiftieth of the bytes would leave more work than communication."""
    tiny = parts_after(seen, Change(coding=replace(PLAIN, ratio=0.02)))
    return tiny.exposed > tiny.compute


def _remedies(seen: Observed, cause: Cause) -> tuple[Remedy, ...]:
    found = [
        Remedy(do, change, speedup(seen, change), expected(seen, change))
        for do, change in _changes(seen, cause)
    ]
    # More nodes are not a remedy but what a healthy run is good for, so they are always said.
    kept = [one for one in found if one.speedup >= GIVES or one.change.nodes > 1]
    return tuple(sorted(kept, key=lambda one: -one.speedup))


def _changes(seen: Observed, cause: Cause) -> list[tuple[str, Change]]:
    if cause is Cause.STRAGGLER:
        return [("equal ranks", Change(even=True))]
    if cause is Cause.DATA:
        return [("load data in a MultiprocessIterator", Change(loaded=True))]
    if cause is Cause.COMPUTE:
        return [("twice the nodes", Change(nodes=2))]
    changes = _exchanged(seen)
    if not seen.stale and seen.delayed > max(seen.hidden, seen.overlapped):
        delayed = replace(_ours(seen), hidden=seen.delayed)
        changes.append(("--double-buffering", delayed))
    fast = CARRIED * FAST_GBITS * 1e9 / 8
    if seen.link is not None and fast > 1.5 * seen.link.bandwidth:
        changes.append((f"{FAST_GBITS:g} Gbit/s nodes", Change(bandwidth=fast)))
    if cause is Cause.BATCH:
        changes.append((f"batches {_larger(seen):g} times as large", Change(batch=_larger(seen))))
    return changes


def _ours(seen: Observed) -> Change:
    """Return what our communicator changes: it overlaps, and reaches what the link lets through."""
    if seen.ours:
        return Change()
    # It says all in one piece but for the buckets, which leave one behind the other.
    return Change(hidden=seen.overlapped, best=seen.link is not None, messages=1)


def _exchanged(seen: Observed) -> list[tuple[str, Change]]:
    """Return what can be done about the exchange itself."""
    ours = _ours(seen)
    if seen.ours:
        changes = []
    else:
        changes = [("--communicator auto", ours)] if ours.best or ours.hidden else []
    for coding in seen.codings:
        if coding.codec is seen.coding.codec:
            continue
        if coding.codec is not Codec.NONE:
            changes.append((f"--compress {coding.codec}", replace(ours, coding=coding)))
        elif seen.coding.codec is not Codec.NONE:
            changes.append(("--compress none", replace(ours, coding=coding)))
    return changes


def _larger(seen: Observed) -> float:
    """Return how many times the batch would make communication bearable; a power of two."""
    for times in (2.0, 4.0, 8.0, 16.0):
        parts = parts_after(seen, Change(batch=times))
        if parts.exposed + parts.coding <= BEARABLE * parts.total:
            return times
    return 16.0


def sentence(verdict: Verdict) -> str:
    """Return a verdict in words, with the next step."""
    said = f"{verdict.cause[0].upper()}{verdict.cause[1:]}: {_where(verdict)}"
    if verdict.straggler is not None:
        return said
    named = _named(verdict)
    if not named:
        return said
    first, *others = (f"{_command(one.do)} {{}}{one.speedup:.1f}×" for one in named)
    gives = ", ".join([first.format("would give "), *(one.format("") for one in others)])
    return f"{said} {gives[0].upper()}{gives[1:]}."


def _where(verdict: Verdict) -> str:
    share = f"{100 * verdict.share:.0f} % of a step"
    if verdict.cause is Cause.NETWORK:
        of = f" of {gbits(verdict.rating)}" if verdict.rating else ""
        coded = verdict.codec is not Codec.NONE
        made = f" ({verdict.codec}, made of {size_text(verdict.plain)})" if coded else ""
        moved = f"{size_text(verdict.nbytes)} of gradients{made} at {gbits(verdict.busbw)}{of}"
        return f"{share} moves {moved} Gbit/s."
    if verdict.straggler is not None:
        gives = verdict.remedies[0].speedup if verdict.remedies else 0.0
        return sentences(verdict.straggler, verdict.share, gives)
    return {
        Cause.LATENCY: f"{share} goes into many small messages.",
        Cause.DATA: f"{share} waits for the next batch.",
        Cause.BATCH: f"{share} is communication, and most of it would be with hardly any bytes.",
        Cause.COMPUTE: f"{share} is compute, as it should be.",
    }[verdict.cause]


def _named(verdict: Verdict) -> tuple[Remedy, ...]:
    """Return the simplest codec, the best one, and the best of what is not a codec."""
    codecs = [one for one in verdict.remedies if one.change.coding]
    others = [one for one in verdict.remedies if not one.change.coding]
    simple = [
        one
        for one in codecs
        if one.change.coding and one.change.coding.codec in (Codec.FP16, Codec.BF16)
    ]
    if verdict.cause in (Cause.LATENCY, Cause.BATCH):
        return tuple(others[:2])
    # What is added on the way stays as cheap with more nodes, so it wins where it is as good.
    good = [one for one in codecs if one.speedup * GIVES >= codecs[0].speedup]
    good.sort(key=lambda one: not (one.change.coding and one.change.coding.sums))
    chosen = dict.fromkeys([*simple[:1], *good[:1], *others[:1]])
    return tuple(sorted(chosen, key=lambda one: one.speedup))


def _command(do: str) -> str:
    return f"`{do}`" if do.startswith("--") else do
