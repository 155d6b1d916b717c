"""Plans: predicted time and cost of training on a provider's offers, as tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from workbench.analysis.observation import survey_of
from workbench.analysis.plan_inputs import HERE, ITERATIONS, PlanAssumptions, PlanBasis
from workbench.analysis.prediction_record import here, here_sentence, of_offers, type_of
from workbench.analysis.predictions import alike, timings_of
from workbench.core.fleet.cost import Interruptions
from workbench.core.fleet.model import Node, Offer
from workbench.core.performance.exchange_model import CODINGS, PLAIN, Codec, Coding
from workbench.core.performance.frontier import (
    MOST_NODES,
    Choice,
    Frontier,
    MeasuredSizes,
    Task,
    TypeCurve,
    frontier,
)
from workbench.core.performance.prediction import Forecasts, Predictor
from workbench.core.performance.scaling import BatchPolicy
from workbench.core.performance.step_model import OVERLAPPED
from workbench.core.units import count, gbits, percent_of, rank_numbers, size_text
from workbench.store import Store
from workbench.view.tables.listing import Table
from workbench.view.text import dollars, duration, number

MOST_CHOICES = 12
MOST_CURVES = 8
BEST = "Best choices (Pareto frontier of time and cost)"
PAYING = "Each type, and the number of nodes up to which adding one pays"
# The correction is mentioned if it changes communication by more than this factor.
NOTICEABLE = 0.01


@dataclass(frozen=True)
class TrainingPlan:
    """A frontier, and its assumptions.

    Args:
        says: The assumptions, a sentence each.
        unit: What is charged in place of $; empty otherwise.
    """

    task: Task
    frontier: Frontier
    says: tuple[str, ...]
    unit: str = ""

    @property
    def money(self) -> str:
        """What is charged, as the head of a column."""
        return self.unit or "$"


class Assumed(NamedTuple):
    """What a plan assumes: the task, the measured links, and the codecs to consider."""

    task: Task
    links: dict[str, float]
    codings: Sequence[Coding]


def assume(
    store: Store, asked: PlanAssumptions, basis: PlanBasis, offers: Sequence[Offer]
) -> Assumed:
    """Return what a plan on these offers assumes."""
    ranks = len(basis.observed.ranks) if basis.observed else 1
    work = basis.work
    if asked.total:  # the work of all ranks together, on one
        work = replace(work, batch=work.batch * ranks, compute=work.compute * ranks)
    gpu = asked.gpu or _gpu(basis.nodes, offers)
    hidden, overlap = (0.0, 0.0) if asked.plain else _find_overlap(basis, gpu)
    task = Task(
        replace(work, hidden=hidden),
        basis.examples,
        gpu,
        BatchPolicy.TOTAL if asked.total else BatchPolicy.PER_RANK,
        basis.correction.factor,
        overlap,
        _sizes(store, asked, basis, offers),
    )
    codings = basis.observed.codings if basis.observed else CODINGS
    return Assumed(task, _links(store, basis), (PLAIN,) if asked.plain else codings)


def plan(
    store: Store,
    asked: PlanAssumptions,
    basis: PlanBasis,
    offers: Sequence[Offer],
    unit: str = "",
) -> TrainingPlan:
    """Return the predicted time and cost of training on these offers; see ``TrainingPlan``."""
    task, links, codings = assume(store, asked, basis, offers)
    found = frontier(
        task,
        offers,
        most=asked.max_nodes or MOST_NODES,
        codings=codings,
        interruptions=Interruptions(asked.interruptions),
        measured=links,
    )
    says = [*explain_basis(asked, basis, task, links)]
    predicted = []
    if basis.run is not None and basis.observed is not None and not asked.total:
        predicted = here(store, basis.run, basis.observed)
        if predicted:
            says.insert(1, here_sentence(predicted, basis.run, basis.examples / basis.work.batch))
    predicted += of_offers(task, found, offers, codings, ours=not asked.plain, measured=links)
    source = basis.run.id if basis.run else ""
    store.surveys.keep_forecasts(
        asked.cluster, Forecasts(Predictor.PLAN, source, time.time(), tuple(predicted))
    )
    return TrainingPlan(task, found, tuple(says), unit)


def _find_overlap(basis: PlanBasis, gpu: str) -> tuple[float, float]:
    """Return the share of compute that overlaps with our communicator's exchange.

    Returns:
        The share to plan with, and the largest possible one, or 0 if it was measured.
    """
    seen = basis.observed
    if seen is not None and seen.backward:
        return max(seen.hidden, seen.overlapped), 0.0
    if basis.work.hidden or not gpu:
        return basis.work.hidden, 0.0
    return OVERLAPPED / 2, OVERLAPPED


def _sizes(
    store: Store, asked: PlanAssumptions, basis: PlanBasis, offers: Sequence[Offer]
) -> MeasuredSizes | None:
    """Return the times that were measured on several numbers of nodes; None without."""
    run, seen = basis.run, basis.observed
    if run is None or seen is None or seen.ours == asked.plain or asked.changes_work:
        return None
    type_ = type_of(basis.nodes) or next((one.type for one in offers if one.zone == HERE), "")
    timings = timings_of(alike(store, run), seen, basis.examples, total=asked.total)
    if not type_ or len({one.nodes for one in timings}) < 2:
        return None
    return MeasuredSizes(type_, seen.crowd, seen.coding, timings)


def _gpu(nodes: Sequence[Node], offers: Sequence[Offer]) -> str:
    """Return the GPU of the cluster's nodes, if their type is among the offers."""
    types = {node.type for node in nodes if node.type}
    return next((offer.gpu for offer in offers if offer.type in types and offer.gpus), "")


def _links(store: Store, basis: PlanBasis) -> dict[str, float]:
    """Return the measured bytes per second between nodes of each type."""
    types = {node.type for node in basis.nodes if node.type}
    if basis.run is None or len(types) != 1:
        return {}
    survey = survey_of(store, basis.run, set())
    link = survey.link() if survey else None
    return {types.pop(): link.bandwidth} if link else {}


def explain_basis(
    asked: PlanAssumptions, basis: PlanBasis, task: Task, links: Mapping[str, float]
) -> Iterator[str]:
    """Yield the assumptions of a plan, a sentence each."""
    work, on = basis.work, task.gpu or "a CPU"
    source = f"run {basis.run.wish.name}" if basis.run else "the given options"
    yield (
        f"By {source}: a rank computes {duration(work.compute)} a step of "
        f"{count(round(work.batch), 'example')} on {on}, and exchanges "
        f"{size_text(work.nbytes)} of gradients."
    )
    if task.overlap:
        yield (
            "How much of an exchange overlaps with a step's compute was not measured: "
            f"{percent_of(task.work.hidden)} is assumed, and 0 to {percent_of(task.overlap)} for "
            "the likely ranges. Train on two nodes to measure it (--plain plans without overlap "
            "and compression)."
        )
    elif task.work.hidden:
        yield (
            f"An exchange of our communicator overlaps with {percent_of(task.work.hidden)} of a "
            "step's compute (--plain plans without this and without compression)."
        )
    if not basis.exact and not asked.sweep:
        yield (
            f"The number of examples in an epoch is unknown; {ITERATIONS:,} iterations of one rank "
            "are assumed (set it with --examples N)."
        )
    yield from _explain_sizes(asked, basis, task, links)
    for type_, bandwidth in links.items():
        yield f"The measured bandwidth between nodes of type {type_} is {gbits(bandwidth)} Gbit/s."
    if abs(basis.correction.factor - 1) >= NOTICEABLE:
        yield (
            f"Communication took {basis.correction.factor:.2f} times as long as the model says in "
            f"{count(basis.correction.count, 'run')} before; this is assumed again."
        )
    if asked.interruptions:
        yield (
            f"A node is taken back {asked.interruptions:g} times an hour (--interruptions R says "
            "otherwise), and each time a minute is lost."
        )


def _explain_sizes(
    asked: PlanAssumptions, basis: PlanBasis, task: Task, links: Mapping[str, float]
) -> Iterator[str]:
    sizes, seen = task.sizes, basis.observed
    if sizes is not None:
        nodes = sorted({one.nodes for one in sizes.timings})
        yield (
            f"Training was measured on {rank_numbers(nodes)} nodes of type "
            f"{sizes.type}; the times on other numbers of them follow from these."
        )
        for one in sizes.scaling(task.batch).doubtful:
            yield (
                f"The time on {count(one, 'node')} does not fit the others and counts little; "
                "train there again."
            )
    elif not links and asked.max_nodes != 1 and (seen is None or seen.nodes == 1):
        yield (
            "Nothing was measured between nodes: times on several follow from the rated bandwidth. "
            "Train on two nodes, or run `workbench bandwidth` there, before you rent many."
        )


def recommendation(found: TrainingPlan) -> str:
    """Return what to rent in one sentence; empty without a choice."""
    best = recommend(found.frontier.curves)
    if best is None:
        return ""
    how = "" if best.codec is Codec.NONE else f" with `--compress {best.codec}`"
    return (
        f"Recommended: {best.nodes} × {best.type}{how}, {duration(best.seconds)} and "
        f"{dollars(best.dollars, found.unit)} an epoch; {best.further}."
    )


def scale(seconds: Sequence[float]) -> tuple[str, float]:
    """Return the unit for all of ``seconds``, and its length: the shortest is at least one unit."""
    least = min(seconds, default=1.0)
    units = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 0.001))
    return next((one for one in units if least >= one[1]), units[-1])


def frontier_table(found: TrainingPlan) -> Table:
    """Return the table of best choices, fastest first: no other is both faster and cheaper."""
    chosen = thin_choices(found.frontier.choices)
    unit, size = scale([one.seconds for one in chosen])
    headers = (
        "nodes", "type", "gradients", f"epoch, {unit}", f"likely range, {unit}",
        f"epoch, {found.money}", f"price, {found.money}/h", "lost to interruptions, %",
    )  # fmt: skip
    return Table(headers, tuple(_row(one, size) for one in chosen))


def thin_choices(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return a few of many choices, evenly spaced, with both ends."""
    if len(choices) <= MOST_CHOICES:
        return tuple(choices)
    last = len(choices) - 1
    places = {round(place * last / (MOST_CHOICES - 1)) for place in range(MOST_CHOICES)}
    return tuple(choices[place] for place in sorted(places))


def _row(one: Choice, size: float) -> tuple[str, ...]:
    low, high = (number(seconds / size, 3) for seconds in (one.low, one.high))
    return (
        str(one.nodes),
        f"{one.type} in {one.zone}" + (" (guessed)" if one.guessed else ""),
        "uncompressed" if one.codec is Codec.NONE else str(one.codec),
        number(one.seconds / size, 3),
        f"{low}–{high}",
        _cost(one.dollars),
        dollars(one.price).removeprefix("$"),
        number(100 * one.lost, 2),
    )


def curves_table(found: TrainingPlan) -> Table:
    """Return the table of types with the number of nodes that pays, cheapest epoch first."""
    curves = found.frontier.curves[:MOST_CURVES]
    unit, size = scale([min(one.seconds) for one in curves])
    cost = f"epoch, {found.money}"
    headers = (
        "type", f"1 node: epoch, {unit}", cost, "nodes that pay", f"epoch, {unit}", cost,
        "fastest: nodes", f"epoch, {unit}", cost,
    )  # fmt: skip
    return Table(headers, tuple(_curve_row(one, size) for one in curves))


def _curve_row(one: TypeCurve, size: float) -> tuple[str, ...]:
    def epoch(nodes: int) -> tuple[str, str]:
        at = one.sizes.index(nodes)
        return number(one.seconds[at] / size, 3), _cost(one.dollars[at])

    pays = one.stops if one.gains else one.sizes[0]
    return (
        one.type + (" (guessed)" if one.guessed else ""),
        *epoch(one.sizes[0]),
        str(pays),
        *epoch(pays),
        str(one.fastest),
        *epoch(one.fastest),
    )


def _cost(amount: float) -> str:
    """Return $ of an epoch, in three digits, because choices differ by little."""
    return number(amount, 3)


def plan_message(found: TrainingPlan) -> dict[str, Any]:
    """Return the plan as JSON values."""
    return {
        "recommendation": recommendation(found),
        "says": list(found.says),
        "task": asdict(found.task),
        "choices": [asdict(one) for one in found.frontier.choices],
        "types": [asdict(one) for one in found.frontier.curves],
        "left_out": list(found.frontier.left_out),
        "unit": found.money,
    }


class FurtherNodes(StrEnum):
    """The effect of more nodes than the recommended number."""

    UNPAID = "more stop paying"
    USELESS = "more bring no gain"
    UNKNOWN = "more may pay, and `--max-nodes` plans for more"


@dataclass(frozen=True)
class Recommendation:
    """A recommended configuration for training.

    Args:
        seconds: Per epoch, like ``dollars``.
    """

    type: str
    zone: str
    nodes: int
    codec: Codec
    seconds: float
    dollars: float
    further: FurtherNodes


def recommend(curves: Sequence[TypeCurve]) -> Recommendation | None:
    """Return the best of the sizes at which each type stops paying.

    It has the least product of time and money: half the time is worth twice the price.
    """
    found = [_recommend_stop(curve) for curve in curves]
    return min(found, key=lambda one: (one.seconds * one.dollars, one.seconds), default=None)


def _recommend_stop(curve: TypeCurve) -> Recommendation:
    place = curve.sizes.index(curve.stops) if curve.gains else 0
    if place == len(curve.sizes) - 1:
        further = FurtherNodes.UNKNOWN
    else:
        further = FurtherNodes.UNPAID if curve.gains else FurtherNodes.USELESS
    return Recommendation(
        curve.type,
        curve.zone,
        curve.sizes[place],
        curve.codecs[place],
        curve.seconds[place],
        curve.dollars[place],
        further,
    )
