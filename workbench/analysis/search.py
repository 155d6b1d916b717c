"""Choose the parameters of a sweep's trials, and prune trials, with Optuna where that is asked.

Optuna's study is kept in memory, and is a function of the trials in the store: they are asked for,
and their ends reported, in the order in which that happened. So a supervisor that follows another
one has the same study, whose sampler continues with the same numbers. A sweep of one trial after
another has the parameters that Optuna has by itself.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.core.option import check_known
from workbench.core.run.sweep import (
    GRID,
    RANDOM,
    Outcome,
    Space,
    SweepWish,
    Trial,
    choose_parameters,
)
from workbench.errors import InputError, MachineError

Curve = Sequence[tuple[int, float]]
"""A value at some iterations."""
LEAST_WEIGHED = 10
"""Below so many finished trials the best tenth of them is not one, and nothing is weighed."""
INSTALL = "install it (pip install 'dist-workbench[sweep]')."


def import_optuna() -> Any:
    """Return Optuna.

    Raises:
        MachineError: It is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        said = f"Optuna is not installed ({error})"
        raise MachineError(said, f"{INSTALL[:-1]}, or choose --sampler {RANDOM}.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def check_search(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a sweep, with the names of its sampler and pruner as they are stored.

    Args:
        given: Its options by name. ``sampler`` is ``random``, ``grid``, or the name of a sampler of
            Optuna, also without its last word: ``tpe`` is ``TPESampler``; ``pruner`` likewise.

    Raises:
        InputError: There is none of that name, or it needs more than a seed.
        MachineError: Optuna is not installed.
    """
    sampler, pruner = given.get("sampler"), given.get("pruner")
    if sampler and sampler not in (RANDOM, GRID):
        sampler = _find_name("samplers", sampler, "Sampler")
    if pruner:
        pruner = _find_name("pruners", pruner, "Pruner")
    return {**given, "sampler": sampler, "pruner": pruner}


def _find_name(module: str, name: str, ending: str) -> str:
    every = getattr(import_optuna(), module)
    names = [one for one in dir(every) if one.endswith(ending) and one not in ("Base" + ending,)]
    short = {one.lower(): one for one in names}
    short |= {one.removesuffix(ending).lower(): one for one in names}
    what = ending.lower()
    found = short.get(name.lower()) or check_known(name, names, f"{what} of Optuna called")
    needed = [
        one.name
        for one in inspect.signature(getattr(every, found)).parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    if needed:
        raise InputError(
            f"Optuna's {found} needs {' and '.join(needed)}, which a sweep cannot give",
            f"choose another {what}.",
        )
    return found


class Search:
    """Chooses the parameters of one sweep's trials.

    Args:
        sweep: The sweep.
        curve: Returns the points of a run's metric, for a pruner.
    """

    def __init__(self, sweep: SweepWish, curve: Callable[[str], Curve] = lambda _: ()) -> None:
        self._sweep, self._curve = sweep, curve
        self._study: Any = None
        self._asked: dict[int, Any] = {}
        self._ended = list[int]()
        self._reported: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<Search {self._sweep.sampler} {self._sweep.pruner}>"

    def choose(self, trials: Sequence[Trial], number: int) -> tuple[tuple[str, Any], ...]:
        """Return the parameters of the next trial.

        Args:
            trials: All that were begun.
        """
        if self._sweep.sampler in (RANDOM, GRID):
            return choose_parameters(self._sweep, number)
        self._follow(trials)
        return (*self._ask(number).params.items(),)

    def is_poor(self, trials: Sequence[Trial], trial: Trial) -> bool:
        """Return whether the pruner ends a trial that is under way, by its curve."""
        if not self._sweep.pruner:
            return False
        self._follow(trials)
        asked = self._asked[trial.number]
        self._report(asked, trial)
        return bool(asked.should_prune())

    def write_study(self, trials: Sequence[Trial], path: Path) -> None:
        """Write the study as a journal that Optuna can open, in place of an earlier one.

        Args:
            trials: All that were begun.
            path: The journal's file.
        """
        optuna = import_optuna()
        self._follow(trials)
        path.unlink(missing_ok=True)
        backend = optuna.storages.journal.JournalFileBackend(str(path))
        storage = optuna.storages.JournalStorage(backend)
        study = optuna.create_study(
            study_name=self._sweep.name, storage=storage, direction=str(self._sweep.goal)
        )
        for one in self._study.get_trials(deepcopy=False):
            if one.state.is_finished():
                study.add_trial(one)

    def weigh_parameters(self, trials: Sequence[Trial]) -> dict[str, float]:
        """Return how much each parameter matters for being among the best tenth, in all 1.

        S. Watanabe, A. Bansal, F. Hutter, "PED-ANOVA: Efficiently Quantifying Hyperparameter
        Importance in Arbitrary Subspaces", IJCAI 2023.

        Args:
            trials: All that were begun.

        Returns:
            The largest first; empty for too few trials, and without Optuna.
        """
        try:
            optuna = import_optuna()
        except MachineError:
            return {}
        self._follow(trials)
        done = self._study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
        if len(done) < LEAST_WEIGHED or len({one.value for one in done}) < 2:
            return {}
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        found = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
        return {name: float(share) for name, share in found.items()}

    def _follow(self, trials: Sequence[Trial]) -> None:
        """Bring the study to where the trials are."""
        known = [one.number for one in _by_end(trials)]
        if self._study is None or self._ended != known[: len(self._ended)]:
            self._begin()
        events = sorted(
            [(one.began, 1, one.number, one) for one in trials if one.number not in self._asked]
            + [(one.ended, 0, one.number, one) for one in _by_end(trials)[len(self._ended) :]],
            key=lambda event: event[:3],
        )
        for _, is_ask, number, one in events:
            if is_ask:
                self._ask(number)
            else:
                self._tell(one)

    def _begin(self) -> None:
        optuna, sweep = import_optuna(), self._sweep
        is_ours = sweep.sampler in (RANDOM, GRID)
        kind = getattr(optuna.samplers, "RandomSampler" if is_ours else sweep.sampler)
        seeded = "seed" in inspect.signature(kind).parameters
        self._study = optuna.create_study(
            direction=str(sweep.goal),
            sampler=kind(seed=sweep.seed) if seeded else kind(),
            pruner=getattr(optuna.pruners, sweep.pruner or "NopPruner")(),
        )
        self._asked, self._ended, self._reported = {}, [], {}

    def _ask(self, number: int) -> Any:
        if number not in self._asked:
            spaces = {name: _distribution(space) for name, space in self._sweep.spaces}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of choices that Optuna's own stores do not keep
                if self._sweep.sampler in (RANDOM, GRID):
                    self._study.enqueue_trial(dict(choose_parameters(self._sweep, number)))
                self._asked[number] = self._study.ask(spaces)
        return self._asked[number]

    def _tell(self, trial: Trial) -> None:
        states = import_optuna().trial.TrialState
        asked = self._asked[trial.number]
        self._report(asked, trial)
        if trial.outcome is Outcome.FINISHED and trial.value is not None:
            self._study.tell(asked, trial.value)
        elif trial.outcome is Outcome.PRUNED:
            self._study.tell(asked, state=states.PRUNED)
        else:
            self._study.tell(asked, state=states.FAIL)
        self._ended.append(trial.number)

    def _report(self, asked: Any, trial: Trial) -> None:
        if not self._sweep.pruner:
            return
        last = self._reported.get(trial.number, -1)
        for iteration, value in self._curve(trial.run):
            if iteration > last:
                asked.report(value, iteration)
                self._reported[trial.number] = iteration


def _by_end(trials: Sequence[Trial]) -> list[Trial]:
    ended = [one for one in trials if one.outcome.ended]
    return sorted(ended, key=lambda one: (one.ended, one.number))


def _distribution(space: Space) -> Any:
    kinds = import_optuna().distributions
    if space.choices:
        return kinds.CategoricalDistribution(space.choices)
    if space.is_whole:
        return kinds.IntDistribution(round(space.low), round(space.high))
    return kinds.FloatDistribution(space.low, space.high, log=space.is_log)
