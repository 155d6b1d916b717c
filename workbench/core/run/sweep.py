"""A sweep: many trials of one cell or script, each with other parameters.

A trial is a run. A sweep says which parameters are searched, and how many trials there are. What
comes next is decided from what its trials have reached; the same trials always give the same
decision, so that a supervisor that is followed by another one repeats none and leaves none out.
"""

from __future__ import annotations

import ast
import itertools
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Any

from workbench.core.cluster.model import DEFAULT_CLUSTER
from workbench.core.fleet.cost import RESERVE_SECONDS, FleetCost, is_used_up
from workbench.core.run.model import RunState, RunWish
from workbench.core.units import dollars
from workbench.errors import InputError

RANDOM, GRID = "random", "grid"
MOST_TRIALS = 100_000
FREE = FleetCost(0.0, 0.0)
SAME_FAILURES = 3
"""As many trials that failed the same way end a sweep: the next ones would fail, too."""

_FORMS = {"uniform": (False, False), "log": (False, True), "int": (True, False)}


class Goal(StrEnum):
    """Which value of a metric is the best one."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


@dataclass(frozen=True)
class Space:
    """The values that one parameter may have: a list, or all between two numbers.

    Args:
        choices: The list; empty for a range.
        low: The smallest value of a range.
        high: The largest one.
        is_whole: Whether only whole numbers are in the range.
        is_log: Whether each factor is as likely as any other, not each difference.
    """

    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_whole: bool = False
    is_log: bool = False

    @property
    def values(self) -> tuple[Any, ...]:
        """Every value; empty for a range of fractions."""
        if self.choices or not self.is_whole:
            return self.choices
        return (*range(round(self.low), round(self.high) + 1),)

    def draw(self, source: random.Random) -> Any:
        """Return a value by chance."""
        if self.choices:
            return source.choice(self.choices)
        if self.is_log:
            return math.exp(source.uniform(math.log(self.low), math.log(self.high)))
        if self.is_whole:
            return source.randint(round(self.low), round(self.high))
        return source.uniform(self.low, self.high)

    def __str__(self) -> str:
        if self.choices:
            return f"[{', '.join(map(repr, self.choices))}]"
        name = next(name for name, kind in _FORMS.items() if kind == (self.is_whole, self.is_log))
        return f"{name}({self.low:g}, {self.high:g})"


def read_space(name: str, value: object) -> Space:
    """Return the values that a parameter of a sweep may have, as its user wrote them.

    A list is its values. ``uniform(0, 1)``, ``log(1e-4, 0.1)`` and ``int(1, 8)`` are ranges, and
    ``1..8`` is short for the last. All else is one value.

    Raises:
        InputError: A list is empty, or a range is not one.
    """
    if isinstance(value, list | tuple):
        if not value:
            raise InputError(f"The list of {name} is empty", f"write {name}=[0.1,0.2].")
        return Space((*value,))
    if not isinstance(value, str):
        return Space((value,))
    form, numbers = _read_range(value)
    if not form:
        return Space((value,))
    is_whole, is_log = _FORMS[form]
    example = f"write {name}={form}({'1, 8' if is_whole else '0.001, 0.1'})."
    if len(numbers) != 2 or not all(map(math.isfinite, numbers)) or numbers[0] > numbers[1]:
        said = f"{name}={value} is not a range from a smaller to a larger number"
        raise InputError(said, example)
    if is_log and numbers[0] <= 0:
        raise InputError(f"{name}={value} begins at {numbers[0]:g}, and log needs more", example)
    if is_whole and any(number != int(number) for number in numbers):
        raise InputError(f"{name}={value} is not a range of whole numbers", example)
    return Space((), *numbers, is_whole, is_log)


def _read_range(text: str) -> tuple[str, tuple[float, ...]]:
    """Return name and numbers of a range; an empty name if the text is none."""
    low, dots, high = text.partition("..")
    written = f"int({low}, {high})" if dots else text
    try:
        call = ast.parse(written.strip(), mode="eval").body
        match call:
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FORMS:
                return name, tuple(float(ast.literal_eval(one)) for one in call.args)
    except (SyntaxError, ValueError, TypeError):
        pass
    return "", ()


class Outcome(StrEnum):
    """How a trial ended, or that it has not."""

    RUNNING = "running"
    FINISHED = "finished"
    PRUNED = "pruned"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def ended(self) -> bool:
        """Whether the trial has ended."""
        return self is not Outcome.RUNNING


@dataclass(frozen=True)
class SweepWish:
    """What a user asked for: trials of one cell or script with different parameters.

    Args:
        id: Unique over machines, as a run's.
        name: Name for the user; trials are named after it.
        run: What each trial runs, without its parameters that are searched.
        spaces: The searched parameters.
        trials: The number of trials.
        metric: The name of the value that is compared, as the training reports it; its last one
            counts.
        goal: Whether the smallest or the largest is the best.
        sampler: ``random``, ``grid``, or the name of a sampler of Optuna.
        pruner: The name of a pruner of Optuna; empty for none.
        seed: Of all that is chosen by chance.
        ranks: The least and the most ranks of a trial; zeros for all.
        wall_clock_limit: Seconds after ``began`` from which on no further trial begins; 0 for none.
        budget: $ of the cluster's nodes while it is not over; 0 for no limit.
        created: Epoch seconds.
        began: Epoch seconds at which it was asked for, or last continued.
        base: $ that the cluster had cost then, less those of the sweep itself.
        stop: Whether a stop was requested.
    """

    id: str
    name: str
    run: RunWish
    spaces: tuple[tuple[str, Space], ...]
    trials: int
    metric: str
    goal: Goal = Goal.MINIMIZE
    sampler: str = RANDOM
    pruner: str = ""
    seed: int = 0
    ranks: tuple[int, int] = (0, 0)
    wall_clock_limit: float = 0.0
    budget: float = 0.0
    created: float = 0.0
    began: float = 0.0
    base: float = 0.0
    stop: bool = False
    cluster: str = DEFAULT_CLUSTER


@dataclass(frozen=True)
class Trial:
    """One trial, as it was begun and as it was last seen.

    Args:
        number: Its place in the sweep, from 0.
        parameters: The values of the searched parameters.
        run: The id of the run.
        outcome: How it ended.
        value: The last value of the metric; None without one.
        failure: The last line of its error; empty for none.
        began: Epoch seconds at which it was queued.
        ended: Epoch seconds; 0 before.
        is_pruned: Whether its pruner has asked that it stops.
    """

    sweep: str
    number: int
    parameters: tuple[tuple[str, Any], ...]
    run: str
    outcome: Outcome = Outcome.RUNNING
    value: float | None = None
    failure: str = ""
    began: float = 0.0
    ended: float = 0.0
    is_pruned: bool = False


@dataclass(frozen=True)
class SweepFact:
    """How a sweep ended.

    Args:
        over: Why it is over, a sentence; empty while it is not.
        has_failed: Whether its trials failed.
        spent: $ of the cluster's nodes meanwhile, once it is over.
    """

    over: str = ""
    has_failed: bool = False
    spent: float = 0.0


@dataclass(frozen=True)
class SweepStep:
    """What a sweep does next.

    Args:
        begin: The number of the next trial; None for none now.
        halt: Why the trials under way are to stop, a sentence; empty if they are not.
        end: That it is over, and why.
    """

    begin: int | None = None
    halt: str = ""
    end: SweepFact = SweepFact()


def check_sweep(sweep: SweepWish) -> SweepWish:
    """Return a sweep that can be done.

    Raises:
        InputError: A value of it is not valid.
    """
    if not sweep.spaces:
        raise InputError(
            "A sweep needs a parameter with several values",
            "add one, such as --param lr=[0.1,0.2] or --param 'lr=log(0.001, 0.1)'.",
        )
    if not 1 <= sweep.trials <= MOST_TRIALS:
        raise InputError(f"--trials must be from 1 to {MOST_TRIALS:,}, not {sweep.trials}.")
    if sweep.budget < 0 or not math.isfinite(sweep.budget):
        raise InputError(f"--sweep-budget must be an amount above 0, not {sweep.budget:g}.")
    if sweep.sampler == GRID and sweep.trials > (most := count_grid(sweep.spaces)):
        raise InputError(
            f"The grid has {most} combinations, and --trials asks for {sweep.trials}",
            f"ask for at most {most}, or choose --sampler {RANDOM}.",
        )
    return sweep


def count_grid(spaces: Sequence[tuple[str, Space]]) -> int:
    """Return the number of combinations of all values.

    Raises:
        InputError: A parameter has no list of values.
    """
    for name, space in spaces:
        if not space.values:
            raise InputError(
                f"A grid needs a list of values of {name}, not {space}",
                f"write {name}=[…], or choose --sampler {RANDOM}.",
            )
    return math.prod(len(space.values) for _, space in spaces)


def usual_trials(spaces: Sequence[tuple[str, Space]]) -> int:
    """Return how many trials there are if no number was given: each combination once.

    Raises:
        InputError: They cannot be counted.
    """
    if all(space.values for _, space in spaces):
        return count_grid(spaces)
    name = next(name for name, space in spaces if not space.values)
    raise InputError(f"{name} has no end of values", "say how many trials to make (--trials 20).")


def choose_parameters(sweep: SweepWish, number: int) -> tuple[tuple[str, Any], ...]:
    """Return the parameters of a trial of a grid, or by chance: each number has its own."""
    if sweep.sampler == GRID:
        every = itertools.product(*(space.values for _, space in sweep.spaces))
        chosen = next(itertools.islice(every, number, None))
        return (*zip((name for name, _ in sweep.spaces), chosen, strict=True),)
    source = random.Random(f"{sweep.seed} {number}")
    return tuple((name, space.draw(source)) for name, space in sweep.spaces)


def next_step(
    sweep: SweepWish,
    trials: Sequence[Trial],
    places: int,
    now: float,
    cost: FleetCost = FREE,
    unit: str = "",
) -> SweepStep:
    """Return what a sweep does next; the same trials give the same step.

    Args:
        trials: All that were begun.
        places: How many may be under way at once.
        now: Epoch seconds.
        cost: What the sweep has cost, and what its cluster costs now.
        unit: What is charged in place of $.
    """
    running = [one for one in trials if not one.outcome.ended]
    failures = Counter(one.failure for one in trials if one.outcome is Outcome.FAILED)
    same = next((why for why, many in failures.items() if many >= SAME_FAILURES), None)
    if same is not None:
        why = f"{SAME_FAILURES} trials failed the same way: {same}"
        return SweepStep(end=SweepFact() if running else SweepFact(why, has_failed=True))
    done = len(trials) - len(running)
    limit = sweep.wall_clock_limit
    is_late = bool(limit) and now >= sweep.began + limit
    is_poor = is_used_up(cost.spent, cost.price, sweep.budget, _reserve(trials))
    budget = f"budget of {dollars(sweep.budget, unit)}"
    if sweep.stop or is_late or is_poor or len(trials) >= sweep.trials:
        if running:
            ends = is_used_up(cost.spent, cost.price, sweep.budget)
            return SweepStep(halt=f"The {budget} of its sweep is used up." if ends else "")
        if sweep.stop:
            why = f"It was stopped after {done} of {sweep.trials} trials."
        elif done < sweep.trials:
            what = (
                f"Its {budget} leaves no room for another trial" if is_poor else "Its time is over"
            )
            why = f"{what} after {done} of {sweep.trials} trials."
        else:
            why = f"All {sweep.trials} trials have ended."
        has_failed = all(one.outcome is Outcome.FAILED for one in trials)
        return SweepStep(end=SweepFact(why, has_failed=has_failed and bool(trials)))
    if len(running) >= places:
        return SweepStep()
    return SweepStep(begin=len(trials))


def _reserve(trials: Sequence[Trial]) -> float:
    """Return the seconds for which the budget has to last so that another trial begins.

    It is the mean of those that finished, as a trial that is stopped half way is money for nothing.
    """
    took = [one.ended - one.began for one in trials if one.outcome is Outcome.FINISHED]
    return max(RESERVE_SECONDS, fmean(took) if took else 0.0)


def read_ranks(text: str) -> tuple[int, int]:
    """Return the least and the most ranks of a trial, from a text like ``2`` or ``1..4``.

    Raises:
        ValueError: It is neither.
    """
    low, dots, high = text.partition("..")
    least, most = int(low), int(high if dots else low)
    if not 1 <= least <= most:
        raise ValueError
    return least, most


def choose_ranks(ranks: tuple[int, int], size: int, left: int) -> int:
    """Return the ranks of the next trial; 0 for all.

    While more trials are left than run at once with the least ranks, each has these: so the ranks
    lose no time to each other. The last ones share what is there.

    Args:
        ranks: The least and the most of them; zeros for all.
        size: The ranks of the cluster; 0 while unknown.
        left: The trials that are left, with those that are under way.
    """
    least, most = ranks
    if least == most or not size:
        return least
    at_once = max(1, min(left, size // least))
    return max(least, min(most, size // at_once))


def outcome_of(state: RunState, *, is_pruned: bool) -> Outcome:
    """Return how a trial ended, by its run's state."""
    if not state.ended:
        return Outcome.RUNNING
    if state is RunState.STOPPED:
        return Outcome.PRUNED if is_pruned else Outcome.STOPPED
    return Outcome.FINISHED if state is RunState.FINISHED else Outcome.FAILED


def rank_trials(sweep: SweepWish, trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that finished with a value, the best first."""
    sign = 1.0 if sweep.goal is Goal.MINIMIZE else -1.0
    found = [
        (sign * one.value, one.number, one)
        for one in trials
        if one.outcome is Outcome.FINISHED and one.value is not None and math.isfinite(one.value)
    ]
    return [one for _, _, one in sorted(found, key=lambda each: each[:2])]


def split_parameters(
    given: Mapping[str, Any],
) -> tuple[tuple[tuple[str, Space], ...], tuple[tuple[str, Any], ...]]:
    """Return the parameters that are searched, and those with one value.

    Raises:
        InputError: A range is not one.
    """
    spaces = {name: read_space(name, value) for name, value in given.items()}
    fixed = tuple((name, given[name]) for name, one in spaces.items() if _is_fixed(one))
    return tuple((n, one) for n, one in spaces.items() if not _is_fixed(one)), fixed


def _is_fixed(space: Space) -> bool:
    return len(space.choices) == 1
