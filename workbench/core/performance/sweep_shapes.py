"""Compare the ways to divide ranks among the trials of a sweep: time and money of each.

Ranks that are enough for many trials side by side can also work on one trial after another, which
is data parallelism. Trials side by side exchange nothing, and each waits for no other one; but the
ranks of the last ones idle while the others end, and the first result comes late. How long a trial
takes on several ranks is the plan's model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.core.fleet.cost import HOUR, Interruptions
from workbench.core.fleet.model import Offer
from workbench.core.fleet.offers import ranks_of
from workbench.core.performance.exchange_model import PLAIN, Codec, Coding
from workbench.core.performance.frontier import (
    MOST_NODES,
    WORTH_CODING,
    Task,
    cheapest_zones,
    forecast,
    limit_nodes,
)
from workbench.core.performance.scaling import BatchPolicy, Forecast


@dataclass(frozen=True)
class SweepTask:
    """The trials to plan for.

    Args:
        each: The training of one trial; its examples are those of all its epochs.
        outside: Seconds of a trial outside its steps, whatever its ranks.
    """

    each: Task
    trials: int
    outside: float = 0.0


@dataclass(frozen=True)
class SweepShape:
    """One way to run the trials.

    Args:
        at_once: Trials side by side.
        ranks: Of each of them.
        nodes: Of all, until the last trial has ended.
        trial: Seconds of one trial, after which there is a first result.
        seconds: Of all trials, including interruptions; between ``low`` and ``high``.
        dollars: Of all trials.
        idle: Share of the ranks' time in which they have no trial.
    """

    type: str
    zone: str
    nodes: int
    at_once: int
    ranks: int
    codec: Codec
    trial: float
    seconds: float
    low: float
    high: float
    dollars: float
    idle: float


def find_shapes(
    sweep: SweepTask,
    offers: Iterable[Offer],
    *,
    most: int = 0,
    codings: Sequence[Coding] = (PLAIN,),
    interruptions: Interruptions | None = None,
    measured: Mapping[str, float] | None = None,
) -> tuple[SweepShape, ...]:
    """Return the shapes on each type, from many small trials at once to one on all ranks.

    An interruption costs only the trial whose node it takes.

    Args:
        most: The largest number of nodes; 0 for as many as trials of one rank need.
        codings: See ``frontier``, as for ``measured``.
    """
    lost, links = interruptions or Interruptions(), measured or {}
    found = []
    for offer in cheapest_zones(offers):
        per_node = ranks_of(offer)
        nodes = min(most or MOST_NODES, limit_nodes(offer))
        if not most:
            nodes = min(nodes, math.ceil(sweep.trials / per_node))
        for ranks in _sizes(per_node, int(nodes)):
            if sweep.each.batch is BatchPolicy.TOTAL and ranks > sweep.each.work.batch:
                continue
            if (best := _forecast_trial(sweep.each, offer, ranks, codings, links)) is not None:
                found.append(_shape(sweep, offer, int(nodes), ranks, *best, lost))
    return tuple(found)


def choose_shape(shapes: Iterable[SweepShape]) -> SweepShape | None:
    """Return the shape with the least product of time and money, as a plan of one run does."""
    return min(
        shapes, key=lambda one: (one.seconds * one.dollars, one.seconds, one.ranks), default=None
    )


def _sizes(per_node: int, nodes: int) -> list[int]:
    """Return the numbers of ranks that a trial may have: parts of a node, or whole nodes."""
    if nodes < 1:
        return []
    parts = {1 << place for place in range(per_node.bit_length()) if 1 << place <= per_node}
    wholes = {per_node << place for place in range(nodes.bit_length()) if 1 << place <= nodes}
    return sorted(parts | wholes | {per_node * nodes})


def _forecast_trial(
    task: Task, offer: Offer, ranks: int, codings: Sequence[Coding], links: Mapping[str, float]
) -> tuple[Forecast, Coding] | None:
    """Return the seconds of a trial without interruptions, and the codec that it needs for that."""
    nodes = max(1, ranks // ranks_of(offer))
    there = replace(offer, slots=min(ranks, ranks_of(offer)))
    tried = codings if nodes > 1 else (PLAIN,)
    known = [(forecast(task, there, nodes, one, measured=links), one) for one in tried]
    found = [(band, one) for band, one in known if band is not None]
    least = min((band.seconds for band, _ in found), default=0.0)
    return next((one for one in found if one[0].seconds <= WORTH_CODING * least), None)


def _shape(
    sweep: SweepTask,
    offer: Offer,
    most: int,
    ranks: int,
    band: Forecast,
    coding: Coding,
    interruptions: Interruptions,
) -> SweepShape:
    per_node = ranks_of(offer)
    beside = most * (per_node // ranks) if ranks < per_node else most * per_node // ranks
    waves = math.ceil(sweep.trials / beside)
    at_once = math.ceil(sweep.trials / waves)  # with fewer ranks, which take as long
    nodes = math.ceil(at_once / max(1, per_node // ranks)) * band.nodes
    lost = 1 + interruptions.share_lost(band.nodes)
    trial, low, high = (one * lost + sweep.outside for one in (band.seconds, band.low, band.high))
    return SweepShape(
        type=offer.type,
        zone=offer.zone,
        nodes=nodes,
        at_once=at_once,
        ranks=ranks,
        codec=coding.codec,
        trial=trial,
        seconds=waves * trial,
        low=waves * low,
        high=waves * high,
        dollars=waves * trial * nodes * offer.hour / HOUR,
        idle=1 - sweep.trials * ranks / (waves * nodes * per_node),
    )
