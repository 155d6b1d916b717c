"""Read where the time of a run's steps goes, and the verdict on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.analysis.conclusion import (
    carried_sentence,
    ensure_conclusion,
    goodput_sentences,
    offer_sentences,
    read_gradient_traffic,
)
from workbench.analysis.observation import batch_of, observe_run
from workbench.core.performance.comparison import UNKNOWN_NOISE, StepSummary
from workbench.core.performance.step_sampling import mean_parts, part_names, part_seconds
from workbench.core.performance.step_verdict import judge, sentence
from workbench.core.run.metrics import Conclusion, slowest_rank
from workbench.core.run.model import Run
from workbench.store import Store


@dataclass(frozen=True)
class StepBreakdown:
    """The breakdown of a run's step time.

    Args:
        steps: Seconds per step of each part, for each rank.
        slowest: The rank that the others wait for; -1 for none.
        says: The verdict and related advice, a sentence each.
        noise: Relative variation of the step time.
        batch: Examples of all ranks in a step; 0 when unknown.
    """

    steps: Mapping[int, Mapping[str, float]]
    slowest: int = -1
    says: tuple[str, ...] = ()
    noise: float = UNKNOWN_NOISE
    batch: float = 0.0

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts, in display order."""
        return part_names(self.steps)

    @property
    def rows(self) -> dict[int, tuple[float, ...]]:
        """The seconds of each of ``parts``, for each rank in order."""
        return {rank: part_seconds(self.steps[rank], self.parts) for rank in sorted(self.steps)}

    @property
    def summary(self) -> StepSummary | None:
        """The mean over the ranks; None without measurements."""
        if not self.steps:
            return None
        return StepSummary(mean_parts(self.steps), self.noise, self.batch)


NOTHING_KNOWN = StepBreakdown({})


def read_breakdown(store: Store, run: Run, before: int = -1, *, now: float = 0.0) -> StepBreakdown:
    """Return the step breakdown: the stored one of an ended run, else of the latest steps.

    Args:
        before: The slowest rank of the previous call.
        now: Epoch seconds, for the goodput so far; 0 to leave it out.
    """
    if not run.fact.state.ended:
        return compute_breakdown(store, run, before, now=now)
    return _build_breakdown(ensure_conclusion(store, run))


def read_stored_breakdown(store: Store, run: Run) -> StepBreakdown:
    """Return the stored breakdown of ``run``, empty without one."""
    found = store.reports.conclusion(run.id) if run.fact.state.ended else None
    return _build_breakdown(found) if found else NOTHING_KNOWN


def _build_breakdown(found: Conclusion) -> StepBreakdown:
    return StepBreakdown(found.steps, found.slowest, found.says, found.noise, found.batch)


def compute_breakdown(
    store: Store, run: Run, before: int = -1, *, now: float = 0.0
) -> StepBreakdown:
    """Return the breakdown of the latest steps of ``run``.

    Args:
        before: The slowest rank of the previous call.
        now: Epoch seconds, for the goodput so far; 0 to leave it out.
    """
    steps = store.reports.steps(run.id)
    says, late = [], tuple[int, ...]()
    if observed := observe_run(store, run, steps):
        verdict = judge(observed)
        says.append(sentence(verdict, live=True))
        late = verdict.straggler.ranks if verdict.straggler else ()
    if carried := read_gradient_traffic(store, run):
        says.append(carried_sentence(carried))
    says += offer_sentences(store, run)
    if now:
        says += goodput_sentences(store, run, now)
    # The rank that the verdict names is the one that is marked.
    near = -1 if late and before not in late else before
    slowest = slowest_rank(steps, near)
    return StepBreakdown(steps, slowest, tuple(says), batch=batch_of(store, run))
