"""Decode the metrics that ranks report of their gradient exchange: overlap and compression."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from statistics import fmean

from workbench.core.performance.exchange_model import CODINGS, Codec, Coding, marked_codec
from workbench.core.performance.step_model import EARLY, WorldShape, exchanging
from workbench.core.performance.what_if import Observed

# Where more than this share of an exchange shows, all that could be hidden was.
SHOWS = 0.1

Told = Mapping[str, float]


def exchanged(seen: Observed, told: Collection[Told]) -> Observed:
    """Return what was observed, with what each rank tells of its exchange and its model.

    Args:
        told: Of each rank, by the names that ``workbench.engine.step_time`` gives.
    """
    if not told:
        return seen
    first = next(iter(told))
    compute = fmean(one.compute for one in seen.ranks)
    codings = codings_of(first)
    seen = replace(
        seen,
        backward=_share(_mean(told, "backward"), compute),
        early=fmean(one.get("early", EARLY) for one in told),
        room=_room(seen, told),
        busy=_mean(told, "busy"),
        cores=min(one.get("cores", 0.0) for one in told),
        codings=codings,
        ours=marked_codec(first) is not None,
        stale=bool(first.get("delayed")),
    )
    return _carried(seen, told, first, compute) if seen.ours else seen


def codings_of(told: Told) -> tuple[Coding, ...]:
    """Return codecs as they are for the model and on the machine of a rank."""
    small = told.get("small", 0.0)
    return tuple(_coding(one, small, told) for one in CODINGS)


def _coding(usual: Coding, small: float, told: Told) -> Coding:
    if usual.codec is Codec.NONE:
        return usual
    ratio = small + (1 - small) * usual.ratio
    if usual.codec is Codec.POWERSGD:
        ratio = told.get("powersgd", usual.ratio)
    cost = told.get(f"cost {usual.codec}", usual.encode + usual.decode)
    # How much of a cost is decoding counts where each rank decodes what all others send.
    decode = cost * usual.decode / (usual.encode + usual.decode)
    return replace(usual, ratio=ratio, encode=cost - decode, decode=decode)


def _carried(seen: Observed, told: Collection[Told], first: Told, compute: float) -> Observed:
    """Return what was observed where our communicator carries the gradients."""
    codec = marked_codec(first)
    coding = next(one for one in seen.codings if one.codec is codec)
    ranks = len(seen.ranks)
    if codec is not Codec.NONE and seen.nbytes and ranks > 1:
        times = 2 * (ranks - 1) / ranks if coding.sums else ranks - 1
        wire = fmean(one.get("wire", 0.0) for one in told)
        coding = replace(coding, ratio=wire / (times * seen.nbytes) or coding.ratio)
    exposed = fmean(one.moving for one in seen.ranks)
    if not (first.get("overlaps") or seen.stale):
        return replace(seen, coding=coding, whole=exposed)
    # Who comes last waits for nobody, neither do its buckets: its meeting is as slow as the link
    # that they have filled.
    least = min(one.waiting for one in seen.ranks)
    met = tuple(
        replace(one, waiting=one.waiting - least, moving=one.moving + least) for one in seen.ranks
    )
    seen, exposed = replace(seen, ranks=met), exposed + least
    whole = max(exposed, min(one.get("whole", exposed) for one in told))
    room = seen.delayed if seen.stale else seen.overlapped
    if seen.backward:
        # A bucket also waits for the others' gradients, which is no part of the exchange; so it
        # took between this and what was reported, where the model has it if the link was measured.
        whole = max(min(whole, exposed + room * compute), min(whole, _model(seen, coding)))
    hidden = _share(whole - exposed, compute)
    if exposed <= SHOWS * whole:  # there may have been room for more
        hidden = max(hidden, room)
    return replace(seen, coding=coding, whole=whole, hidden=hidden)


def _model(seen: Observed, coding: Coding) -> float:
    """Return the seconds of an exchange by the model; 0 where the link was not measured."""
    if seen.link is None:
        return 0.0
    ranks = len(seen.ranks)
    shape = WorldShape(seen.nodes, seen.link, max(1, ranks // seen.nodes), seen.memory)
    return exchanging(seen.nbytes, shape, coding=coding) + coding.seconds(seen.nbytes, ranks)


def _room(seen: Observed, told: Collection[Told]) -> float:
    """Return what each rank leaves of a core while it computes; at most all of one."""
    if not all("busy" in one for one in told):
        return 0.0
    per_node = max(1, len(seen.ranks) // seen.nodes)
    cores = min(one["cores"] for one in told)
    return max(0.0, min(1.0, cores / per_node - _mean(told, "busy")))


def _mean(told: Collection[Told], name: str) -> float:
    return fmean(one.get(name, 0.0) for one in told)


def _share(part: float, whole: float) -> float:
    return max(0.0, min(1.0, part / whole)) if whole else 0.0
