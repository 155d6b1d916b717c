"""Predict a run from earlier runs, and calibrate the model with measured results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import fmean, pstdev

from workbench.analysis.observation import gradient_bytes, observe_run, step_noise
from workbench.core.performance.exchange_model import Algorithm, Coding, Link
from workbench.core.performance.prediction import (
    SAME,
    Correction,
    PredictionOutcome,
    correct_seconds,
    learn_correction,
    measure_variation,
)
from workbench.core.performance.scaling import (
    MEASURED,
    NOISE,
    RATED,
    SURE,
    Forecast,
    Timing,
    expect,
)
from workbench.core.performance.step_model import Work, WorldShape, step
from workbench.core.performance.what_if import ObservedRun
from workbench.core.run.metrics import EXCHANGE_PREFIX
from workbench.core.run.model import Run, RunKind
from workbench.store import Store

# Variation between ranks on equal machines, when only one was measured.
SPREAD = 0.02
RUNS_LOOKED_AT = 50
# Within one node there is no link to measure.
NOWHERE = Link(0.0, 1e12)


def find_observed_run(store: Store, run: Run) -> ObservedRun | None:
    """Return the measurements of a run's steps; None without any."""
    if not run.fact.state.ended:
        return observe_run(store, run, store.reports.steps(run.id))
    if concluded := store.reports.conclusion(run.id):
        return observe_run(store, run, concluded.steps, concluded.noise)
    return observe_run(store, run, store.reports.mean_steps(run.id), step_noise(store, run))


def work_of(observed: ObservedRun) -> Work:
    """Return the work of one rank in a step, as measured."""
    compute = [one.compute for one in observed.ranks]
    mean = fmean(compute)
    return Work(
        compute=mean,
        nbytes=observed.nbytes,
        batch=observed.batch,
        data=fmean(one.data for one in observed.ranks),
        other=fmean(one.other + one.passing for one in observed.ranks),
        messages=observed.messages,
        spread=pstdev(compute) / mean if len(compute) > 1 and mean else SPREAD,
        hidden=observed.hidden,
    )


def correction_of(runs: Iterable[tuple[Run, ObservedRun]], *, ours: bool) -> Correction:
    """Return the correction learnt from runs with the same training, newest first.

    Args:
        ours: Whether for our communicator, or for all others.
    """
    return learn_correction(_outcomes(runs, ours))


def scatter_of(runs: Iterable[tuple[Run, ObservedRun]]) -> float:
    """Return the relative variation of the step time between runs of the same training."""
    repeats: dict[tuple[object, ...], list[float]] = {}
    for _, one in runs:
        done = (one.nodes, len(one.ranks), one.batch, one.coding.codec, one.ours, one.stale)
        repeats.setdefault(done, []).append(fmean(rank.total for rank in one.ranks))
    return measure_variation(repeats.values(), NOISE)


def replace_exchange(work: Work, base: ObservedRun, other: ObservedRun) -> Work:
    """Return the work of a rank of ``base`` with the exchange of ``other``."""
    if not other.ours:
        return replace(work, hidden=0.0, messages=other.messages)
    if base.ours and base.stale == other.stale:
        return replace(work, messages=1)
    room = base.delayed if other.stale else base.overlapped if other.nodes > 1 else 0.0
    return replace(work, hidden=room, messages=1)


def step_forecast(
    work: Work,
    shape: WorldShape,
    coding: Coding,
    correction: Correction,
    measured: bool,
    algorithm: Algorithm | None = None,
    noise: float = NOISE,
    scatter: float = NOISE,
) -> Forecast:
    """Return the predicted seconds of one step, corrected by earlier runs.

    Args:
        noise: Relative uncertainty of a rank's own work.
        scatter: Relative variation of a step between equal runs.
    """
    tolerance = MEASURED if measured else RATED
    found = expect(
        work, shape, work.batch * shape.ranks,
        tolerance=tolerance, coding=coding, algorithm=algorithm, noise=noise,
    )  # fmt: skip
    seconds = correct_seconds(work.own, found.seconds, correction)
    scale, apart = seconds / found.seconds, 1.0
    if scatter > NOISE:  # the forecast is made from one such run and compared with another
        apart = math.exp(SURE * math.sqrt(2) * scatter)
    low, high = min(found.low * scale, seconds / apart), max(found.high * scale, seconds * apart)
    return replace(found, seconds=seconds, low=low, high=high)


def _outcomes(runs: Iterable[tuple[Run, ObservedRun]], ours: bool) -> Iterator[PredictionOutcome]:
    """Yield for each run of several ranks the modelled time and the measured one."""
    for _, observed in runs:
        shape = shape_of(observed)
        if shape is not None and shape.ranks > 1 and observed.ours == ours:
            work = replace(work_of(observed), spread=0.0, hidden=0.0)
            moving = max(fmean(one.moving for one in observed.ranks), observed.whole)
            parts = step(work, shape, coding=observed.coding, algorithm=algorithm_of(observed))
            yield PredictionOutcome(work.own, parts.total, work.own + moving)


def timings_of(
    runs: Iterable[tuple[Run, ObservedRun]], like: ObservedRun, examples: float, *, total: bool
) -> tuple[Timing, ...]:
    """Return the times of an epoch of runs that train like ``like`` on any number of nodes.

    Args:
        examples: Per epoch.
        total: Whether the batch of all ranks is the same, and not that of each rank.
    """

    def setup(one: ObservedRun) -> tuple[object, ...]:
        batch = one.batch * len(one.ranks) if total else one.batch
        return one.crowd, one.coding.codec, one.ours, one.stale, round(batch)

    return tuple(
        Timing(one.nodes, examples / one.batch / len(one.ranks) * fmean(r.total for r in one.ranks))
        for _, one in runs
        if setup(one) == setup(like)
    )


def algorithm_of(observed: ObservedRun) -> Algorithm | None:
    """Return the algorithm of an exchange; None for the fastest, which ours selects."""
    return None if observed.ours else Algorithm.MPI


def alike(store: Store, run: Run) -> Iterator[tuple[Run, ObservedRun]]:
    """Yield the newest runs of the cluster with the same training, including ``run``."""
    mine = find_observed_run(store, run)
    if mine is None:
        return
    for one in store.runs(run.wish.cluster, limit=RUNS_LOOKED_AT):
        if one.id == run.id:
            yield run, mine
        elif _is_alike(store, one, mine) and (found := find_observed_run(store, one)):
            yield one, found


def _is_alike(store: Store, run: Run, mine: ObservedRun) -> bool:
    if run.wish.kind is RunKind.MEASUREMENT:
        return False
    reported = store.reports.read_measured(run.id, EXCHANGE_PREFIX)
    nbytes = gradient_bytes(next(iter(reported.values()), {}))
    return abs(nbytes - mine.nbytes) <= SAME * mine.nbytes


def shape_of(observed: ObservedRun) -> WorldShape | None:
    """Return the layout of a run's ranks; None if the links between its nodes are unknown."""
    per_node = max(1, len(observed.ranks) // observed.nodes)
    if observed.nodes == 1:
        return WorldShape(1, NOWHERE, per_node, observed.memory)
    if observed.link is None:
        return None
    return WorldShape(observed.nodes, observed.link, per_node, observed.memory)
