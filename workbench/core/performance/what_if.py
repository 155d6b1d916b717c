"""Predict a run's step time with one thing changed.

The measurements of the run scale the model of ``step_model``: an exchange that takes twice as long
as by the model also takes twice as long after a change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean, median_low

from workbench.core.performance.bandwidth import busbw
from workbench.core.performance.comparison import UNKNOWN_NOISE
from workbench.core.performance.exchange_model import CODINGS, MEMORY, PLAIN, Coding, Link
from workbench.core.performance.step_model import (
    DOUBLE_BUFFERED,
    EARLY,
    Step,
    Work,
    WorldShape,
    step,
)

_BOUNDLESS = 1e15


@dataclass(frozen=True)
class RankStep:
    """Mean seconds of a step on one rank.

    Args:
        waiting: Inside MPI, until the slowest rank came.
        moving: Inside MPI, from then on. If the two were not separated, all is here.
        passing: Inside MPI, in messages from one rank to another.
    """

    rank: int
    host: str
    compute: float
    waiting: float
    moving: float
    data: float = 0.0
    other: float = 0.0
    passing: float = 0.0

    @property
    def own(self) -> float:
        """Seconds of the rank's own work."""
        return self.compute + self.data + self.other

    @property
    def total(self) -> float:
        """Seconds from one step to the next."""
        return self.own + self.waiting + self.moving + self.passing


@dataclass(frozen=True)
class ObservedRun:
    """The measurements of a run.

    Args:
        nbytes: Of gradients, before any codec.
        batch: Examples per step of one rank.
        exchanges: Whether ranks exchange gradients; otherwise each trains its part of a model.
        messages: Number of pieces of the gradients.
        link: Between nodes, as measured; None if it was not.
        rating: The network's rating in bytes per second; 0 if unknown.
        hidden: Share of compute under which the exchange runs.
        coding: Of the gradients.
        ours: Whether our communicator carries them.
        stale: Whether updates use the gradients of the step before: double buffering.
        whole: Seconds of the exchange, including coding and the hidden part; 0 if unknown, when
            nothing is hidden.
        backward: Share of compute that is the backward pass.
        early: Share of the backward pass that is left when the first gradients can be sent.
        room: Share of a core that each rank leaves idle meanwhile: an exchange needs it to proceed.
        busy: Cores that a rank uses while it computes; 0 if unknown.
        cores: Per node; 0 if unknown.
        noise: Relative variation of a step's time within the run.
        codings: Codecs to consider, including none, as measured for this model on this machine.
    """

    ranks: tuple[RankStep, ...]
    nbytes: float
    nodes: int
    batch: float = 1.0
    exchanges: bool = True
    messages: int = 1
    link: Link | None = None
    memory: Link = MEMORY
    rating: float = 0.0
    hidden: float = 0.0
    coding: Coding = PLAIN
    ours: bool = False
    stale: bool = False
    whole: float = 0.0
    backward: float = 0.0
    early: float = EARLY
    room: float = 0.0
    busy: float = 0.0
    cores: float = 0.0
    noise: float = UNKNOWN_NOISE
    codings: tuple[Coding, ...] = CODINGS

    @property
    def crowd(self) -> int:
        """Ranks per node."""
        return max(1, len(self.ranks) // self.nodes)

    @property
    def overlapped(self) -> float:
        """Share of compute under which our communicator can send buckets."""
        return self.early * self.backward * self.room

    @property
    def delayed(self) -> float:
        """Share of compute under which double buffering runs the exchange."""
        return DOUBLE_BUFFERED * self.room


@dataclass(frozen=True)
class Change:
    """The changes of a remedy; the defaults change nothing.

    Args:
        bandwidth: Of the link, in bytes per second.
        batch: Factor on the examples per rank.
        nodes: Factor on the number of nodes.
        even: Whether no rank is slower than half of them any longer.
        loaded: Whether data is always ready in time.
        best: Whether the exchange takes no longer than by the model, whatever it takes now.
        ours: Whether our communicator carries the gradients.
        stale: Whether the optimizer gets the gradients of the step before.
    """

    coding: Coding | None = None
    bandwidth: float = 0.0
    messages: int = 0
    hidden: float | None = None
    batch: float = 1.0
    nodes: int = 1
    even: bool = False
    loaded: bool = False
    best: bool = False
    ours: bool = False
    stale: bool = False


def split_waiting(ranks: Iterable[RankStep]) -> tuple[RankStep, ...]:
    """Return the ranks with waiting and moving separated, if they were measured as one.

    The last rank does not wait, so its time in MPI is the time that all spend in moving.
    """
    ranks = tuple(ranks)
    if not ranks or any(one.waiting for one in ranks):
        return ranks
    moving = min(one.moving for one in ranks)
    return tuple(replace(one, waiting=one.moving - moving, moving=moving) for one in ranks)


def predict_seconds(observed: ObservedRun, change: Change) -> float:
    """Return the seconds of a step after a change, with the present waiting."""
    ranks = split_waiting(observed.ranks)
    seen = replace(observed, ranks=ranks)
    parts = parts_after(seen, change)
    waiting = fmean(one.waiting for one in ranks)
    return parts.total + (waiting_in_turn(ranks) if change.even else waiting)


def waiting_in_turn(ranks: tuple[RankStep, ...]) -> float:
    """Return the mean waiting that is not for one rank in particular.

    If one rank works longer in every step, all others wait for it; the rest is from steps in which
    another rank was late.
    """
    longest = max(one.own for one in ranks)
    return max(0.0, fmean(one.waiting - (longest - one.own) for one in ranks))


def speedup(observed: ObservedRun, change: Change) -> float:
    """Return the examples per second after a change, relative to now."""
    now = fmean(one.total for one in observed.ranks)
    return change.batch * change.nodes * now / predict_seconds(observed, change)


def parts_after(seen: ObservedRun, change: Change) -> Step:
    """Return a step by the model, with the exchange slower by the present factor."""
    now, work = _work(seen, Change()), _work(seen, change)
    took = _took(seen, now)
    encoding = seen.coding.seconds(seen.nbytes, len(seen.ranks))
    link = seen.link or _infer_link(seen, max(took.whole - encoding, took.whole / 2))
    shape = WorldShape(seen.nodes, link, max(1, len(seen.ranks) // seen.nodes), seen.memory)
    model = step(replace(now, hidden=0.0), shape, coding=seen.coding)
    # If coding takes most of it, the excess is not caused by moving.
    off = took.whole / (model.exchange + model.coding) if model.exchange else 1.0
    if model.exchange and not took.whole:  # all of it is hidden, and its duration is unknown
        off = min(1.0, seen.hidden * now.compute / model.exchange)
    coded = off * model.coding
    off = min(1.0, off) if change.best else off
    there = replace(
        shape,
        nodes=shape.nodes * change.nodes,
        link=replace(link, bandwidth=change.bandwidth or link.bandwidth),
    )
    coding = change.coding or seen.coding
    plain = step(replace(work, hidden=0.0), there, coding=coding)
    # A single rank exchanges nothing by the model; its time in MPI stays.
    exchange = off * plain.exchange + (0.0 if model.exchange else took.whole)
    if off < 1 and not change.best and plain.exchange > model.exchange > 0:
        # A burst that links allow after a pause is soon used up by more bytes.
        exchange = off * model.exchange + plain.exchange - model.exchange
    coded = coded if coding == seen.coding and change.nodes == 1 else plain.coding
    hidden = min(exchange + coded, work.hidden * work.compute)
    # The last bucket cannot be hidden, however much room there is.
    tail = took.tail * (exchange + coded) / took.whole if took.whole else 0.0
    exposed = exchange - min(exchange, hidden) + (tail if work.hidden else 0.0)
    coded -= max(0.0, hidden - exchange)
    return replace(plain, exchange=exchange, exposed=exposed, coding=coded)


@dataclass(frozen=True)
class _Took:
    """Seconds of the measured exchange: all of it, and the part that stayed exposed."""

    whole: float
    tail: float


def _took(seen: ObservedRun, now: Work) -> _Took:
    exposed = fmean(one.moving for one in seen.ranks)
    room = seen.hidden * now.compute
    # If a part of it is exposed, all the room for hiding was used.
    whole = max(exposed, seen.whole) if seen.whole else exposed + (room if exposed else 0.0)
    return _Took(whole, max(0.0, exposed - max(0.0, whole - room)))


def _work(seen: ObservedRun, change: Change) -> Work:
    own = median_low if change.even else fmean
    compute = own([one.compute for one in seen.ranks]) * change.batch
    data = own([one.data for one in seen.ranks])
    return Work(
        compute=compute,
        nbytes=seen.nbytes,
        batch=seen.batch,
        data=0.0 if change.loaded else data * change.batch,
        other=own([one.other for one in seen.ranks]) + fmean(one.passing for one in seen.ranks),
        messages=change.messages or seen.messages,
        hidden=seen.hidden if change.hidden is None else change.hidden,
    )


def _infer_link(seen: ObservedRun, took: float) -> Link:
    """Return the link that would explain the measured duration of the exchange."""
    wire = seen.nbytes * seen.coding.ratio
    bandwidth = busbw(wire, took, max(2, seen.nodes)) if took else 0.0
    return Link(0.0, bandwidth or seen.rating or _BOUNDLESS, _BOUNDLESS)
