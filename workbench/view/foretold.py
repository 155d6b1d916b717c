"""Foretell a run from those before it, and learn from what came of all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import fmean, pstdev

from workbench.core.change import Observed
from workbench.core.exchange import Algorithm, Coding, Link
from workbench.core.forecast import SAME
from workbench.core.learning import Correction, Outcome, corrected, learned, varied
from workbench.core.metrics import EXCHANGE_PREFIX
from workbench.core.run import Run, RunKind
from workbench.core.scaling import MEASURED, NOISE, RATED, SURE, Forecast, expect
from workbench.core.step import Shape, Work, step
from workbench.store import Store
from workbench.view.observation import gradient_bytes, observed_of

# Of ranks on equal machines, where only one was measured.
SPREAD = 0.02
RUNS_LOOKED_AT = 50
# Within one node nobody measures a link, and none is crossed.
NOWHERE = Link(0.0, 1e12)
# What ended does not change, and is asked for again and again.
MOST_MEANS = 500
_means: dict[tuple[str, str, float], dict[int, dict[str, float]]] = {}


def observed_run(store: Store, run: Run) -> Observed | None:
    """Return what was measured of a run's steps; None when nothing was."""
    if not run.fact.state.ended:
        return observed_of(store, run, store.steps(run.id))
    key = (str(store.path), run.id, run.fact.ended)
    if key not in _means:
        if len(_means) >= MOST_MEANS:
            _means.clear()
        _means[key] = store.mean_steps(run.id)
    return observed_of(store, run, _means[key])


def work_of(observed: Observed) -> Work:
    """Return what one rank does in a step, as a run shows it."""
    compute = [one.compute for one in observed.ranks]
    mean = fmean(compute)
    return Work(
        compute=mean,
        nbytes=observed.nbytes,
        batch=observed.batch,
        data=fmean(one.data for one in observed.ranks),
        other=fmean(one.other for one in observed.ranks),
        messages=observed.messages,
        spread=pstdev(compute) / mean if len(compute) > 1 and mean else SPREAD,
        hidden=observed.hidden,
    )


def correction_of(runs: Iterable[tuple[Run, Observed]], *, ours: bool) -> Correction:
    """Return what runs that train the same, the newest of which comes first, teach.

    Args:
        ours: Whether of our communicator, or of all others.
    """
    return learned(_outcomes(runs, ours))


def scatter_of(runs: Iterable[tuple[Run, Observed]]) -> float:
    """Return by how much, relatively, the step of one training differs from run to run."""
    repeats: dict[tuple[object, ...], list[float]] = {}
    for _, one in runs:
        done = (one.nodes, len(one.ranks), one.batch, one.coding.codec, one.ours, one.stale)
        repeats.setdefault(done, []).append(fmean(rank.total for rank in one.ranks))
    return varied(repeats.values(), NOISE)


def forecast_from(store: Store, run: Run, real: Observed) -> tuple[Run, Observed, Forecast] | None:
    """Return what the last run before that trained the same foretells of a step of ``run``.

    It is foretold with what had been learned by then.
    """
    before = [pair for pair in alike(store, run) if pair[0].wish.created < run.wish.created]
    if not before or (shape := shape_of(real)) is None:
        return None
    last, base = before[0]
    work = trained_as(work_of(base), base, real)
    coding = next(one for one in base.codings if one.codec is real.coding.codec)
    correction = correction_of(before, ours=real.ours)
    return last, base, step_forecast(
        work, shape, coding, correction, real.link is not None, scatter=scatter_of(before)
    )  # fmt: skip


def trained_as(work: Work, base: Observed, other: Observed) -> Work:
    """Return what a rank does where the exchange is not as in ``base`` but as in ``other``."""
    if not other.ours:
        return replace(work, hidden=0.0, messages=other.messages)
    if base.ours and base.stale == other.stale:
        return replace(work, messages=1)
    room = base.delayed if other.stale else base.overlapped if other.nodes > 1 else 0.0
    return replace(work, hidden=room, messages=1)


def step_forecast(
    work: Work,
    shape: Shape,
    coding: Coding,
    correction: Correction,
    measured: bool,
    algorithm: Algorithm | None = None,
    noise: float = NOISE,
    scatter: float = NOISE,
) -> Forecast:
    """Return the seconds of one step, corrected by what was learned.

    Args:
        noise: By how much, relatively, a rank's own work may be off.
        scatter: By how much a step differs from run to run, other things being equal.
    """
    tolerance = MEASURED if measured else RATED
    found = expect(
        work, shape, work.batch * shape.ranks,
        tolerance=tolerance, coding=coding, algorithm=algorithm, noise=noise,
    )  # fmt: skip
    seconds = corrected(work.own, found.seconds, correction)
    scale, apart = seconds / found.seconds, 1.0
    if scatter > NOISE:  # the forecast rests on one such run, and is held against another
        apart = math.exp(SURE * math.sqrt(2) * scatter)
    low, high = min(found.low * scale, seconds / apart), max(found.high * scale, seconds * apart)
    return replace(found, seconds=seconds, low=low, high=high)


def _outcomes(runs: Iterable[tuple[Run, Observed]], ours: bool) -> Iterator[Outcome]:
    """Give for each run of several ranks what the model says of it, and what it took."""
    for _, observed in runs:
        shape = shape_of(observed)
        if shape is not None and shape.ranks > 1 and observed.ours == ours:
            work = replace(work_of(observed), spread=0.0, hidden=0.0)
            moving = max(fmean(one.moving for one in observed.ranks), observed.whole)
            parts = step(work, shape, coding=observed.coding, algorithm=algorithm_of(observed))
            yield Outcome(work.own, parts.total, work.own + moving)


def algorithm_of(observed: Observed) -> Algorithm | None:
    """Return by what an exchange goes; None for the quickest, which ours takes."""
    return None if observed.ours else Algorithm.MPI


def alike(store: Store, run: Run) -> Iterator[tuple[Run, Observed]]:
    """Give the newest runs of the same cluster that train the same, ``run`` among them."""
    mine = observed_run(store, run)
    if mine is None:
        return
    for one in store.runs(run.wish.cluster, limit=RUNS_LOOKED_AT):
        if one.id == run.id:
            yield run, mine
        elif _is_alike(store, one, mine) and (found := observed_run(store, one)):
            yield one, found


def _is_alike(store: Store, run: Run, mine: Observed) -> bool:
    if run.wish.kind is RunKind.MEASUREMENT:
        return False
    told = store.measured(run.id, EXCHANGE_PREFIX)
    nbytes = gradient_bytes(next(iter(told.values()), {}))
    return abs(nbytes - mine.nbytes) <= SAME * mine.nbytes


def shape_of(observed: Observed) -> Shape | None:
    """Return where a run's ranks are; None where nobody knows what is between its nodes."""
    per_node = max(1, len(observed.ranks) // observed.nodes)
    if observed.nodes == 1:
        return Shape(1, NOWHERE, per_node, observed.memory)
    if observed.link is None:
        return None
    return Shape(observed.nodes, observed.link, per_node, observed.memory)
