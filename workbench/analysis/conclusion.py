"""Make the conclusion of a run when it ends: once, and the same for all views."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from workbench.analysis.observation import batch_of, observe_run, step_noise
from workbench.analysis.prediction_record import keep_verdict, prediction_sentence
from workbench.core.fleet.cost import charge
from workbench.core.performance.batch_size import (
    LEAST_STEPS,
    BatchSizeAdvice,
    NoiseAverages,
    advise,
)
from workbench.core.performance.batch_size import sentence as batch_sentence
from workbench.core.performance.comparison import scale_band
from workbench.core.performance.exchange_model import Codec, read_codec
from workbench.core.performance.step_verdict import (
    GIVES,
    Cause,
    Verdict,
    gain_text,
    judge,
    sentence,
)
from workbench.core.recovery.resumption import NONE, Attempt, is_resumable, offers_resume
from workbench.core.run.goodput import Goodput, Stretch, compute_goodput
from workbench.core.run.goodput import sentence as goodput_sentence
from workbench.core.run.metrics import EXCHANGE_PREFIX, NOISE_PREFIX, Conclusion, slowest_rank
from workbench.core.run.model import Run, RunState
from workbench.core.run.rank_protocol import HandwrittenLoop
from workbench.core.units import duration, size_text
from workbench.errors import StoreError
from workbench.store import Store

_NEWEST = 2**63 - 1


@dataclass(frozen=True)
class GradientTraffic:
    """One step's gradient exchange by our communicator.

    Args:
        wire: Bytes that a rank sends.
        plain: Bytes that it would send without compression.
        seconds: Duration of the whole exchange, overlapped or not.
        coding: Seconds of it that a rank spends on compression.
    """

    codec: Codec
    wire: float
    plain: float
    seconds: float
    coding: float = 0.0


def read_gradient_traffic(store: Store, run: Run) -> GradientTraffic | None:
    """Return the gradient traffic of ``run``; None without our communicator."""
    reported = [
        one
        for one in store.reports.read_measured(run.id, EXCHANGE_PREFIX).values()
        if read_codec(one)
    ]
    ranks = run.fact.ranks
    if not reported or ranks < 2:
        return None
    first = reported[0]
    codec, nbytes = read_codec(first) or Codec.NONE, first.get("nbytes", 0.0)
    coded = nbytes * (1 - first.get("small", 0.0))
    return GradientTraffic(
        codec,
        wire=fmean(one.get("wire", 0.0) for one in reported),
        plain=2 * (ranks - 1) / ranks * nbytes,
        # The last rank to arrive waits for no other.
        seconds=min(one.get("whole", 0.0) for one in reported),
        coding=first.get(f"cost {codec}", 0.0) * coded,
    )


def carried_sentence(carried: GradientTraffic) -> str:
    """Return the traffic as sentences."""
    took = f"The exchange takes {duration(carried.seconds)}"
    if carried.codec is Codec.NONE:
        return f"Each rank sends {size_text(carried.wire)} a step, uncompressed. {took}."
    if carried.coding:
        took += f", about {duration(carried.coding)} of it for compression"
    return (
        f"Compressed by {carried.codec}, each rank sends {size_text(carried.wire)} a step instead "
        f"of {size_text(carried.plain)}. {took}."
    )


def ensure_conclusion(store: Store, run: Run) -> Conclusion:
    """Return the conclusion of an ended run; the first caller computes and stores it.

    The supervisor does this when a run ends, if it is alive then.
    """
    if kept := store.reports.conclusion(run.id):
        return kept
    found = conclude(store, run)
    with contextlib.suppress(StoreError):  # a full disk must not prevent reading
        return store.reports.keep_conclusion(run.id, found)
    return found


def conclude(store: Store, run: Run) -> Conclusion:
    """Return the conclusion of a run, from its measurements so far.

    The verdict's predictions are stored, to be compared with later runs.
    """
    if not store.reports.steps(run.id):
        says = (*offer_sentences(store, run), *goodput_sentences(store, run, run.fact.ended))
        return Conclusion(store.reports.final_values(run.id), says=says)
    steps, noise = store.reports.mean_steps(run.id), step_noise(store, run)
    verdict = None
    if observed := observe_run(store, run, steps, noise):
        verdict = judge(observed)
        with contextlib.suppress(StoreError):
            keep_verdict(store, run, observed, verdict, run.fact.ended)
    return Conclusion(
        values=store.reports.final_values(run.id),
        steps=steps,
        slowest=slowest_rank(steps),
        says=tuple(_says(store, run, verdict)),
        noise=noise,
        batch=batch_of(store, run),
    )


def _says(store: Store, run: Run, verdict: Verdict | None) -> Iterator[str]:
    if verdict is not None:
        yield sentence(verdict)
    if carried := read_gradient_traffic(store, run):
        yield carried_sentence(carried)
    yield from size_sentences(verdict, batch_advice(store, run))
    if predicted := prediction_sentence(store, run):
        yield predicted
    yield from offer_sentences(store, run)
    yield from goodput_sentences(store, run, run.fact.ended)


def batch_advice(store: Store, run: Run) -> BatchSizeAdvice | None:
    """Return advice on the batch size from the gradient noise of ``run``; None while unknown."""
    reports, batch = (
        store.reports.read_measured(run.id, NOISE_PREFIX).values(),
        batch_of(store, run),
    )
    if not reports or not batch:
        return None
    # All ranks' estimates are linear and equally good, so their mean is better than any one.
    signal, noise = (fmean(one[name] for one in reports) for name in ("signal", "noise"))
    steps = min(int(one["steps"]) for one in reports)
    scales = [
        _scale(one)
        for estimates in store.reports.history(run.id, NOISE_PREFIX).values()
        for one in estimates[len(estimates) // 2 :]
        if one["steps"] >= LEAST_STEPS
    ]
    return advise(NoiseAverages(signal, noise, steps), batch, scale_band(scales))


def _scale(estimates: Mapping[str, float]) -> float:
    return estimates["noise"] / estimates["signal"] if estimates["signal"] > 0 else math.inf


def size_sentences(verdict: Verdict | None, batch: BatchSizeAdvice | None) -> list[str]:
    """Return sentences on more nodes and on larger batches, which are one decision.

    Twice the nodes train on twice the examples per step. That pays if steps take hardly longer, and
    if each one makes more progress.
    """
    doubling = verdict.doubling if verdict else None
    if batch is None:
        if not (verdict and doubling and doubling.is_sure and verdict.cause is Cause.COMPUTE):
            return []
        return [f"With twice the nodes training would be {doubling.gain}."]
    text = batch_sentence(batch)
    if doubling is None:
        return [f"{text}."]
    share = batch.further / 2
    gives, low, high = (share * one for one in (doubling.speedup, doubling.low, doubling.high))
    if gives < GIVES:
        return [f"{text}; adding nodes does not pay."]
    if low <= 1:
        return [f"{text}."]
    return [f"{text}; with twice the nodes training would be {gain_text(gives, low, high)}."]


def goodput_of(store: Store, run: Run, now: float) -> Goodput | None:
    """Return the goodput of a run until its end, or until now; None before its first step.

    Args:
        now: Epoch seconds.
    """
    spans = [*_spans(store, run, now)]
    if not spans or not store.attempts.first_point(run.id, 0):
        return None
    begin, end = min(start for start, _, _ in spans), max(end for _, end, _ in spans)
    capacity = cost = 0.0
    prices = store.fleets.prices(run.wish.cluster)
    for node in store.fleets.nodes(run.wish.cluster, gone=True):
        if segments := prices.get(node.id):
            since, until = max(begin, segments[0][0]), min(node.ended or end, end)
            capacity += node.slots * max(0.0, until - since)
            cost += charge(segments, since, until)
    return compute_goodput((stretch for _, _, stretch in spans), capacity=capacity, cost=cost)


def offer_sentences(store: Store, run: Run) -> tuple[str, ...]:
    """Return how a loop that is not saved could be; nothing for any other one."""
    event = store.events.newest(run.id, HandwrittenLoop)
    if event is None or not event.offer or run.wish.restarts:
        return ()
    if store.attempts.newest_snapshot(run.id) != NONE:
        return ()
    return (
        "This loop is not saved, so a lost rank ends the run. To save it, write "
        f"`{event.offer}` in the place of its loops, with `step.batch` as the batch.",
    )


def goodput_sentences(store: Store, run: Run, now: float) -> tuple[str, ...]:
    """Return its sentence for a run that was paid, or that continued in another world.

    Args:
        now: Epoch seconds.
    """
    if not is_resumable(run.wish.kind):
        return ()
    if run.fact.attempt == 1 and not store.fleets.prices(run.wish.cluster):
        return ()
    found = goodput_of(store, run, now)
    if found is None or not (found.cost or run.fact.attempt > 1):
        return ()
    return (goodput_sentence(found),)


def _spans(store: Store, run: Run, now: float) -> Iterator[tuple[float, float, Stretch]]:
    """Yield the beginning and the end of each attempt that started, with what it became."""
    fact = run.fact
    present = Attempt(
        fact.attempt, fact.generation, fact.ranks, fact.started, fact.ended or now, fact.state,
        fact.message, last_point=_NEWEST,
    )  # fmt: skip
    redone = store.attempts.redone_seconds(run.id)
    before, started_before, point_before = 0.0, -1.0, 0
    for one in (*store.attempts.past(run.id), present):
        if not one.started:
            continue
        # An attempt that follows by itself keeps the time at which the run started.
        follows = one.started == started_before
        begin = before if follows else one.started
        end = one.ended or begin
        first = store.attempts.first_point(run.id, point_before)
        is_lost = first and one.state in (RunState.LOST, RunState.FAILED)
        stretch = Stretch(
            one.ranks,
            max(0.0, end - begin),
            max(0.0, (first or end) - begin),
            redone.get(one.number, 0.0),
            max(0.0, end - store.attempts.last_point(run.id, one.last_point)) if is_lost else 0.0,
            _read_unsaved_seconds(store, run) if one is present else 0.0,
            begins=not follows,
        )
        yield begin, end, stretch
        before, started_before, point_before = end, one.started, one.last_point


def _read_unsaved_seconds(store: Store, run: Run) -> float:
    """Return the seconds of steps that a run which can be resumed would do again."""
    snapshot = store.attempts.newest_snapshot(run.id)
    if not offers_resume(run, snapshot) or run.wish.restarts:
        return 0.0
    return store.attempts.unsaved_seconds(run.id, snapshot)
