"""Make the conclusion of a run when it ends: once, and the same for all views."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from workbench.analysis.observation import batch_of, observe_run, step_noise
from workbench.analysis.prediction_record import keep_verdict, prediction_sentence
from workbench.analysis.run_goodput import goodput_sentences
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
from workbench.core.run.conclusion import Conclusion
from workbench.core.run.metrics import EXCHANGE_PREFIX, NOISE_PREFIX, slowest_rank
from workbench.core.run.model import Run
from workbench.core.units import duration, size_text
from workbench.errors import StoreError
from workbench.store import Store


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
        wire=_mean(reported, "wire"),
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


def _mean(reported: Sequence[Mapping[str, float]], name: str) -> float:
    return fmean(one.get(name, 0.0) for one in reported)


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
        says = goodput_sentences(store, run, run.fact.ended)
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
