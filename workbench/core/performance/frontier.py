"""Compute time and cost of an epoch for node types, numbers of nodes and codecs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from workbench.core.fleet.connection_limits import pair_gbits
from workbench.core.fleet.cost import HOUR, Interruptions
from workbench.core.fleet.model import Offer
from workbench.core.fleet.offers import ranks_of, relative_speed
from workbench.core.performance.exchange_model import CARRIED, MEMORY, PLAIN, Codec, Coding, Link
from workbench.core.performance.scaling import (
    MEASURED,
    NOISE,
    RATED,
    WORTH,
    BatchPolicy,
    Forecast,
    Scaling,
    Timing,
    expect,
    fit,
)
from workbench.core.performance.step_grid import Array, GridTypes, step_seconds
from workbench.core.performance.step_model import Work, WorldShape

MOST_NODES = 64
LATENCY = 50e-6
# A further node pays while it gives at least half of its ideal gain.
PAYS = 0.5
# How much longer a step may take before gradients are sent with a lossy codec.
WORTH_CODING = 1.01
# The typical error of an estimate of another GPU's speed.
GUESSED = 0.4


@dataclass(frozen=True)
class MeasuredSizes:
    """Times of an epoch that were measured on several numbers of nodes.

    Args:
        type: Of the nodes.
        ranks: Per node.
        coding: Of the gradients.
        timings: Of two numbers of nodes or more.
    """

    type: str
    ranks: int
    coding: Coding
    timings: tuple[Timing, ...]

    def scaling(self, batch: BatchPolicy) -> Scaling:
        """Return the scaling model fitted to them."""
        return fit(self.timings, batch=batch, ranks_per_node=self.ranks)


@dataclass(frozen=True)
class Task:
    """The training, as measured on one node.

    Args:
        examples: Per epoch.
        gpu: Name of the GPU that ``work`` was measured on; empty for a CPU.
        correction: Measured factor on the model's time for communication.
        overlap: The largest share of compute under which an exchange may run, if that was not
            measured; else 0.
        sizes: What was measured on several numbers of nodes. It takes the place of the model on
            nodes of that type.
    """

    work: Work
    examples: float
    gpu: str = ""
    batch: BatchPolicy = BatchPolicy.PER_RANK
    correction: float = 1.0
    overlap: float = 0.0
    sizes: MeasuredSizes | None = None

    def scaling_on(self, offer: Offer) -> Scaling | None:
        """Return the scaling measured on such nodes, with as many ranks each; None without."""
        sizes = self.sizes
        if sizes is None or (sizes.type, sizes.ranks) != (offer.type, ranks_of(offer)):
            return None
        return sizes.scaling(self.batch)


@dataclass(frozen=True)
class Choice:
    """One configuration of nodes.

    Args:
        seconds: Per epoch, including interruptions; between ``low`` and ``high``.
        dollars: Per epoch.
        price: $/h of all nodes, with their disks and addresses.
        lost: Share of the time that interruptions take.
        guessed: Whether the GPU's speed is from its data sheet, and not measured.
    """

    type: str
    zone: str
    nodes: int
    ranks: int
    codec: Codec
    seconds: float
    low: float
    high: float
    dollars: float
    price: float
    lost: float = 0.0
    guessed: bool = False


@dataclass(frozen=True)
class TypeCurve:
    """One type of node, with the fastest codec at each size.

    Args:
        sizes: Numbers of nodes.
        stops: The number of nodes beyond which a further one gives less than half its ideal gain.
        fastest: The number of nodes with the shortest epoch.
        gains: Whether any number of nodes is clearly faster than one.
    """

    type: str
    zone: str
    price: float
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    dollars: tuple[float, ...]
    codecs: tuple[Codec, ...]
    stops: int
    fastest: int
    gains: bool
    guessed: bool = False


@dataclass(frozen=True)
class Frontier:
    """The configurations worth considering.

    Args:
        choices: Those without another that is both faster and cheaper; the fastest first.
        curves: One per type, that with the cheapest epoch first.
        left_out: What was not considered and why, a sentence each.
    """

    choices: tuple[Choice, ...]
    curves: tuple[TypeCurve, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Grid:
    """Seconds and dollars, shape (types, sizes); of the codec with that index."""

    offers: tuple[Offer, ...]
    sizes: NDArray[np.int64]
    seconds: Array
    dollars: Array
    codecs: NDArray[np.int64]
    lost: Array
    guessed: tuple[bool, ...] = field(default=())


def frontier(
    task: Task,
    offers: Iterable[Offer],
    *,
    most: int = MOST_NODES,
    codings: Sequence[Coding] = (PLAIN,),
    interruptions: Interruptions | None = None,
    measured: Mapping[str, float] | None = None,
) -> Frontier:
    """Return the Pareto-optimal configurations, and the curve of each type.

    Only the cheapest zone of a type is considered. There is one rank per GPU, or per core without.

    Args:
        most: The largest number of nodes.
        codings: Codecs to consider, including none.
        measured: Types whose links were measured, with their bytes per second; for the others, the
            sustained rate of a pair is used.
    """
    measured = measured or {}
    kept, speeds, left_out = _fitting(task, offers)
    if not kept or most < 1:
        return Frontier((), (), tuple(left_out))
    lost = interruptions or Interruptions()
    sizes = np.arange(1, most + 1)
    types = GridTypes(
        np.array([measured.get(one.type, CARRIED * pair_gbits(one) * 1e9 / 8) for one in kept]),
        np.array([ranks_of(offer) for offer in kept]),
        np.array([speed for speed, _ in speeds]),
    )
    grid = _grid(task, kept, types, sizes, tuple(codings), lost)
    grid = replace(grid, guessed=tuple(guessed for _, guessed in speeds))
    chosen = _find_undominated(grid)
    choices = tuple(
        _choice(task, grid, types, (row, column), codings, measured) for row, column in chosen
    )
    curves = sorted(
        (_curve(grid, row, codings) for row in range(len(kept))),
        key=lambda one: (min(one.dollars), min(one.seconds)),
    )
    return Frontier(choices, tuple(curves), tuple(left_out))


def _fitting(
    task: Task, offers: Iterable[Offer]
) -> tuple[tuple[Offer, ...], list[tuple[float, bool]], list[str]]:
    """Return the cheapest offer of each type that can be modelled, with its speed; and the rest."""
    kept, speeds = [], []
    unknown, unrated, beyond = [], [], []
    for offer in cheapest_zones(offers):
        speed = relative_speed(offer.gpu if offer.gpus else "", task.gpu)
        if speed is None:
            unknown.append(offer.type)
        elif not offer.network:
            unrated.append(offer.type)
        elif limit_nodes(offer) < 1 or (
            task.batch is BatchPolicy.TOTAL and ranks_of(offer) > task.work.batch
        ):
            beyond.append(offer.type)
        else:
            kept.append(offer)
            speeds.append((speed, offer.gpus > 0 and offer.gpu != task.gpu))
    return tuple(kept), speeds, _format_left_out(task, unknown, unrated, beyond)


def cheapest_zones(offers: Iterable[Offer]) -> Iterable[Offer]:
    """Return the cheapest offer of each type."""
    cheapest: dict[str, Offer] = {}
    for offer in sorted(offers, key=lambda one: (one.hour, one.zone)):
        cheapest.setdefault(offer.type, offer)
    return cheapest.values()


def _format_left_out(
    task: Task, unknown: Sequence[str], unrated: Sequence[str], beyond: Sequence[str]
) -> list[str]:
    sentences = []
    if unknown:
        on = f"a {task.gpu}" if task.gpu else "a CPU"
        sentences.append(
            f"{_names(unknown)}: the step was measured on {on}, which says nothing of these; "
            "measure one there."
        )
    if unrated:
        sentences.append(f"{_names(unrated)}: no sustained network rate is known.")
    if beyond:
        sentences.append(f"{_names(beyond)}: not even one fits the quota, or the batch.")
    return sentences


def _names(types: Sequence[str]) -> str:
    shown = ", ".join(sorted(types)[:3])
    return f"{shown} and {len(types) - 3} more" if len(types) > 3 else shown


def _grid(
    task: Task,
    offers: tuple[Offer, ...],
    types: GridTypes,
    sizes: NDArray[np.int64],
    codings: tuple[Coding, ...],
    interruptions: Interruptions,
) -> _Grid:
    ranks = types.ranks[:, None] * sizes[None, :]
    total = task.batch is BatchPolicy.TOTAL
    batch = np.asarray(task.work.batch / ranks) if total else None

    def steps_with(coding: Coding) -> Array:
        own, whole = step_seconds(
            task.work, types, sizes, Link(LATENCY, 1.0), MEMORY, coding=coding, batch=batch
        )
        return own + task.correction * (whole - own)

    count = task.examples / task.work.batch / (1 if total else ranks)
    steps = np.stack([steps_with(coding) for coding in codings])
    for row, offer in enumerate(offers):
        if (scaling := task.scaling_on(offer)) is not None and task.sizes is not None:
            modelled = (count * steps_with(task.sizes.coding))[row]
            steps[:, row] *= scaling.seconds(sizes) / modelled
    # The first codec that is as fast: a lossy one is not worth a hundredth of the time.
    codecs = (steps <= WORTH_CODING * steps.min(axis=0)).argmax(axis=0)
    step = np.take_along_axis(steps, codecs[None], axis=0)[0]
    lost = np.broadcast_to(sizes * interruptions.share_lost(1), step.shape)
    seconds = count * step * (1 + lost)
    # No more nodes than the quota allows, and at least one example per rank.
    allowed = np.array([limit_nodes(offer) for offer in offers])
    there = sizes[None, :] <= allowed[:, None]
    if total:
        there = there & (ranks <= task.work.batch)
    seconds = np.where(there, seconds, np.inf)
    prices = np.array([offer.hour for offer in offers])
    dollars = np.where(there, seconds * sizes[None, :] * prices[:, None] / HOUR, np.inf)
    return _Grid(offers, sizes, seconds, dollars, codecs, lost)


def limit_nodes(offer: Offer) -> float:
    """Return the most nodes of a type that its quota allows."""
    if offer.quota is None or not offer.vcpus:
        return float("inf")
    return offer.quota // offer.vcpus


def _find_undominated(grid: _Grid) -> list[tuple[int, int]]:
    """Return the indices that no other beats in speed and price, the fastest first."""
    # Values that differ by rounding alone are equal.
    seconds, dollars = (part.ravel().astype(np.float32) for part in (grid.seconds, grid.dollars))
    nodes = np.broadcast_to(grid.sizes, grid.seconds.shape).ravel()
    order = np.lexsort((nodes, dollars, seconds))
    order = order[np.isfinite(seconds[order])]
    if not len(order):
        return []
    cheapest = np.minimum.accumulate(dollars[order])
    better = np.concatenate([[True], cheapest[1:] < cheapest[:-1]])
    rows, columns = np.unravel_index(order[better], grid.seconds.shape)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _choice(
    task: Task,
    grid: _Grid,
    types: GridTypes,
    place: tuple[int, int],
    codings: Sequence[Coding],
    measured: Mapping[str, float],
) -> Choice:
    row, column = place
    offer, nodes = grid.offers[row], int(grid.sizes[column])
    speed, per_node = float(types.speed[row]), ranks_of(offer)
    coding = codings[grid.codecs[row, column]]
    scaling = task.scaling_on(offer)
    band = scaling.epoch(nodes) if scaling else _model_epoch(
        task, offer, nodes, coding, speed=speed, guessed=grid.guessed[row],
        measured=measured,
    )  # fmt: skip
    seconds = float(grid.seconds[row, column])
    low, high = _move_band(band, seconds)
    return Choice(
        type=offer.type,
        zone=offer.zone,
        nodes=nodes,
        ranks=nodes * per_node,
        codec=coding.codec,
        seconds=seconds,
        low=low,
        high=high,
        dollars=float(grid.dollars[row, column]),
        price=nodes * offer.hour,
        lost=float(grid.lost[row, column]),
        guessed=grid.guessed[row],
    )


def forecast(
    task: Task,
    offer: Offer,
    nodes: int,
    coding: Coding,
    *,
    measured: Mapping[str, float] | None = None,
) -> Forecast | None:
    """Return the seconds of an epoch on nodes of one type, without interruptions.

    Args:
        measured: See ``frontier``.

    Returns:
        None if the type cannot be modelled.
    """
    speed = relative_speed(offer.gpu if offer.gpus else "", task.gpu)
    is_linked = nodes == 1 or offer.network or offer.type in (measured or {})
    if speed is None or not is_linked:
        return None
    steps = task.examples / task.work.batch
    steps /= 1 if task.batch is BatchPolicy.TOTAL else nodes * ranks_of(offer)
    work = _on(task.work, speed)
    alone = (
        work.computing(work.batch / (nodes * ranks_of(offer)))
        if task.batch is BatchPolicy.TOTAL
        else work.compute
    )
    own = steps * (alone + work.data + work.other)
    modelled = partial(
        _model_epoch, task, offer, nodes, speed=speed,
        guessed=offer.gpus > 0 and offer.gpu != task.gpu, measured=measured or {},
    )  # fmt: skip
    band = modelled(coding)
    seconds = own + task.correction * (band.seconds - own)
    if (scaling := task.scaling_on(offer)) is not None and task.sizes is not None:
        band = scaling.epoch(nodes)
        same = own + task.correction * (modelled(task.sizes.coding).seconds - own)
        seconds *= band.seconds / same
    low, high = _move_band(band, seconds)
    return Forecast(nodes, seconds, low, high)


def _on(work: Work, speed: float) -> Work:
    """Return a rank's work with all compute faster by a factor."""
    return replace(work, compute=work.compute / speed)


def _model_epoch(
    task: Task,
    offer: Offer,
    nodes: int,
    coding: Coding,
    *,
    speed: float,
    guessed: bool,
    measured: Mapping[str, float],
) -> Forecast:
    """Return the seconds of an epoch by the model, without corrections."""
    bandwidth = measured.get(offer.type, CARRIED * pair_gbits(offer) * 1e9 / 8)
    return expect(
        _on(task.work, speed),
        WorldShape(nodes, Link(LATENCY, bandwidth), ranks_of(offer)),
        task.examples,
        batch=task.batch,
        coding=coding,
        tolerance=MEASURED if offer.type in measured else RATED,
        noise=GUESSED / 2 if guessed else NOISE,
        overlap=task.overlap,
    )


def _move_band(band: Forecast, seconds: float) -> tuple[float, float]:
    """Return a band of the same relative width about a corrected centre."""
    return seconds * band.low / band.seconds, seconds * band.high / band.seconds


def _curve(grid: _Grid, row: int, codings: Sequence[Coding]) -> TypeCurve:
    there = np.isfinite(grid.seconds[row])
    seconds, sizes = grid.seconds[row][there], grid.sizes[there]
    offer = grid.offers[row]
    return TypeCurve(
        type=offer.type,
        zone=offer.zone,
        price=offer.hour,
        sizes=tuple(sizes.tolist()),
        seconds=tuple(seconds.tolist()),
        dollars=tuple(grid.dollars[row][there].tolist()),
        codecs=tuple(codings[place].codec for place in grid.codecs[row][there]),
        stops=stops_at(seconds, sizes),
        fastest=int(sizes[seconds.argmin()]),
        gains=bool(seconds[0] >= WORTH * seconds.min()),
        guessed=grid.guessed[row],
    )


def stops_at(seconds: Array, sizes: NDArray[np.int64]) -> int:
    """Return the number of nodes up to which each further one gives half its ideal gain or more.

    The ideal gain of the node after ``n`` is ``1/n`` more examples per second. Four nodes may gain
    what two nodes lose, so the last such number counts.
    """
    rates = 1 / np.asarray(seconds)
    brought = (rates[1:] / rates[:-1] - 1) * sizes[:-1]
    best = np.maximum.accumulate(rates)
    paying = np.flatnonzero((brought >= PAYS) & (rates[1:] >= best[:-1]))
    return int(sizes[paying[-1] + 1]) if len(paying) else int(sizes[0])
