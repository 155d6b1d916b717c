"""Plans: predicted time and cost of training on a provider's offers, as tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from workbench.analysis.observation import survey_of
from workbench.analysis.plan_inputs import ITERATIONS, Asked, Basis
from workbench.analysis.prediction_record import here, here_sentence, of_offers
from workbench.core.fleet.model import Node, Offer
from workbench.core.performance.exchange_model import CODINGS, PLAIN, Codec
from workbench.core.performance.frontier import (
    Choice,
    Frontier,
    Interruptions,
    Task,
    TypeCurve,
    frontier,
)
from workbench.core.performance.prediction import Forecasts, Predictor
from workbench.core.performance.recommendation import recommended
from workbench.core.performance.scaling import BatchPolicy
from workbench.core.performance.step_model import OVERLAPPED
from workbench.core.units import count, gbits, percent_of, size_text
from workbench.store import Store
from workbench.view.listing import Table
from workbench.view.text import dollars, duration, number

MOST_CHOICES = 12
MOST_CURVES = 8
BEST = "Best choices (Pareto frontier of time and cost)"
PAYING = "Each type, and the number of nodes up to which adding one pays"
# The correction is mentioned if it changes communication by more than this factor.
TOLD = 0.01


@dataclass(frozen=True)
class TrainingPlan:
    """A frontier, and its assumptions.

    Args:
        says: The assumptions, a sentence each.
    """

    task: Task
    frontier: Frontier
    says: tuple[str, ...]


def plan(store: Store, asked: Asked, basis: Basis, offers: Sequence[Offer]) -> TrainingPlan:
    """Return the predicted time and cost of training on these offers."""
    ranks = len(basis.observed.ranks) if basis.observed else 1
    work = basis.work
    if asked.total:  # the work of all ranks together, on one
        work = replace(work, batch=work.batch * ranks, compute=work.compute * ranks)
    gpu = asked.gpu or _gpu(basis.nodes, offers)
    if not asked.plain:
        work = replace(work, hidden=_hidden(basis, gpu))
    task = Task(
        work,
        basis.examples,
        gpu,
        BatchPolicy.TOTAL if asked.total else BatchPolicy.PER_RANK,
        basis.correction.factor,
    )
    links = _links(store, basis)
    codings = basis.observed.codings if basis.observed else CODINGS
    found = frontier(
        task,
        offers,
        most=asked.max_nodes,
        codings=(PLAIN,) if asked.plain else codings,
        interruptions=Interruptions(asked.interruptions),
        measured=links,
    )
    says = [*_says(asked, basis, task, links)]
    predicted = []
    if basis.run is not None and basis.observed is not None and not asked.total:
        predicted = here(store, basis.run, basis.observed)
        says.insert(1, here_sentence(predicted, basis.run, basis.examples / basis.work.batch))
    predicted += of_offers(task, found, offers, codings, ours=not asked.plain, measured=links)
    source = basis.run.id if basis.run else ""
    store.keep_forecasts(
        asked.cluster, Forecasts(Predictor.PLAN, source, time.time(), tuple(predicted))
    )
    return TrainingPlan(task, found, tuple(says))


def _hidden(basis: Basis, gpu: str) -> float:
    """Return the share of compute that overlaps with our communicator's exchange."""
    seen = basis.observed
    if seen is not None and seen.backward:
        return max(seen.hidden, seen.overlapped)
    return max(basis.work.hidden, OVERLAPPED if gpu else 0.0)


def _gpu(nodes: Sequence[Node], offers: Sequence[Offer]) -> str:
    """Return the GPU of the cluster's nodes, if their type is among the offers."""
    types = {node.type for node in nodes if node.type}
    return next((offer.gpu for offer in offers if offer.type in types and offer.gpus), "")


def _links(store: Store, basis: Basis) -> dict[str, float]:
    """Return the measured bytes per second between nodes of each type."""
    types = {node.type for node in basis.nodes if node.type}
    if basis.run is None or len(types) != 1:
        return {}
    survey = survey_of(store, basis.run, set())
    link = survey.link() if survey else None
    return {types.pop(): link.bandwidth} if link else {}


def _says(asked: Asked, basis: Basis, task: Task, links: Mapping[str, float]) -> Iterator[str]:
    work, on = basis.work, task.gpu or "a CPU"
    source = f"run {basis.run.wish.name}" if basis.run else "the given options"
    yield (
        f"By {source}: a rank computes {duration(work.compute)} a step of "
        f"{count(round(work.batch), 'example')} on {on}, and exchanges "
        f"{size_text(work.nbytes)} of gradients."
    )
    if task.work.hidden:
        yield (
            f"An exchange of our communicator overlaps with {percent_of(task.work.hidden)} of a "
            "step's compute (--plain plans without this and without compression)."
        )
    if not basis.exact:
        yield (
            f"The number of examples in an epoch is unknown; {ITERATIONS:,} iterations of one rank "
            "are assumed (set it with --examples N)."
        )
    for type_, bandwidth in links.items():
        yield f"The measured bandwidth between nodes of type {type_} is {gbits(bandwidth)} Gbit/s."
    if abs(basis.correction.factor - 1) >= TOLD:
        yield (
            f"Communication took {basis.correction.factor:.2f} times as long as the model says in "
            f"{count(basis.correction.count, 'run')} before, and is taken to do so again."
        )
    if asked.interruptions:
        yield (
            f"A node is taken back {asked.interruptions:g} times an hour (--interruptions R says "
            "otherwise), and each time a minute is lost."
        )


def recommendation(found: TrainingPlan) -> str:
    """Return what to rent in one sentence; empty without a choice."""
    best = recommended(found.frontier.curves)
    if best is None:
        return ""
    how = "" if best.codec is Codec.NONE else f" with `--compress {best.codec}`"
    return (
        f"Recommended: {best.nodes} × {best.type}{how}, {duration(best.seconds)} and "
        f"{dollars(best.dollars)} an epoch; {best.further}."
    )


def scale(seconds: Sequence[float]) -> tuple[str, float]:
    """Return the unit for all of ``seconds``, and its length: the shortest is at least one unit."""
    least = min(seconds, default=1.0)
    units = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 0.001))
    return next((one for one in units if least >= one[1]), units[-1])


def frontier_table(found: TrainingPlan) -> Table:
    """Return the table of best choices, fastest first: no other is both faster and cheaper."""
    chosen = thinned(found.frontier.choices)
    unit, size = scale([one.seconds for one in chosen])
    headers = (
        "nodes", "type", "gradients", f"epoch, {unit}", f"likely range, {unit}", "epoch, $",
        "price, $/h", "lost to interruptions, %",
    )  # fmt: skip
    return Table(headers, tuple(_row(one, size) for one in chosen))


def thinned(choices: Sequence[Choice]) -> tuple[Choice, ...]:
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
    headers = (
        "type", f"1 node: epoch, {unit}", "epoch, $", "nodes that pay", f"epoch, {unit}",
        "epoch, $", "fastest: nodes", f"epoch, {unit}", "epoch, $",
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
    }
