"""Plan: what training would take and cost on a market's offers, in tables of words."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from workbench.core.exchange import CODINGS, PLAIN, Codec
from workbench.core.fleet import Node, Offer
from workbench.core.forecast import Forecasts, Teller
from workbench.core.frontier import Choice, Curve, Frontier, Interruptions, Task, frontier
from workbench.core.scaling import Batch
from workbench.core.size import gbits, size_text
from workbench.core.step import OVERLAPPED
from workbench.store import Store
from workbench.view.forecasts import here, here_sentence, of_offers
from workbench.view.listing import NOTHING, Table
from workbench.view.observation import survey_of
from workbench.view.phrases import count, dollars, duration, hourly
from workbench.view.planbasis import ITERATIONS, Asked, Basis

MOST_CHOICES = 12
MOST_CURVES = 8
# What was learned is said where it changes communication by more.
TOLD = 0.01


@dataclass(frozen=True)
class Plan:
    """A frontier, and what it goes by.

    Args:
        says: What it goes by, a sentence each.
    """

    task: Task
    frontier: Frontier
    says: tuple[str, ...]


def plan(store: Store, asked: Asked, basis: Basis, offers: Sequence[Offer]) -> Plan:
    """Return what training on these offers would take and cost."""
    ranks = len(basis.observed.ranks) if basis.observed else 1
    work = basis.work
    if asked.total:  # what all ranks do together, on one
        work = replace(work, batch=work.batch * ranks, compute=work.compute * ranks)
    gpu = asked.gpu or _gpu(basis.nodes, offers)
    if not asked.plain:
        work = replace(work, hidden=_hidden(basis, gpu))
    task = Task(
        work,
        basis.examples,
        gpu,
        Batch.TOTAL if asked.total else Batch.PER_RANK,
        basis.correction.factor,
    )
    links = _links(store, basis)
    codings = basis.observed.codings if basis.observed else CODINGS
    found = frontier(
        task,
        offers,
        most=asked.most,
        codings=(PLAIN,) if asked.plain else codings,
        interruptions=Interruptions(asked.interruptions),
        measured=links,
    )
    says = [*_says(asked, basis, task, links)]
    told = []
    if basis.run is not None and basis.observed is not None and not asked.total:
        told = here(store, basis.run, basis.observed)
        says.insert(1, here_sentence(told, basis.run, basis.examples / basis.work.batch))
    told += of_offers(task, found, offers, codings, ours=not asked.plain, measured=links)
    source = basis.run.id if basis.run else ""
    store.keep_forecasts(asked.cluster, Forecasts(Teller.PLAN, source, time.time(), tuple(told)))
    return Plan(task, found, tuple(says))


def _hidden(basis: Basis, gpu: str) -> float:
    """Return the share of compute that an exchange of our communicator hides under."""
    seen = basis.observed
    if seen is not None and seen.backward:
        return max(seen.hidden, seen.overlapped)
    return max(basis.work.hidden, OVERLAPPED if gpu else 0.0)


def _gpu(nodes: Sequence[Node], offers: Sequence[Offer]) -> str:
    """Return the GPU of the cluster's nodes, where the market knows their type."""
    types = {node.type for node in nodes if node.type}
    return next((offer.gpu for offer in offers if offer.type in types and offer.gpus), "")


def _links(store: Store, basis: Basis) -> dict[str, float]:
    """Return bytes a second between nodes of the types that were measured."""
    types = {node.type for node in basis.nodes if node.type}
    if basis.run is None or len(types) != 1:
        return {}
    survey = survey_of(store, basis.run, set())
    link = survey.link() if survey else None
    return {types.pop(): link.bandwidth} if link else {}


def _says(asked: Asked, basis: Basis, task: Task, links: Mapping[str, float]) -> Iterator[str]:
    work, on = basis.work, task.gpu or "a CPU"
    source = f"run {basis.run.wish.name}" if basis.run else "what was said"
    yield (
        f"By {source}: a rank computes {1000 * work.compute:.3g} ms a step of "
        f"{count(round(work.batch), 'example')} on {on}, and exchanges "
        f"{size_text(work.nbytes)} of gradients."
    )
    if task.work.hidden:
        yield (
            f"An exchange of our communicator hides under {100 * task.work.hidden:.0f} % of a "
            "step's compute (--plain leaves this and compression out)."
        )
    if not basis.exact:
        yield (
            f"How many examples an epoch has is unknown; {ITERATIONS:,} iterations of one rank "
            "stand for it (--examples N says it)."
        )
    for type_, bandwidth in links.items():
        yield f"Between nodes of type {type_} {gbits(bandwidth)} Gbit/s were measured."
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


def money(amount: float) -> str:
    """Return $ of an epoch, often parts of a cent, in three digits."""
    if not 0 < amount < 1:
        return dollars(amount)
    digits = 2 - math.floor(math.log10(amount))
    return f"${amount:.{digits}f}"


def span(seconds: float) -> str:
    """Return the seconds of an epoch, which may be a short one."""
    return duration(seconds) if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def frontier_table(found: Plan) -> Table:
    """Return the choices that none beats in both time and money, the quickest first."""
    headers = ("nodes", "type", "gradients", "epoch", "between", "an epoch costs", "price", "lost")
    return Table(headers, tuple(_row(one) for one in thinned(found.frontier.choices)))


def thinned(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return a few of many choices, spread evenly, both ends among them."""
    if len(choices) <= MOST_CHOICES:
        return tuple(choices)
    last = len(choices) - 1
    places = {round(place * last / (MOST_CHOICES - 1)) for place in range(MOST_CHOICES)}
    return tuple(choices[place] for place in sorted(places))


def _row(one: Choice) -> tuple[str, ...]:
    return (
        str(one.nodes),
        f"{one.type} in {one.zone}" + (" (guessed)" if one.guessed else ""),
        "as they are" if one.codec is Codec.NONE else str(one.codec),
        span(one.seconds),
        f"{span(one.low)}–{span(one.high)}",
        money(one.dollars),
        hourly(one.price),
        f"{one.lost:.1%}".replace("%", " %"),
    )


def curves_table(found: Plan) -> Table:
    """Return for each type up to where adding nodes pays, the cheapest epoch first."""
    headers = (
        "type",
        "one node",
        "adding nodes pays up to",
        "then",
        "quickest",
        "then an epoch is",
    )
    return Table(headers, tuple(_curve_row(one) for one in found.frontier.curves[:MOST_CURVES]))


def _curve_row(one: Curve) -> tuple[str, ...]:
    at = one.sizes.index(one.stops)
    best = one.sizes.index(one.fastest)
    return (
        one.type + (" (guessed)" if one.guessed else ""),
        f"{span(one.seconds[0])}, {money(one.dollars[0])}",
        count(one.stops, "node") if one.gains else "no gain",
        f"{span(one.seconds[at])}, {money(one.dollars[at])}" if one.gains else NOTHING,
        count(one.fastest, "node"),
        f"{span(one.seconds[best])}, {money(one.dollars[best])}",
    )


def plan_message(found: Plan) -> dict[str, Any]:
    """Return the plan in values that JSON can carry."""
    return {
        "says": list(found.says),
        "task": asdict(found.task),
        "choices": [asdict(one) for one in found.frontier.choices],
        "types": [asdict(one) for one in found.frontier.curves],
        "left_out": list(found.frontier.left_out),
    }
