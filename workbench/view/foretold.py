"""Hold what was foretold of a run against what came, and learn from all runs that came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean, pstdev

from workbench.core.change import Observed
from workbench.core.exchange import Link
from workbench.core.learning import Correction, Outcome, corrected, learned
from workbench.core.run import Run
from workbench.core.scaling import MEASURED, RATED, Forecast, expect
from workbench.core.step import Shape, Work, step
from workbench.store import Store
from workbench.view.observation import observed_of
from workbench.view.phrases import count

# Of ranks on equal machines, where only one was measured.
SPREAD = 0.02
RUNS_LOOKED_AT = 50
# Two runs train the same model if their gradients are as many bytes.
_SAME = 0.01
# Within one node nobody measures a link, and none is crossed.
_NONE = Link(0.0, 1e12)


def observed_run(store: Store, run: Run) -> Observed | None:
    """Return what was measured of a run's steps; None when nothing was."""
    return observed_of(store, run, store.steps(run.id))


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


def correction_of(store: Store, run: Run) -> Correction:
    """Return what the runs that train the same as ``run`` teach of communication."""
    return learned(_outcomes(store, run))


def foretold_sentence(store: Store, run: Run) -> str:
    """Return what was foretold of a step of ``run`` and what came; empty where nothing was.

    It is foretold from the last run before it that trained the same, and from what had been
    learned by then.
    """
    real = observed_run(store, run)
    before = [one for one, _ in _alike(store, run) if one.wish.created < run.wish.created]
    if real is None or not before:
        return ""
    base = observed_run(store, before[0])
    if base is None or (shape := _shape(real)) is None:
        return ""
    forecast = _forecast(work_of(base), shape, real, learned(_outcomes(store, before[0])))
    came = _total(real)
    off = came / forecast.seconds - 1
    more = f"{abs(off):.0%}".replace("%", " %") + (" more" if off > 0 else " less")
    within = "" if forecast.holds(came) else ", which is beyond what was thought possible"
    return (
        f"Foretold from run {before[0].wish.name} on {count(len(base.ranks), 'rank')}: "
        f"{_ms(forecast.seconds)} a step ({_ms(forecast.low)} to {_ms(forecast.high)}); "
        f"it took {_ms(came)}, {more}{within}."
    )


def _forecast(work: Work, shape: Shape, real: Observed, correction: Correction) -> Forecast:
    """Return the seconds of one step, corrected by what was learned."""
    tolerance = MEASURED if real.link else RATED
    found = expect(work, shape, work.batch * shape.ranks, tolerance=tolerance)
    seconds = corrected(work.own, found.seconds, correction)
    scale = seconds / found.seconds
    return replace(found, seconds=seconds, low=found.low * scale, high=found.high * scale)


def _outcomes(store: Store, run: Run) -> Iterator[Outcome]:
    """Give for each run of several ranks what the model says of it, and what it took."""
    for _, observed in _alike(store, run):
        shape = _shape(observed)
        if shape is not None and shape.ranks > 1 and observed.coding.ratio == 1:
            work = replace(work_of(observed), spread=0.0)
            moving = fmean(one.moving for one in observed.ranks)
            yield Outcome(work.own, step(work, shape).total, work.own + moving)


def _alike(store: Store, run: Run) -> Iterator[tuple[Run, Observed]]:
    """Give the newest runs of the same cluster that train the same, ``run`` among them."""
    mine = observed_run(store, run)
    if mine is None:
        return
    for one in store.runs(run.wish.cluster, limit=RUNS_LOOKED_AT):
        found = mine if one.id == run.id else observed_run(store, one)
        if found and abs(found.nbytes - mine.nbytes) <= _SAME * mine.nbytes:
            yield one, found


def _shape(observed: Observed) -> Shape | None:
    """Return where a run's ranks are; None where nobody knows what is between its nodes."""
    per_node = max(1, len(observed.ranks) // observed.nodes)
    if observed.nodes == 1:
        return Shape(1, _NONE, per_node, observed.memory)
    if observed.link is None:
        return None
    return Shape(observed.nodes, observed.link, per_node, observed.memory)


def _total(observed: Observed) -> float:
    return fmean(one.total for one in observed.ranks)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"
