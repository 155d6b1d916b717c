"""Judge where the time of a step goes, what to change, and the predicted gain."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from workbench.core.performance.bandwidth import busbw
from workbench.core.performance.exchange_model import CARRIED, PLAIN, Codec
from workbench.core.performance.straggler import Straggler, lateness, sentences, straggler
from workbench.core.performance.what_if import (
    Change,
    Observed,
    expected,
    parts_after,
    speedup,
    told_apart,
    waiting_in_turn,
)
from workbench.core.units import gbits, size_text

# Of a step: less than that is not worth a word.
NOTABLE = 0.15
# A change that gives less is not worth it.
GIVES = 1.05
# What the model itself may be off by, relatively.
MODEL_ERROR = 0.1
# A link of the kind that is rented where the network matters.
FAST_GBITS = 10.0
# Where a quarter of a step is communication, three quarters of what is paid for is work.
BEARABLE = 0.25


class Cause(StrEnum):
    """What a step's time goes into, beside the work itself."""

    NETWORK = "network-bound"
    EXCHANGE = "exchange-bound"
    MESSAGES = "message-bound"
    LATENCY = "latency-bound"
    STRAGGLER = "straggler"
    WAITING = "waiting-bound"
    DATA = "data-bound"
    BATCH = "batch too small"
    COMPUTE = "compute-bound"


# What the exchange of gradients is to blame for: between nodes, that is the network.
_BETWEEN_NODES = (Cause.NETWORK, Cause.LATENCY, Cause.BATCH)


@dataclass(frozen=True)
class Remedy:
    """One thing to do, and what comes of it.

    Args:
        do: What to type, in backquotes, or to rent.
        speedup: Examples a second, as a multiple of today's: about that, between ``low`` and
            ``high``.
        seconds: Of a step then.
    """

    do: str
    change: Change
    speedup: float
    seconds: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Whether it is worth it, and more than the noise."""
        return self.speedup >= GIVES and self.low > 1

    @property
    def gain(self) -> str:
        """How fast training would be."""
        return gain_text(self.speedup, self.low, self.high)


@dataclass(frozen=True)
class Verdict:
    """What a run spends its time on.

    Args:
        share: Of a step that goes into the cause.
        nbytes: Of gradients as they move.
        plain: Bytes of gradients before any codec.
        busbw: Bytes a second over each link while gradients move; 0 where none do.
        nodes: That the ranks are on.
        crowd: Ranks of a node.
        cores: Of a node; 0 when unknown.
        straggler: None where that is not the cause.
        remedies: Those that give more than the noise, the best first.
        doubling: Twice the nodes, whatever that gives; None where it makes no sense: on one
            machine there are no nodes to add.
    """

    cause: Cause
    share: float
    seconds: float
    nbytes: float
    plain: float
    codec: Codec
    busbw: float
    rating: float
    nodes: int
    crowd: int
    cores: float
    straggler: Straggler | None = None
    remedies: tuple[Remedy, ...] = ()
    doubling: Remedy | None = None


def judge(observed: Observed) -> Verdict:
    """Return the verdict on a run."""
    ranks = told_apart(observed.ranks)
    seen = replace(observed, ranks=ranks)
    total = fmean(one.total for one in ranks)
    slow = straggler(ranks, seen.noise)
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
        nodes=seen.nodes,
        crowd=seen.crowd,
        cores=seen.cores,
        straggler=slow if cause is Cause.STRAGGLER else None,
        remedies=_remedies(seen, cause),
        doubling=_doubling(seen),
    )


def _carried(seen: Observed, wire: float, moving: float) -> float:
    """Return the bytes a second that each link carried."""
    if seen.coding.sums:
        return busbw(wire, moving, max(2, seen.nodes))
    return (max(2, seen.nodes) - 1) * wire / moving  # each gets what all others send


def _cause(seen: Observed, total: float, slow: Straggler | None) -> tuple[Cause, float]:
    moving = fmean(one.moving for one in seen.ranks) / total
    passing = fmean(one.passing for one in seen.ranks) / total
    waiting = max(one.waiting for one in seen.ranks)
    shares = {
        Cause.NETWORK: moving if seen.exchanges else 0.0,
        Cause.MESSAGES: passing if seen.exchanges else passing + moving,
        # In what others have of it as waiting: ranks that pass messages on are not alike.
        Cause.STRAGGLER: min(lateness(seen.ranks), waiting) / total if slow else 0.0,
        Cause.WAITING: waiting_in_turn(seen.ranks) / total,
        Cause.DATA: fmean(one.data for one in seen.ranks) / total,
    }
    cause = max(shares, key=lambda one: shares[one])
    share = shares[cause]
    if share < NOTABLE:
        return Cause.COMPUTE, fmean(one.compute for one in seen.ranks) / total
    if cause is not Cause.NETWORK:
        return cause, share
    if seen.nodes == 1:
        return Cause.EXCHANGE, share
    if _is_latency(seen):
        return Cause.LATENCY, share
    return (Cause.BATCH if _is_small(seen) else cause), share


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
    found = [_remedy(seen, do, change) for do, change in _changes(seen, cause)]
    return tuple(sorted(filter(lambda one: one.is_sure, found), key=lambda one: -one.speedup))


def _remedy(seen: Observed, do: str, change: Change) -> Remedy:
    gives, error = speedup(seen, change), 1 + math.hypot(MODEL_ERROR, seen.noise)
    return Remedy(do, change, gives, expected(seen, change), gives / error, gives * error)


def _doubling(seen: Observed) -> Remedy | None:
    """Return what twice the nodes would give."""
    if seen.nodes == 1 or not _scales(seen):
        return None
    return _remedy(seen, "twice the nodes", Change(nodes=2))


def _changes(seen: Observed, cause: Cause) -> list[tuple[str, Change]]:
    if cause is Cause.STRAGGLER:
        return [("all ranks alike", Change(even=True))]
    if cause is Cause.DATA:
        return [("a `MultiprocessIterator` that loads the data", Change(loaded=True))]
    if cause not in _BETWEEN_NODES:
        return []
    changes = _exchanged(seen)
    if not seen.stale and seen.delayed > max(seen.hidden, seen.overlapped):
        delayed = replace(_ours(seen), hidden=seen.delayed, stale=True)
        changes.append(("`--double-buffering`", delayed))
    fast = CARRIED * FAST_GBITS * 1e9 / 8
    if seen.link is not None and fast > 1.5 * seen.link.bandwidth:
        changes.append((f"{FAST_GBITS:g} Gbit/s nodes", Change(bandwidth=fast)))
    if cause is Cause.BATCH:
        changes.append((f"batches {_larger(seen):g} times as large", Change(batch=_larger(seen))))
    return changes


def _scales(seen: Observed) -> bool:
    """Tell whether more nodes would train on more examples, each with all of the model."""
    return seen.exchanges or not any(one.passing for one in seen.ranks)


def _ours(seen: Observed) -> Change:
    """Return what our communicator changes: it overlaps, and reaches what the link lets through."""
    if seen.ours:
        return Change(ours=True)
    # It says all in one piece but for the buckets, which leave one behind the other.
    return Change(hidden=seen.overlapped, best=seen.link is not None, messages=1, ours=True)


def _exchanged(seen: Observed) -> list[tuple[str, Change]]:
    """Return what can be done about the exchange itself."""
    ours = _ours(seen)
    if seen.ours:
        changes = []
    else:
        changes = [("`--communicator auto`", ours)] if ours.best or ours.hidden else []
    for coding in seen.codings:
        if coding.codec is seen.coding.codec:
            continue
        if coding.codec is not Codec.NONE:
            changes.append((f"`--compress {coding.codec}`", replace(ours, coding=coding)))
        elif seen.coding.codec is not Codec.NONE:
            changes.append(("`--compress none`", replace(ours, coding=coding)))
    return changes


def _larger(seen: Observed) -> float:
    """Return how many times the batch would make communication bearable; a power of two."""
    for times in (2.0, 4.0, 8.0, 16.0):
        parts = parts_after(seen, Change(batch=times))
        if parts.exposed + parts.coding <= BEARABLE * parts.total:
            return times
    return 16.0


def gain_text(times: float, low: float, high: float) -> str:
    """Return in words how fast training would be, as a multiple of today's speed."""
    return f"about {_times(times)} times as fast ({_times(low)}–{_times(high)})"


def sentence(verdict: Verdict, *, live: bool = False) -> str:
    """Return a verdict in words, with the next step.

    Args:
        live: Whether the run goes on, so that it may change.
    """
    so_far = " so far" if live else ""
    cause = f"{verdict.cause[0].upper()}{verdict.cause[1:]}{so_far}"
    if verdict.straggler is not None:
        gain = verdict.remedies[0].gain if verdict.remedies else ""
        return f"{cause}: {sentences(verdict.straggler, gain, alone=verdict.nodes == 1)}"
    said = f"{cause}: {_where(verdict)}"
    named = _named(verdict)
    if not named:
        return said
    first, *others = named
    more = "".join(f", with {one.do} {_short(one)}" for one in others)
    return f"{said} With {first.do} training would be {first.gain}{more}."


def _where(verdict: Verdict) -> str:
    share = f"{100 * verdict.share:.0f} % of each step"
    if verdict.cause is Cause.NETWORK:
        of = f" of {gbits(verdict.rating)}" if verdict.rating else ""
        coded = verdict.codec is not Codec.NONE
        made = f", {verdict.codec} of {size_text(verdict.plain)}" if coded else ""
        moved = f"{size_text(verdict.nbytes)}{made}, at {gbits(verdict.busbw)}{of} Gbit/s"
        return f"{share} moves gradients ({moved})."
    return {
        Cause.EXCHANGE: f"{share} adds up gradients, on this machine.",
        Cause.MESSAGES: (
            f"{share} goes into messages between ranks, waiting for the other rank included. "
            "Parts of equal length, or several small batches on their way at once, shorten that."
        ),
        Cause.LATENCY: f"{share} goes into many small messages.",
        Cause.WAITING: f"{share} waits for other ranks, not always the same one.{_shared(verdict)}",
        Cause.DATA: f"{share} waits for the next batch.",
        Cause.BATCH: (
            f"{share} is communication, and most of it would remain with hardly any bytes."
        ),
        Cause.COMPUTE: f"{share} is compute, as it should be.{_shared(verdict)}",
    }[verdict.cause]


def _shared(verdict: Verdict) -> str:
    """Say what ranks have to share, where they do."""
    if 0 < verdict.cores < verdict.crowd:
        return f" {verdict.crowd} ranks share {verdict.cores:g} cores{_each(verdict)}."
    if verdict.cause is Cause.WAITING and verdict.nodes == 1:
        return " They share this machine's cores with each other and with other programs."
    return ""


def _each(verdict: Verdict) -> str:
    return " on each node" if verdict.nodes > 1 else ""


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
    return tuple(sorted(chosen, key=lambda one: -one.speedup))


def _short(one: Remedy) -> str:
    return f"{_times(one.speedup)} times ({_times(one.low)}–{_times(one.high)})"


def _times(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
