"""Begin the trials of a cluster's sweeps, note how they end, and prune them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from workbench.analysis.search import Search
from workbench.core.cluster.side_worlds import places_for
from workbench.core.fleet.cost import FleetCost
from workbench.core.moment import Moment
from workbench.core.run.model import Run
from workbench.core.run.sweep import (
    Outcome,
    SweepFact,
    SweepWish,
    Trial,
    choose_ranks,
    next_step,
    outcome_of,
)
from workbench.core.world.world import World
from workbench.errors import Unknown, WorkbenchError
from workbench.requests.run import new_run_id
from workbench.store import Store

log = logging.getLogger("workbench.supervisor")

PRUNE_SECONDS = 1.0
PRUNED = "Its sweep's pruner ended it, because other trials were better at this iteration."


class TrialQueue:
    """Queues the trials of one cluster's sweeps."""

    def __init__(self, store: Store, cluster: str, now: Callable[[], Moment]) -> None:
        self._store, self._cluster, self._now = store, cluster, now
        self._searches: dict[str, Search] = {}
        self._unfinished: list[SweepWish] = []
        self.runs = set[str]()
        """The runs of the trials that have not ended."""
        self.coming = 0
        """How many trials are still to be queued."""
        self._ending = dict[str, str]()  # why the runs of some trials are to stop
        self._pruned = -math.inf

    def __repr__(self) -> str:
        return f"<TrialQueue of {self._cluster!r}, {len(self._unfinished)} sweeps>"

    @property
    def has_sweeps(self) -> bool:
        """Whether a sweep is not over."""
        return bool(self._unfinished)

    def turn(self, target: World | None, *, is_ending: bool = False) -> None:
        """Note which trials have ended, and begin the next ones.

        Args:
            target: The desired world; None while it is unknown.
            is_ending: Whether the cluster is being taken down, which stops its sweeps.
        """
        self._unfinished = self._store.sweeps.unfinished(self._cluster)
        self.coming = 0
        self._ending.clear()
        self.runs.clear()
        for sweep in self._unfinished:
            try:
                self._advance(replace(sweep, stop=sweep.stop or is_ending), target)
            except WorkbenchError as error:
                log.warning("Sweep %r: %s", sweep.name, error)
                self._store.sweeps.close(sweep.id, SweepFact(str(error), has_failed=True))
        self._searches = {
            one.id: self._searches[one.id] for one in self._unfinished if one.id in self._searches
        }

    def _advance(self, sweep: SweepWish, target: World | None) -> None:
        trials = [self._see(sweep, one) for one in self._store.sweeps.trials(sweep.id)]
        now, cost = self._now().wall, self._find_cost(sweep)
        self._ending |= {one.run: PRUNED for one in _running(trials) if one.is_pruned}
        size = target.size if target else 0
        while True:
            left = sweep.trials - sum(one.outcome.ended for one in trials)
            ranks = choose_ranks(sweep.ranks, size, left)
            step = next_step(sweep, trials, places_for(target, ranks), now, cost, self._unit)
            if step.begin is None:
                break
            trials.append(self._begin(sweep, trials, step.begin, ranks, now))
        self.runs |= {one.run for one in _running(trials)}
        self.coming += 0 if step.end.over or sweep.stop else sweep.trials - len(trials)
        if step.halt:
            self._ending |= {one.run: step.halt for one in _running(trials)}
        if step.end.over:
            log.info("Sweep %r is over: %s", sweep.name, step.end.over)
            self._store.sweeps.close(sweep.id, replace(step.end, spent=cost.spent))

    def _find_cost(self, sweep: SweepWish) -> FleetCost:
        """Return what the sweep has cost, and what its cluster costs an hour."""
        spent = self._store.fleets.spent(self._cluster)
        price = sum(node.price for node in self._store.fleets.nodes(self._cluster))
        return FleetCost(max(0.0, spent - sweep.base), price)

    @property
    def _unit(self) -> str:
        wish = self._store.cluster_wish(self._cluster)
        return wish.fleet.place.unit if wish else ""

    def _begin(
        self, sweep: SweepWish, trials: list[Trial], number: int, ranks: int, now: float
    ) -> Trial:
        chosen = self._find_search(sweep).choose(trials, number)
        options = sweep.run.options
        run = replace(
            sweep.run,
            id=new_run_id(now),
            name=f"{sweep.name}-{number}",
            options=replace(
                options, ranks=ranks or None, parameters=(*options.parameters, *chosen)
            ),
            created=now,
        )
        trial = Trial(sweep.id, number, chosen, run.id, began=now)
        self._store.sweeps.begin(trial, run)
        return trial

    def _find_search(self, sweep: SweepWish) -> Search:
        curve = partial(self._store.sweeps.curve, metric=sweep.metric)
        return self._searches.setdefault(sweep.id, Search(sweep, curve))

    def _see(self, sweep: SweepWish, trial: Trial) -> Trial:
        """Return a trial as it is now, and write it if it has ended since."""
        if trial.outcome.ended:
            return trial
        try:
            run = self._store.run(trial.run)
        except Unknown:
            seen = replace(trial, outcome=Outcome.STOPPED, ended=self._now().wall)
        else:
            seen = see_trial(sweep, trial, run, self._store.reports.final_values(run.id))
        if seen.outcome.ended:
            self._store.sweeps.put(seen)
        return seen

    def why_stopped(self, run: str) -> str:
        """Return why a trial is to stop without a request of the user, a sentence; or empty."""
        return self._ending.get(run, "")

    def prune(self, now: Moment) -> bool:
        """Ask pruners about trials that are under way; return whether one is to stop."""
        if now.steady - self._pruned < PRUNE_SECONDS:
            return False
        self._pruned, found = now.steady, False
        for sweep in self._unfinished:
            if not sweep.pruner:
                continue
            trials = self._store.sweeps.trials(sweep.id)
            for trial in trials:
                if trial.outcome.ended or trial.is_pruned:
                    continue
                if self._find_search(sweep).is_poor(trials, trial):
                    self._store.sweeps.put(replace(trial, is_pruned=True))
                    found = True
        return found


def _running(trials: Sequence[Trial]) -> list[Trial]:
    return [one for one in trials if not one.outcome.ended]


def see_trial(sweep: SweepWish, trial: Trial, run: Run, values: dict[str, float]) -> Trial:
    """Return a trial as its run is now.

    Args:
        values: The last value of each name that the run has reported.
    """
    outcome, fact = outcome_of(run.fact.state, is_pruned=trial.is_pruned), run.fact
    value = values.get(sweep.metric)
    failure = fact.failure or fact.message if outcome is Outcome.FAILED else ""
    if outcome is Outcome.FINISHED and value is None:
        known = ", ".join(sorted(values)) or "nothing"
        outcome = Outcome.FAILED
        failure = f"it has reported no {sweep.metric!r}, but {known}"
    return replace(trial, outcome=outcome, value=value, failure=failure, ended=fact.ended)
