"""Read where the time of a run's steps goes, and have the verdict on it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from workbench.core.anatomy import part_names, part_seconds
from workbench.core.batch import Advice, Gauge, advise
from workbench.core.batch import sentence as batch_sentence
from workbench.core.metrics import EXCHANGE_PREFIX, GAUGE_PREFIX, slowest_rank
from workbench.core.run import Run
from workbench.core.verdict import judge, sentence
from workbench.store import Store
from workbench.view.carried import carried_of
from workbench.view.carried import sentence as carried_sentence
from workbench.view.forecasts import foretold_sentence, keep_verdict
from workbench.view.foretold import observed_run
from workbench.view.observation import observed_of


@dataclass(frozen=True)
class Anatomy:
    """Where the time of a run's steps goes.

    Args:
        steps: For each rank the seconds a step of each part.
        slowest: The rank that the others wait for; -1 for none.
        says: The verdict and what else there is to say of it, a sentence each.
    """

    steps: Mapping[int, Mapping[str, float]]
    slowest: int = -1
    says: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts in the order in which they are shown."""
        return part_names(self.steps)

    @property
    def rows(self) -> dict[int, tuple[float, ...]]:
        """For each rank, in their order, the seconds of each of ``parts``."""
        return {rank: part_seconds(self.steps[rank], self.parts) for rank in sorted(self.steps)}


NOTHING_KNOWN = Anatomy({})


def anatomy_of(store: Store, run: Run, before: int = -1) -> Anatomy:
    """Return where the time of the latest steps of ``run`` went.

    Args:
        before: The rank that was the slowest when last asked.
    """
    steps = store.steps(run.id)
    slowest = slowest_rank(steps, before)
    return Anatomy(steps, slowest, tuple(_says(store, run, steps)))


def advice_of(store: Store, run: Run) -> Advice | None:
    """Return what the gradients of ``run`` say of its batch; None while that is not known."""
    gauges = store.measured(run.id, GAUGE_PREFIX).values()
    exchanges = store.measured(run.id, EXCHANGE_PREFIX).values()
    batch = sum(one.get("batch", 0.0) for one in exchanges)
    if not gauges or not batch:
        return None
    # Each rank's estimates are as good as another's, and linear: their mean is better than each.
    signal, noise = (fmean(one[name] for one in gauges) for name in ("signal", "noise"))
    steps = min(int(one["steps"]) for one in gauges)
    return advise(Gauge(signal, noise, steps), batch)


def _says(store: Store, run: Run, steps: Mapping[int, Mapping[str, float]]) -> Iterator[str]:
    ended = run.fact.state.ended
    observed = observed_run(store, run) if ended else observed_of(store, run, steps)
    if observed is not None:
        verdict = judge(observed)
        if ended:
            keep_verdict(store, run, observed, verdict, time.time())
        yield sentence(verdict)
    if carried := carried_of(store, run):
        yield carried_sentence(carried)
    if advice := advice_of(store, run):
        yield batch_sentence(advice)
    if ended and (foretold := foretold_sentence(store, run)):
        yield foretold
