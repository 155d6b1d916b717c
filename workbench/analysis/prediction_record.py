"""Store the predictions of plans and verdicts, and compare them with what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from workbench.analysis.predictions import (
    NOWHERE,
    algorithm_of,
    alike,
    correction_of,
    find_observed_run,
    replace_exchange,
    scatter_of,
    shape_of,
    step_forecast,
    work_of,
)
from workbench.core.fleet.model import Node, Offer
from workbench.core.fleet.offers import ranks_of
from workbench.core.performance.comparison import UNKNOWN_NOISE, widen_range
from workbench.core.performance.exchange_model import PLAIN, Codec, Coding
from workbench.core.performance.frontier import Frontier, Task, forecast
from workbench.core.performance.prediction import (
    ANY,
    Forecasts,
    PredictedStep,
    Predictor,
    TrainingSetup,
    prediction_for,
)
from workbench.core.performance.scaling import NOISE, BatchPolicy
from workbench.core.performance.step_model import WorldShape
from workbench.core.performance.step_verdict import Verdict
from workbench.core.performance.what_if import Change, ObservedRun
from workbench.core.run.model import Run
from workbench.core.units import count, duration
from workbench.store import Store

# Relative uncertainty of a verdict's predictions.
SURE = 0.1
# Ranks on one node share its caches and memory, so other numbers add this uncertainty.
SHARED = 0.06
# Limits on the types of a plan, and on sizes per type, whose predictions are stored.
MOST_TYPES = 8
MOST_SIZES = 16
# A range of more than this factor is not a useful prediction.
WIDEST = 3.0
LARGER = (24, 32, 48, 64)


def doing_of(store: Store, run: Run, observed: ObservedRun) -> TrainingSetup:
    """Return how a run trains."""
    return TrainingSetup(
        type=type_of(store.fleets.nodes(run.wish.cluster)),
        nodes=observed.nodes,
        ranks=len(observed.ranks),
        nbytes=observed.nbytes,
        batch=observed.batch,
        codec=observed.coding.codec,
        bandwidth=observed.link.bandwidth if observed.link and observed.nodes > 1 else 0.0,
        ours=observed.ours,
        stale=observed.stale,
    )


def type_of(nodes: Sequence[Node]) -> str:
    """Return the type of a cluster's nodes; empty where they have none, or several."""
    types = {node.type for node in nodes if node.type}
    return types.pop() if len(types) == 1 else ""


def keep_verdict(
    store: Store, run: Run, observed: ObservedRun, verdict: Verdict, now: float
) -> None:
    """Store a verdict's predictions of what its remedies would achieve.

    Args:
        now: Epoch seconds.
    """
    doing = doing_of(store, run, observed)
    found = [
        PredictedStep(done, one.seconds, (1 - SURE) * one.seconds, (1 + SURE) * one.seconds, one.do)
        for one in (*verdict.remedies, *filter(None, [verdict.doubling]))
        if (done := _apply_change(doing, one.change)) != doing
    ]
    forecasts = Forecasts(Predictor.VERDICT, run.id, now, tuple(found))
    store.surveys.keep_forecasts(run.wish.cluster, forecasts)


def _apply_change(doing: TrainingSetup, change: Change) -> TrainingSetup:
    """Return how a run would train after a change, as far as the change matters here."""
    return replace(
        doing,
        type=ANY if change.bandwidth else doing.type,
        nodes=doing.nodes * change.nodes,
        ranks=doing.ranks * change.nodes,
        batch=doing.batch * change.batch,
        codec=change.coding.codec if change.coding else doing.codec,
        bandwidth=change.bandwidth or doing.bandwidth,
        ours=doing.ours or change.ours,
        stale=doing.stale or change.stale,
    )


def here(store: Store, run: Run, observed: ObservedRun) -> list[PredictedStep]:
    """Predict a step on more of the run's ranks or nodes, for each way to exchange.

    Within one machine it predicts more ranks; between nodes, more nodes with the same ranks each.
    """
    base = doing_of(store, run, observed)
    runs = [*alike(store, run)]
    corrections = {ours: correction_of(runs, ours=ours) for ours in (False, True)}
    scatter = scatter_of(runs)
    found = []
    for shape in _shapes(observed):
        for other in _ways(observed, shape.nodes):
            work = replace_exchange(work_of(observed), observed, other)
            work = replace(work, compute=work.compute * _estimate_crowding(observed, shape))
            came = step_forecast(
                work, shape, other.coding, corrections[other.ours], observed.link is not None,
                algorithm_of(other), NOISE if _is_as_full(observed, shape) else SHARED, scatter,
            )  # fmt: skip
            done = replace(
                base, nodes=shape.nodes, ranks=shape.ranks, codec=other.coding.codec,
                ours=other.ours, stale=other.stale,
            )  # fmt: skip
            found.append(PredictedStep(done, came.seconds, came.low, came.high))
    return found


def _shapes(observed: ObservedRun) -> list[WorldShape]:
    sizes = range(1, MOST_SIZES + 1)
    if observed.nodes == 1:
        return [WorldShape(1, NOWHERE, ranks, observed.memory) for ranks in sizes]
    shape = shape_of(observed)
    return [replace(shape, nodes=nodes) for nodes in sizes] if shape else []


def _ways(observed: ObservedRun, nodes: int) -> Iterator[ObservedRun]:
    """Yield the ways to exchange gradients, the run's own first."""
    yield replace(observed, nodes=nodes)
    for ours, coding in ((False, PLAIN), *((True, one) for one in observed.codings)):
        if (ours, coding.codec) != (observed.ours, observed.coding.codec):
            yield replace(observed, nodes=nodes, ours=ours, coding=coding, stale=False)


def _is_as_full(observed: ObservedRun, shape: WorldShape) -> bool:
    return shape.ranks_per_node == len(observed.ranks) // observed.nodes


def _estimate_crowding(observed: ObservedRun, shape: WorldShape) -> float:
    """Return the slowdown of ranks that share the cores of a node."""
    if not observed.cores:
        return 1.0
    now = len(observed.ranks) // observed.nodes
    wanted, had = (
        max(1.0, ranks * observed.busy / observed.cores) for ranks in (shape.ranks_per_node, now)
    )
    return wanted / had


def of_offers(
    task: Task,
    frontier: Frontier,
    offers: Sequence[Offer],
    codings: Sequence[Coding],
    *,
    ours: bool,
    measured: dict[str, float],
) -> Iterator[PredictedStep]:
    """Yield a plan's predictions for its types, with the best codec and without compression."""
    if task.batch is BatchPolicy.TOTAL:
        return  # a rank's batch changes with the size, so no later run could be matched
    cheapest = {offer.type: offer for offer in sorted(offers, key=lambda one: -one.price)}
    known = {coding.codec: coding for coding in codings}
    curves = {one.type: one for one in frontier.curves}
    types = dict.fromkeys([one.type for one in frontier.choices]) | dict.fromkeys(curves)
    for name in [*types][:MOST_TYPES]:
        offer, curve = cheapest[name], curves[name]
        for place, nodes in enumerate(curve.sizes):
            if nodes > MOST_SIZES and nodes not in LARGER:
                continue
            for codec in dict.fromkeys([curve.codecs[place], Codec.NONE]):
                found = forecast(task, offer, nodes, known[codec], measured=measured)
                if found is not None:
                    yield _of_offer(
                        task, offer, nodes, codec, found.seconds, (found.low, found.high), ours
                    )


def _of_offer(
    task: Task, offer: Offer, nodes: int, codec: Codec, seconds: float,
    band: tuple[float, float], ours: bool,
) -> PredictedStep:  # fmt: skip
    ranks = nodes * ranks_of(offer)
    steps = task.examples / task.work.batch / ranks
    doing = TrainingSetup(
        offer.type, nodes, ranks, task.work.nbytes, task.work.batch, codec, ours=ours
    )
    low, high = band
    do = f"{nodes} × {offer.type}"
    return PredictedStep(doing, seconds / steps, low / steps, high / steps, do)


def prediction_sentence(store: Store, run: Run) -> str:
    """Return what a plan or a verdict predicted for ``run``, beside the measured result.

    Empty if none did, or if the prediction is too vague to help.
    """
    real = find_observed_run(store, run)
    if real is None:
        return ""
    done = doing_of(store, run, real)
    for kept in store.surveys.forecasts(run.wish.cluster, run.wish.created):
        if kept.source != run.id and (prediction := prediction_for(done, kept.found)):
            return _format_difference(
                _origin(store, kept, prediction), _held(run, real, prediction, _noise(store, kept))
            )
    return ""


def _format_difference(who: str, held: str) -> str:
    return f"{who}: {held}" if held else ""


def _noise(store: Store, kept: Forecasts) -> float:
    """Return the variation of a step in the run that a forecast was made from."""
    concluded = store.reports.conclusion(kept.source)
    return concluded.noise if concluded else UNKNOWN_NOISE


def _origin(store: Store, kept: Forecasts, prediction: PredictedStep) -> str:
    named = {one.id: repr(one.wish.name) for one in store.runs()}.get(kept.source, "")
    if kept.predictor is Predictor.VERDICT:
        return f"Predicted by the verdict on run {named or kept.source}, with {prediction.do}"
    return f"Predicted by the plan{f' made from run {named}' if named else ''}"


def _held(run: Run, real: ObservedRun, prediction: PredictedStep, noise: float) -> str:
    """Compare a prediction with the result; it is missed only beyond the noise of both.

    Empty where the range is too wide to be useful.
    """
    fact, came = run.fact, fmean(one.total for one in real.ranks)
    steps = fact.iteration / fact.epoch if fact.iteration and fact.epoch else 0.0
    times, what = (steps, "an epoch") if steps else (1.0, "a step")
    low, high = widen_range(prediction.low, prediction.high, noise, real.noise)
    if high > WIDEST * low:
        return ""
    wide = replace(prediction, low=low, high=high)
    predicted, least, most, took = (
        _span(times * one) for one in (prediction.seconds, low, high, came)
    )
    percent = round(100 * (came / prediction.seconds - 1))
    off = f"{'−' if percent < 0 else '+' if percent else ''}{abs(percent)} %"
    missed = "" if wide.holds(came) else " That is outside the predicted range."
    return f"{predicted} {what} ({least} to {most}). Measured: {took} ({off}).{missed}"


def _span(seconds: float) -> str:
    if seconds >= 100:
        return duration(seconds)
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def here_sentence(found: Sequence[PredictedStep], run: Run, steps: float) -> str:
    """Return the predicted epochs on the nodes of ``run``, with its way to exchange.

    Args:
        steps: Number of steps of one rank alone in an epoch.
    """
    first = found[0].doing
    same = [
        one for one in found
        if (one.doing.codec, one.doing.ours, one.doing.stale)
        == (first.codec, first.ours, first.stale)
        and one.doing.ranks & (one.doing.ranks - 1) == 0
    ]  # fmt: skip
    times = ", ".join(
        f"{_span(steps / one.doing.ranks * one.seconds)} on {count(one.doing.ranks, 'rank')}"
        for one in same
    )
    return f"On the nodes of run {run.wish.name!r}, trained the same way, an epoch takes {times}."
