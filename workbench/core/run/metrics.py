"""Group and summarize what ranks report: curves, folded output, progress."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from statistics import median
from typing import Literal, get_args

from workbench.core.performance.comparison import UNKNOWN_NOISE
from workbench.core.performance.step_sampling import own_work
from workbench.core.run.model import RunFact

# Equal lines are searched this far ahead, which limits the work if ranks differ a lot.
FOLD_WINDOW = 200
MAX_GROUPS = 6
MOST_DRAWN = 50
STEP_PREFIX = "step/"
EXCHANGE_PREFIX = "exchange/"
NOISE_PREFIX = "gradient_noise/"
PACE_SECONDS = 5.0
# How much longer than usual a rank must work to count as the slowest.
STANDS_OUT = 1.05
Family = Literal["loss", "share", "other"]
_NAMES = 1_024  # names whose meaning is remembered
FAMILIES: tuple[Family, ...] = get_args(Family)  # in the order in which they are shown

_CLOCKS = frozenset({"elapsed_time", "epoch", "iteration", "time", "step", "timestamp"})
_VALIDATION = frozenset({"validation", "valid", "val", "test", "eval", "evaluation", "dev"})
_TRAINING = frozenset({"main", "train", "training"})
_LOSS = re.compile(r"loss|nll|perplexity|cost|error|\bmse\b|\bmae\b")
_ACCURACY = re.compile(r"acc|top.?\d|\bf1\b|precision|recall|\bauc\b|\biou\b|score|bleu")


@dataclass(frozen=True)
class Conclusion:
    """The results of a run that has ended: computed once, and the same in every view.

    Args:
        values: The last value of every name.
        steps: For each rank the mean seconds per step of each part.
        slowest: The rank that the others waited for; -1 for none.
        says: The verdict and the other sentences on the time of a step.
        noise: Relative variation of the time of a step.
        batch: Examples of all ranks per step; 0 if unknown.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    slowest: int = -1
    says: tuple[str, ...] = ()
    noise: float = UNKNOWN_NOISE
    batch: float = 0.0


@dataclass(frozen=True)
class FoldedLine:
    """One line of output and the ranks that wrote it."""

    ranks: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class MetricGroup:
    """Curves of one quantity, which share axes.

    Args:
        quantity: The quantity of the curves, such as ``loss``.
        names: Their full names, training before validation.
    """

    quantity: str
    names: tuple[str, ...]


def fold_lines(outputs: Mapping[int, Sequence[str]]) -> list[FoldedLine]:
    """Merge the output lines of several ranks, with identical ones once; the order is kept.

    Lines of one rank between two shared lines come after those of lower ranks there.

    Args:
        outputs: The lines of each rank.
    """
    texts: list[str] = []
    owners: list[list[int]] = []
    for rank in sorted(outputs):
        known = set(texts)
        at = 0
        own: list[str] = []
        for line in outputs[rank]:
            found = _find(texts, line, at) if line in known else -1
            if found < 0:
                own.append(line)
                continue
            owners[found].append(rank)
            texts[found:found] = own
            owners[found:found] = [[rank] for _ in own]
            at = found + len(own) + 1
            own = []
        texts += own
        owners += [[rank] for _ in own]
    return [FoldedLine(tuple(o), t) for o, t in zip(owners, texts, strict=True)]


def fraction_done(fact: RunFact) -> float | None:
    """Return the completed share of the run, from 0 to 1; None if no total is known."""
    if fact.iterations_total > 0:
        done = fact.iteration / fact.iterations_total
    elif fact.epochs_total > 0:
        done = fact.epoch / fact.epochs_total
    else:
        return None
    return min(1.0, max(0.0, done))


def seconds_left(fact: RunFact, now: float) -> float | None:
    """Return the remaining seconds at the mean pace of the run's attempt; None if unknown.

    Args:
        now: Epoch seconds.
    """
    done = fraction_done(fact)
    if not done or not fact.started or fact.state.ended:
        return None
    if fact.attempt > 1:
        if not fact.resumed:
            return None
        pace = (fact.iteration - fact.resumed_at) / max(now - fact.resumed, 1e-9)
        return fact.iteration * (1 - done) / done / pace if pace > 0 else None
    return max(0.0, now - fact.started) * (1 - done) / done


def iterations_to_do(fact: RunFact) -> int:
    """Return the total number of iterations; 0 if unknown.

    If the run has a number of epochs, this is an estimate that keeps changing.
    """
    return fact.iterations_total if fact.state.ended or not fact.epochs_total else 0


def seconds_taken(fact: RunFact, now: float) -> float:
    """Return how long a run has taken in all its attempts, without waiting between them."""
    return fact.trained_before + attempt_seconds(fact, fact.ended or now)


def attempt_seconds(fact: RunFact, until: float) -> float:
    """Return how long the present attempt has taken.

    A first one begins when a rank does, and another one when it has read its snapshot.

    Args:
        until: Epoch seconds at which it ended, or now.
    """
    began = fact.resumed or (fact.started if fact.attempt == 1 else 0.0)
    return max(0.0, until - began) if began else 0.0


class Pace:
    """The recent speed of a run, over about ``PACE_SECONDS``."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, iteration: int) -> None:
        """Record that the run was at ``iteration`` at ``now``, in epoch seconds."""
        if self._seen and (now < self._seen[-1][0] or iteration < self._seen[-1][1]):
            self._seen.clear()  # the clock was set back, or the run resumed
        self._seen.append((now, iteration))
        while len(self._seen) > 2 and now - self._seen[0][0] > PACE_SECONDS:
            self._seen.popleft()

    @property
    def rate(self) -> float:
        """Iterations per second; 0 while unknown."""
        if len(self._seen) < 2:
            return 0.0
        (before, first), (now, last) = self._seen[0], self._seen[-1]
        return (last - first) / (now - before) if now > before else 0.0


@lru_cache(_NAMES)
def is_clock(name: str) -> bool:
    """Return whether ``name`` only counts time or steps, and so has no curve."""
    return _parts(name)[-1] in _CLOCKS


def is_measured(name: str) -> bool:
    """Return whether ``name`` was measured by workbench, and not reported by the training."""
    return name.startswith((STEP_PREFIX, EXCHANGE_PREFIX, NOISE_PREFIX))


def slowest_rank(steps: Mapping[int, Mapping[str, float]], before: int = -1) -> int:
    """Return the rank that the others wait for; -1 if none does.

    Args:
        steps: For each rank the seconds per step of each part, including ``communication``.
        before: The previous result, which is kept while it is nearly the slowest.
    """
    work = {rank: own_work(parts) for rank, parts in steps.items()}
    if len(work) < 2:
        return -1
    slowest = max(work, key=lambda rank: (work[rank], -rank))
    usual = sorted(work.values())[(len(work) - 1) // 2]
    if work[slowest] < usual * STANDS_OUT:
        return -1
    return before if work.get(before, 0.0) > work[slowest] / STANDS_OUT else slowest


def last_value(latest: Iterable[tuple[int, float]]) -> float:
    """Return the last value of a name: the median over the ranks at its last iteration.

    It is the end of the line in a chart. Ranks that are behind do not count; neither do values that
    are not finite, unless there are no others: then it is ``nan``.

    Args:
        latest: For each rank its last reported iteration, and the value there.
    """
    latest = [*latest]
    last = max(iteration for iteration, _ in latest)
    found = [value for iteration, value in latest if iteration == last and math.isfinite(value)]
    return median(found) if found else math.nan


def select_reported(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values that the training itself reported, in the order of ``group_names``."""
    return {name: values[name] for name in drawn(values)}


def drawn(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names whose curves and values a view shows: the first of ``group_names``."""
    every = (name for group in group_names(names) for name in group.names)
    return tuple(islice(every, MOST_DRAWN))


def format_left_out(names: Collection[str]) -> str:
    """Return how many of the reported names no view shows, as text; empty for none."""
    others = sum(len(group.names) for group in group_names(names)) - MOST_DRAWN
    return f"{others:,} more names are left out, all are in the store" if others > 0 else ""


@lru_cache(_NAMES)
def is_validation(name: str) -> bool:
    """Return whether ``name`` was measured on validation data."""
    return any(part in _VALIDATION for part in _parts(name)) or _prefix(name) in _VALIDATION


@lru_cache(_NAMES)
def quantity(name: str) -> str:
    """Return the quantity of a name: ``loss`` for ``validation/main/loss`` and ``val_loss``."""
    last = _parts(name)[-1]
    prefix = _prefix(name)
    return last[len(prefix) + 1 :] if prefix in _VALIDATION | _TRAINING else last


def group_names(names: Iterable[str]) -> list[MetricGroup]:
    """Return the groups to draw: losses first, then accuracies, then the rest by name."""
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        if not is_clock(name) and not is_measured(name):
            groups.setdefault(quantity(name), []).append(name)
    ordered = sorted(groups, key=lambda q: (FAMILIES.index(family(q)), q))
    return [MetricGroup(q, tuple(sorted(groups[q], key=is_validation))) for q in ordered]


def is_share(quantity: str) -> bool:
    """Return whether ``quantity`` is a share, such as an accuracy: between 0 and 1, or percent."""
    return family(quantity) == "share"


@lru_cache(_NAMES)
def family(quantity: str) -> Family:
    """Return the family of a quantity."""
    if _LOSS.search(quantity):
        return "loss"
    return "share" if _ACCURACY.search(quantity) else "other"


def _parts(name: str) -> list[str]:
    return name.lower().strip("/").split("/")


def _prefix(name: str) -> str:
    head, separator, _ = _parts(name)[-1].partition("_")
    return head if separator else ""


def _find(texts: list[str], line: str, start: int) -> int:
    try:
        return texts.index(line, start, start + FOLD_WINDOW)
    except ValueError:
        return -1
