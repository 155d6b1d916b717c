"""Predict a run's step time with one thing changed.

What was measured of the run scales the model of ``step_model``: an exchange that takes twice as
long as by the model takes twice as long by it after a change too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean, median_low

from workbench.core.performance.bandwidth import busbw
from workbench.core.performance.exchange_model import CODINGS, MEMORY, PLAIN, Coding, Link
from workbench.core.performance.noise import UNKNOWN_NOISE
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
        moving: Inside MPI, from then on. Where the two were not separated, all is here.
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
        """Seconds that the rank itself needs."""
        return self.compute + self.data + self.other

    @property
    def total(self) -> float:
        """Seconds from one step to the next."""
        return self.own + self.waiting + self.moving + self.passing


@dataclass(frozen=True)
class Observed:
    """What is known of a run.

    Args:
        nbytes: Of gradients, before any codec.
        batch: Examples of one rank's step.
        exchanges: Whether ranks exchange gradients; each trains its part of a model otherwise.
        messages: Pieces that the gradients go in.
        link: Between nodes, as measured; None where it was not.
        rating: Bytes a second that the nodes' network is rated at; 0 when unknown.
        hidden: Share of compute that the exchange goes on beneath.
        coding: What the gradients are turned into.
        ours: Whether our communicator carries them.
        stale: Whether updates use the gradients of the step before: double buffering.
        whole: Seconds that the exchange takes, coding and what is hidden included; 0 where it
            is unknown, as nothing is hidden there.
        backward: Share of compute that is the backward pass.
        early: Share of the backward pass that is left when the first gradients can leave.
        room: Of a core, what each rank leaves idle meanwhile: an exchange needs it to go on.
        busy: Cores that a rank keeps busy while it computes; 0 when unknown.
        cores: Of a node; 0 when unknown.
        noise: By how much, relatively, a step's time varies within the run.
        codings: Codecs to consider, plain included, as they are for this model on this machine.
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
        """Ranks of a node."""
        return max(1, len(self.ranks) // self.nodes)

    @property
    def overlapped(self) -> float:
        """Share of compute beneath which our communicator's buckets can leave."""
        return self.early * self.backward * self.room

    @property
    def delayed(self) -> float:
        """Share of compute beneath which double buffering has the exchange."""
        return DOUBLE_BUFFERED * self.room


@dataclass(frozen=True)
class Change:
    """What a remedy changes; nothing said is nothing changed.

    Args:
        bandwidth: Of the link, bytes a second.
        batch: Times as many examples a rank.
        nodes: Times as many.
        even: Whether no rank is slower than half of them are any longer.
        loaded: Whether data comes in time.
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


def told_apart(ranks: Iterable[RankStep]) -> tuple[RankStep, ...]:
    """Return the ranks with waiting and moving, where these were measured as one.

    Who comes last waits for nobody, so what it spends in MPI is what all spend in moving.
    """
    ranks = tuple(ranks)
    if not ranks or any(one.waiting for one in ranks):
        return ranks
    moving = min(one.moving for one in ranks)
    return tuple(replace(one, waiting=one.moving - moving, moving=moving) for one in ranks)


def expected(observed: Observed, change: Change) -> float:
    """Return the seconds of a step after a change, with the waiting that there is now."""
    ranks = told_apart(observed.ranks)
    seen = replace(observed, ranks=ranks)
    parts = parts_after(seen, change)
    waiting = fmean(one.waiting for one in ranks)
    return parts.total + (waiting_in_turn(ranks) if change.even else waiting)


def waiting_in_turn(ranks: tuple[RankStep, ...]) -> float:
    """Return the mean waiting that is for no rank in particular: now for this one, now for that.

    What one rank works longer in every step, all others wait for it; the rest is of steps in which
    another one was late.
    """
    longest = max(one.own for one in ranks)
    return max(0.0, fmean(one.waiting - (longest - one.own) for one in ranks))


def speedup(observed: Observed, change: Change) -> float:
    """Return examples a second after a change, as a multiple of today's."""
    now = fmean(one.total for one in observed.ranks)
    return change.batch * change.nodes * now / expected(observed, change)


def parts_after(seen: Observed, change: Change) -> Step:
    """Return a step by the model, with the exchange as much slower than by it as it is now."""
    now, work = _work(seen, Change()), _work(seen, change)
    took = _took(seen, now)
    encoding = seen.coding.seconds(seen.nbytes, len(seen.ranks))
    link = seen.link or _implied(seen, max(took.whole - encoding, took.whole / 2))
    shape = WorldShape(seen.nodes, link, max(1, len(seen.ranks) // seen.nodes), seen.memory)
    model = step(replace(now, hidden=0.0), shape, coding=seen.coding)
    # Where coding takes most of it, moving is not to blame for all that it took longer.
    off = took.whole / (model.exchange + model.coding) if model.exchange else 1.0
    if model.exchange and not took.whole:  # all of it is hidden, and its length is unknown
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
    # One rank that is alone exchanges nothing by the model; what it spends in MPI stays.
    exchange = off * plain.exchange + (0.0 if model.exchange else took.whole)
    if off < 1 and not change.best and plain.exchange > model.exchange > 0:
        # What passes at once after a pause, as links allow, is soon used up by more bytes.
        exchange = off * model.exchange + plain.exchange - model.exchange
    coded = coded if coding == seen.coding and change.nodes == 1 else plain.coding
    hidden = min(exchange + coded, work.hidden * work.compute)
    # What leaves last has nothing to hide beneath, whatever room there is.
    tail = took.tail * (exchange + coded) / took.whole if took.whole else 0.0
    exposed = exchange - min(exchange, hidden) + (tail if work.hidden else 0.0)
    coded -= max(0.0, hidden - exchange)
    return replace(plain, exchange=exchange, exposed=exposed, coding=coded)


@dataclass(frozen=True)
class _Took:
    """Seconds of an exchange as it was: all of it, and what stayed exposed for all the room."""

    whole: float
    tail: float


def _took(seen: Observed, now: Work) -> _Took:
    exposed = fmean(one.moving for one in seen.ranks)
    room = seen.hidden * now.compute
    # Where a step shows something of it, all the room there is was used.
    whole = max(exposed, seen.whole) if seen.whole else exposed + (room if exposed else 0.0)
    return _Took(whole, max(0.0, exposed - max(0.0, whole - room)))


def _work(seen: Observed, change: Change) -> Work:
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


def _implied(seen: Observed, took: float) -> Link:
    """Return the link that would explain how long the gradients take to move."""
    wire = seen.nbytes * seen.coding.ratio
    bandwidth = busbw(wire, took, max(2, seen.nodes)) if took else 0.0
    return Link(0.0, bandwidth or seen.rating or _BOUNDLESS, _BOUNDLESS)
