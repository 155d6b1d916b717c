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
    ObservedRun,
    parts_after,
    predict_seconds,
    speedup,
    split_waiting,
    waiting_in_turn,
)
from workbench.core.units import gbits, size_text

# A smaller share of a step is not mentioned.
NOTABLE = 0.15
# A change with a smaller gain is not worth it.
GIVES = 1.05
# The relative error of the model itself.
MODEL_ERROR = 0.1
# The bandwidth of nodes that one rents if the network matters.
FAST_GBITS = 10.0
# With a quarter of a step for communication, three quarters of the price buy work.
BEARABLE = 0.25


class Cause(StrEnum):
    """The main use of a step's time beside the work itself."""

    NETWORK = "network-bound"
    EXCHANGE = "exchange-bound"
    MESSAGES = "message-bound"
    LATENCY = "latency-bound"
    CODEC = "compression-bound"
    STRAGGLER = "straggler"
    WAITING = "waiting-bound"
    DATA = "data-bound"
    OTHER = "slow loop"
    BATCH = "batch too small"
    COMPUTE = "compute-bound"


# Causes that another exchange of gradients, or other nodes, may remove.
_OF_EXCHANGE = (Cause.NETWORK, Cause.LATENCY, Cause.CODEC, Cause.BATCH)
_OWN = ("other", "compute")


@dataclass(frozen=True)
class Remedy:
    """A change to make, and its predicted effect.

    Args:
        do: The option in backquotes, or what to rent.
        speedup: Examples per second relative to now: about that, between ``low`` and ``high``.
        seconds: Per step after the change.
    """

    do: str
    change: Change
    speedup: float
    seconds: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Whether it is worth it, and exceeds the noise."""
        return self.speedup >= GIVES and self.low > 1

    @property
    def gain(self) -> str:
        """The predicted speed of training, as text."""
        return gain_text(self.speedup, self.low, self.high)


@dataclass(frozen=True)
class Verdict:
    """The main cause of a run's step time, and the remedies.

    Args:
        share: Share of a step that the cause takes.
        nbytes: Of gradients as they are sent.
        plain: Of gradients before any codec.
        busbw: Bytes per second over each link during the exchange; 0 without one.
        nodes: Number of the ranks' nodes.
        crowd: Ranks per node.
        cores: Per node; 0 if unknown.
        straggler: None if that is not the cause.
        remedies: Those whose gain exceeds the noise, the best first.
        doubling: The effect of twice the nodes, whatever it is; None on one machine, to which no
            nodes can be added.
    """

    cause: Cause
    share: float
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


def judge(observed: ObservedRun) -> Verdict:
    """Return the verdict on a run."""
    ranks = split_waiting(observed.ranks)
    seen = replace(observed, ranks=ranks)
    total = fmean(one.total for one in ranks)
    slow = straggler(ranks, seen.noise)
    cause, share = _cause(seen, total, slow)
    wire = seen.nbytes * seen.coding.ratio
    # Bytes may also be sent under the compute.
    moving = max(fmean(one.moving for one in ranks), seen.whole)
    return Verdict(
        cause=cause,
        share=share,
        nbytes=wire,
        plain=seen.nbytes,
        codec=seen.coding.codec,
        busbw=_compute_link_rate(seen, wire, moving) if moving and wire else 0.0,
        rating=seen.rating,
        nodes=seen.nodes,
        crowd=seen.crowd,
        cores=seen.cores,
        straggler=slow if cause is Cause.STRAGGLER else None,
        remedies=_remedies(seen, cause),
        doubling=_doubling(seen),
    )


def _compute_link_rate(seen: ObservedRun, wire: float, moving: float) -> float:
    """Return the bytes per second over each link."""
    if seen.coding.sums:
        return busbw(wire, moving, max(2, seen.nodes))
    return (max(2, seen.nodes) - 1) * wire / moving  # each rank gets the data of all others


def _cause(seen: ObservedRun, total: float, slow: Straggler | None) -> tuple[Cause, float]:
    moving = fmean(one.moving for one in seen.ranks) / total
    passing = fmean(one.passing for one in seen.ranks) / total
    waiting = max(one.waiting for one in seen.ranks)
    shares = {
        Cause.NETWORK: moving if seen.exchanges else 0.0,
        Cause.MESSAGES: passing if seen.exchanges else passing + moving,
        # Compared with the others' waiting: ranks that pass messages differ by design.
        Cause.STRAGGLER: min(lateness(seen.ranks), waiting) / total if slow else 0.0,
        Cause.WAITING: waiting_in_turn(seen.ranks) / total,
        Cause.DATA: fmean(one.data for one in seen.ranks) / total,
    }
    other, compute = (fmean(getattr(one, part) for one in seen.ranks) for part in _OWN)
    if other > compute:  # smaller shares are a matter of course
        shares[Cause.OTHER] = other / total
    cause = max(shares, key=lambda one: shares[one])
    share = shares[cause]
    if share < NOTABLE:
        return Cause.COMPUTE, fmean(one.compute for one in seen.ranks) / total
    if cause is not Cause.NETWORK:
        return cause, share
    if _is_coding(seen):
        return Cause.CODEC, share
    if seen.nodes == 1:
        return Cause.EXCHANGE, share
    if _is_latency(seen):
        return Cause.LATENCY, share
    return (Cause.BATCH if _is_small(seen) else cause), share


def _is_coding(seen: ObservedRun) -> bool:
    """Return whether compressing the gradients takes longer than sending them."""
    parts = parts_after(seen, Change())
    return parts.coding > parts.exchange


def _is_latency(seen: ObservedRun) -> bool:
    """Return whether the same bytes in one piece would take half the time or less."""
    if seen.link is None or seen.messages <= 1:
        return False
    whole = parts_after(seen, Change(messages=1)).exchange
    return parts_after(seen, Change()).exchange > 2 * whole


def _is_small(seen: ObservedRun) -> bool:
    """Return whether even a fiftieth of the bytes would leave more communication than work."""
    tiny = parts_after(seen, Change(coding=replace(PLAIN, ratio=0.02)))
    return tiny.exposed > tiny.compute


def _remedies(seen: ObservedRun, cause: Cause) -> tuple[Remedy, ...]:
    found = [_remedy(seen, do, change) for do, change in _changes(seen, cause)]
    return tuple(sorted(filter(lambda one: one.is_sure, found), key=lambda one: -one.speedup))


def _remedy(seen: ObservedRun, do: str, change: Change) -> Remedy:
    gives, error = speedup(seen, change), 1 + math.hypot(MODEL_ERROR, seen.noise)
    return Remedy(do, change, gives, predict_seconds(seen, change), gives / error, gives * error)


def _doubling(seen: ObservedRun) -> Remedy | None:
    """Return the predicted effect of twice the nodes."""
    if seen.nodes == 1 or not _scales(seen):
        return None
    return _remedy(seen, "twice the nodes", Change(nodes=2))


def _changes(seen: ObservedRun, cause: Cause) -> list[tuple[str, Change]]:
    if cause is Cause.STRAGGLER:
        return [("all ranks alike", Change(even=True))]
    if cause is Cause.DATA:
        loading = "processes that load the data (`num_workers`, or a `MultiprocessIterator`)"
        return [(loading, Change(loaded=True))]
    if cause not in _OF_EXCHANGE:
        return []
    changes = _list_exchange_changes(seen)
    if not seen.stale and seen.delayed > max(seen.hidden, seen.overlapped):
        delayed = replace(_ours(seen), hidden=seen.delayed, stale=True)
        changes.append(("`--double-buffering`", delayed))
    fast = CARRIED * FAST_GBITS * 1e9 / 8
    if seen.link is not None and fast > 1.5 * seen.link.bandwidth:
        changes.append((f"{FAST_GBITS:g} Gbit/s nodes", Change(bandwidth=fast)))
    if cause is Cause.BATCH:
        changes.append((f"batches {_larger(seen):g} times as large", Change(batch=_larger(seen))))
    return changes


def _scales(seen: ObservedRun) -> bool:
    """Return whether more nodes would train on more examples, each with all of the model."""
    return seen.exchanges or not any(one.passing for one in seen.ranks)


def _ours(seen: ObservedRun) -> Change:
    """Return the effects of our communicator: overlap, and the model's speed on the link."""
    if seen.ours:
        return Change(ours=True)
    # It sends everything as one piece except the buckets, which are sent one after another.
    return Change(hidden=seen.overlapped, best=seen.link is not None, messages=1, ours=True)


def _list_exchange_changes(seen: ObservedRun) -> list[tuple[str, Change]]:
    """Return the possible changes of the exchange itself."""
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


def _larger(seen: ObservedRun) -> float:
    """Return the factor on the batch that makes communication acceptable; a power of two."""
    for times in (2.0, 4.0, 8.0, 16.0):
        parts = parts_after(seen, Change(batch=times))
        if parts.exposed + parts.coding <= BEARABLE * parts.total:
            return times
    return 16.0


def gain_text(times: float, low: float, high: float) -> str:
    """Return a speed relative to now as text."""
    return f"about {_times(times)} times as fast ({_times(low)}–{_times(high)})"


def sentence(verdict: Verdict, *, live: bool = False) -> str:
    """Return a verdict in sentences, with the next step.

    Args:
        live: Whether the run is active, so that the verdict may change.
    """
    so_far = " so far" if live else ""
    cause = f"{verdict.cause[0].upper()}{verdict.cause[1:]}{so_far}"
    if verdict.straggler is not None:
        gain = verdict.remedies[0].gain if verdict.remedies else ""
        return f"{cause}: {sentences(verdict.straggler, gain, alone=verdict.nodes == 1)}"
    text = f"{cause}: {_where(verdict)}"
    named = _choose_remedies(verdict)
    if not named:
        return text
    first, *others = named
    more = "".join(f", with {one.do} {_short(one)}" for one in others)
    return f"{text} With {first.do} training would be {first.gain}{more}."


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
        Cause.CODEC: (
            f"{share} exchanges gradients, and most of that is the computing of "
            f"`--compress {verdict.codec}`."
        ),
        Cause.WAITING: f"{share} waits for other ranks, not always the same one."
        f"{_format_shared_cores(verdict)}",
        Cause.DATA: f"{share} waits for the next batch.",
        Cause.OTHER: (
            f"{share} is what the loop does beside training, such as evaluation, snapshots and "
            "logs. Do that less often."
        ),
        Cause.BATCH: (
            f"{share} is communication, and most of it would remain with hardly any bytes."
        ),
        Cause.COMPUTE: f"{share} is compute, as it should be.{_format_shared_cores(verdict)}",
    }[verdict.cause]


def _format_shared_cores(verdict: Verdict) -> str:
    """Return a sentence on cores that ranks share, if they do."""
    if 0 < verdict.cores < verdict.crowd:
        return f" {verdict.crowd} ranks share {verdict.cores:g} cores{_each(verdict)}."
    if verdict.cause is Cause.WAITING and verdict.nodes == 1:
        return " They share this machine's cores with each other and with other programs."
    return ""


def _each(verdict: Verdict) -> str:
    return " on each node" if verdict.nodes > 1 else ""


def _choose_remedies(verdict: Verdict) -> tuple[Remedy, ...]:
    """Return the simplest codec, the best one, and the best other change."""
    codecs = [one for one in verdict.remedies if one.change.coding]
    others = [one for one in verdict.remedies if not one.change.coding]
    simple = [
        one
        for one in codecs
        if one.change.coding and one.change.coding.codec in (Codec.FP16, Codec.BF16)
    ]
    if verdict.cause in (Cause.LATENCY, Cause.BATCH):
        return tuple(others[:2])
    # Summing codecs stay as cheap with more nodes, so they win if they are as good.
    good = [one for one in codecs if one.speedup * GIVES >= codecs[0].speedup]
    good.sort(key=lambda one: not (one.change.coding and one.change.coding.sums))
    chosen = dict.fromkeys([*simple[:1], *good[:1], *others[:1]])
    return tuple(sorted(chosen, key=lambda one: -one.speedup))


def _short(one: Remedy) -> str:
    return f"{_times(one.speedup)} times ({_times(one.low)}–{_times(one.high)})"


def _times(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
