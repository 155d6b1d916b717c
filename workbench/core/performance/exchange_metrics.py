"""Decode the metrics that ranks report of their gradient exchange: overlap and compression."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from statistics import fmean

from workbench.core.performance.exchange_model import CODINGS, Codec, Coding, read_codec
from workbench.core.performance.step_model import EARLY, WorldShape, exchanging
from workbench.core.performance.what_if import ObservedRun

# If more than this share of an exchange is exposed, everything that could be hidden was.
SHOWS = 0.1

Report = Mapping[str, float]


def add_exchange(seen: ObservedRun, reports: Collection[Report]) -> ObservedRun:
    """Return the observed run, extended by the ranks' reports on exchange and model.

    Args:
        reports: For each rank, by the names of ``workbench.engine.timing.step_time``.
    """
    if not reports:
        return seen
    first = next(iter(reports))
    compute = fmean(one.compute for one in seen.ranks)
    codings = codings_of(first)
    seen = replace(
        seen,
        backward=_share(_mean(reports, "backward"), compute),
        early=fmean(one.get("early", EARLY) for one in reports),
        room=_room(seen, reports),
        busy=_mean(reports, "busy"),
        cores=min(one.get("cores", 0.0) for one in reports),
        codings=codings,
        ours=read_codec(first) is not None,
        stale=bool(first.get("delayed")),
    )
    return (
        _add_traffic(seen, reports, first, compute) if seen.ours or first.get("overlaps") else seen
    )


def codings_of(report: Report) -> tuple[Coding, ...]:
    """Return the codecs as measured for the model and on the machine of a rank."""
    small = report.get("small", 0.0)
    return tuple(_coding(one, small, report) for one in CODINGS)


def _coding(usual: Coding, small: float, report: Report) -> Coding:
    if usual.codec is Codec.NONE:
        return usual
    ratio = small + (1 - small) * usual.ratio
    if usual.codec is Codec.POWERSGD:
        ratio = report.get("powersgd", usual.ratio)
    cost = report.get(f"cost {usual.codec}", usual.encode + usual.decode)
    # The share of decoding matters if each rank decodes the messages of all others.
    decode = cost * usual.decode / (usual.encode + usual.decode)
    return replace(usual, ratio=ratio, encode=cost - decode, decode=decode)


def _add_traffic(
    seen: ObservedRun, reports: Collection[Report], first: Report, compute: float
) -> ObservedRun:
    """Return the observed run if the way in which its gradients travel is known."""
    codec = read_codec(first) or Codec.NONE
    coding = next(one for one in seen.codings if one.codec is codec)
    ranks = len(seen.ranks)
    if codec is not Codec.NONE and seen.nbytes and ranks > 1:
        times = 2 * (ranks - 1) / ranks if coding.sums else ranks - 1
        wire = fmean(one.get("wire", 0.0) for one in reports)
        coding = replace(coding, ratio=wire / (times * seen.nbytes) or coding.ratio)
    exposed = fmean(one.moving for one in seen.ranks)
    if not (first.get("overlaps") or seen.stale):
        return replace(seen, coding=coding, whole=exposed)
    # The last rank does not wait, and its buckets do not either: its exchange is as slow as the
    # link that they have filled.
    least = min(one.waiting for one in seen.ranks)
    met = tuple(
        replace(one, waiting=one.waiting - least, moving=one.moving + least) for one in seen.ranks
    )
    seen, exposed = replace(seen, ranks=met), exposed + least
    whole = max(exposed, min(one.get("whole", exposed) for one in reports))
    room = seen.delayed if seen.stale else seen.overlapped
    if seen.backward:
        # A bucket also waits for the others' gradients, which is not part of the exchange. So the
        # exchange took between this and the report: by the model, if the link was measured.
        whole = max(min(whole, exposed + room * compute), min(whole, _model(seen, coding)))
    hidden = _share(whole - exposed, compute)
    if exposed <= SHOWS * whole:  # more could perhaps have been hidden
        hidden = max(hidden, room)
    return replace(seen, coding=coding, whole=whole, hidden=hidden)


def _model(seen: ObservedRun, coding: Coding) -> float:
    """Return the seconds of an exchange by the model; 0 if the link was not measured."""
    if seen.link is None:
        return 0.0
    ranks = len(seen.ranks)
    shape = WorldShape(seen.nodes, seen.link, max(1, ranks // seen.nodes), seen.memory)
    return exchanging(seen.nbytes, shape, coding=coding) + coding.seconds(seen.nbytes, ranks)


def _room(seen: ObservedRun, reports: Collection[Report]) -> float:
    """Return the share of a core that each rank leaves idle while it computes, at most 1."""
    if not all("busy" in one for one in reports):
        return 0.0
    per_node = max(1, len(seen.ranks) // seen.nodes)
    cores = min(one["cores"] for one in reports)
    return max(0.0, min(1.0, cores / per_node - _mean(reports, "busy")))


def _mean(reports: Collection[Report], name: str) -> float:
    return fmean(one.get(name, 0.0) for one in reports)


def _share(part: float, whole: float) -> float:
    return max(0.0, min(1.0, part / whole)) if whole else 0.0
