"""Plans of sweeps: how to divide ranks among trials, as a sentence and a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from workbench.analysis.conclusion import batch_advice
from workbench.analysis.plan_inputs import HERE, PlanAssumptions, PlanBasis
from workbench.core.fleet.cost import Interruptions
from workbench.core.performance.batch_size import progress
from workbench.core.performance.exchange_model import Codec
from workbench.core.performance.sweep_shapes import (
    SweepShape,
    SweepTask,
    choose_shape,
    find_shapes,
)
from workbench.core.units import count
from workbench.requests.cloud_queries import CloudMarket
from workbench.store import Store
from workbench.view.tables.listing import Table
from workbench.view.tables.plan import assume, explain_basis, scale
from workbench.view.text import dollars, duration, number

DIVIDED = "How to divide the ranks among the trials"
# Seconds of a trial outside its steps, and a share of it, from which on they are said.
_NOTICEABLE = 0.01


@dataclass(frozen=True)
class SweepPlan:
    """How the ranks of one type of node can be divided among trials.

    Args:
        best: The recommended shape; None if no type can be modelled.
        shapes: All on its type, from many small trials at once to one on all ranks.
        unit: What is charged in place of $; empty otherwise.
        says: The assumptions, a sentence each.
    """

    trials: int
    best: SweepShape | None
    shapes: tuple[SweepShape, ...]
    unit: str
    says: tuple[str, ...]


def plan_sweep(
    store: Store, asked: PlanAssumptions, basis: PlanBasis, market: CloudMarket
) -> SweepPlan:
    """Return how to divide the ranks of these offers among the trials that were asked for."""
    trials = asked.sweep or 1
    basis = replace(basis, examples=basis.trial_examples)
    task, links, codings = assume(store, asked, basis, market.offers)
    found = find_shapes(
        SweepTask(task, trials, basis.outside),
        market.offers,
        most=asked.max_nodes or 0,
        codings=codings,
        interruptions=Interruptions(asked.interruptions),
        measured=links,
    )
    best = choose_shape(found)
    shapes = tuple(one for one in found if best and (one.type, one.zone) == (best.type, best.zone))
    says = [*explain_basis(asked, basis, task, links), *_explain_trial(basis, shapes)]
    says += _explain_batch(store, asked, basis, task.work.batch, shapes)
    return SweepPlan(trials, best, shapes, market.unit, tuple(says))


def _explain_trial(basis: PlanBasis, shapes: tuple[SweepShape, ...]) -> Iterator[str]:
    what = f"as run {basis.run.wish.name}" if basis.run else "an epoch"
    yield f"A trial computes {count(round(basis.examples), 'example')}, {what}."
    if basis.outside > _NOTICEABLE * max((one.trial for one in shapes), default=math.inf):
        yield (
            f"{duration(basis.outside)} of that run were outside its steps; each trial is assumed "
            "to take these, whatever its ranks."
        )
    if any(one.at_once > one.nodes for one in shapes):
        yield (
            "Trials side by side on one node share its memory and disk; what that costs was not "
            "measured."
        )


def _explain_batch(
    store: Store,
    asked: PlanAssumptions,
    basis: PlanBasis,
    batch: float,
    shapes: tuple[SweepShape, ...],
) -> Iterator[str]:
    """Yield what more ranks of a trial do to its batch, and so to what is searched."""
    most = max((one.ranks for one in shapes), default=1)
    if most < 2:
        return
    if asked.total:
        yield (
            f"All trials take steps of {batch:,.0f} examples, whatever their ranks, so their "
            "results can be compared (without --total-batch, each rank keeps its batch)."
        )
        return
    yield (
        f"A trial on {count(most, 'rank')} takes steps of {most * batch:,.0f} examples, one on a "
        f"single rank of {batch:,.0f}, with {most} times as many updates: a learning rate that is "
        "best for one is not for the other. --total-batch plans with the same batch for all."
    )
    advice = batch_advice(store, basis.run) if basis.run else None
    if advice is not None:
        gain = most if advice.useful == math.inf else progress(batch, most * batch, advice.useful)
        yield (
            f"By the noise of that run's gradients, a step of {most * batch:,.0f} examples brings "
            f"{number(gain, 2)} times the progress of one of {batch:,.0f}."
        )


def sweep_recommendation(found: SweepPlan) -> str:
    """Return how to run the sweep, and what the other end of the table takes, in one sentence."""
    best, trials = found.best, count(found.trials, "trial")
    if best is None:
        return "None of the offers can be used for a plan."
    side = "one trial after another" if best.at_once == 1 else f"{best.at_once} trials at once"
    nodes = best.type if best.zone == HERE and best.nodes == 1 else f"{best.nodes} × {best.type}"
    how = "" if best.codec is Codec.NONE else f", `--compress {best.codec}`"
    said = (
        f"Recommended: {nodes}, {side} on {count(best.ranks, 'rank')} each "
        f"(`--ranks-per-trial {best.ranks}`{how}): {trials} take {_cost(found, best)}"
    )
    other = found.shapes[-1] if best is not found.shapes[-1] else found.shapes[0]
    if other is best:
        return f"{said}."
    what = (
        f"one after another on {count(other.ranks, 'rank')}"
        if other.at_once == 1
        else f"{other.at_once} at once on {count(other.ranks, 'rank')} each"
    )
    return f"{said}; {what} they take {_cost(found, other)}."


def _cost(found: SweepPlan, one: SweepShape) -> str:
    money = f" and {dollars(one.dollars, found.unit)}" if one.dollars else ""
    return f"{duration(one.seconds)}{money}"


def shapes_table(found: SweepPlan) -> Table:
    """Return the table of shapes, from many small trials at once to one on all ranks."""
    unit, size = scale([one.seconds for one in found.shapes])
    each, length = scale([one.trial for one in found.shapes])
    headers = (
        "trials at once", "ranks each", "nodes", "gradients", f"a trial, {each}", f"all, {unit}",
        f"likely range, {unit}", f"all, {found.unit or '$'}", "idle ranks, %",
    )  # fmt: skip
    rows = tuple(
        (
            str(one.at_once),
            str(one.ranks),
            f"{one.nodes} × {one.type}",
            "uncompressed" if one.codec is Codec.NONE else str(one.codec),
            number(one.trial / length, 3),
            number(one.seconds / size, 3),
            f"{number(one.low / size, 3)}–{number(one.high / size, 3)}",
            number(one.dollars, 3),
            number(100 * one.idle, 2),
        )
        for one in found.shapes
    )
    return Table(headers, rows)


def sweep_plan_message(found: SweepPlan) -> dict[str, Any]:
    """Return the plan as JSON values."""
    return {
        "recommendation": sweep_recommendation(found),
        "trials": found.trials,
        "shapes": [asdict(one) for one in found.shapes],
        "unit": found.unit or "$",
        "says": list(found.says),
    }
