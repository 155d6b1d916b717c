"""What is seen of a sweep: its state in a line, its trials in a table, and its best trial."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from workbench.analysis.search import Search
from workbench.core.run.model import length
from workbench.core.run.sweep import Outcome, SweepFact, SweepWish, Trial, rank_trials
from workbench.core.units import dollars, percent_of
from workbench.errors import Interrupted, RunFailed, Unknown
from workbench.requests.supervisor import WAKING_SECONDS, SupervisorMonitor
from workbench.store import Store
from workbench.store.sweeps import BEST
from workbench.view.following import ASKED, Interrupts
from workbench.view.tables.listing import Table
from workbench.view.text import NOTHING

LOOK_SECONDS = 0.2
MOST_ROWS = 20


class SweepRecord(NamedTuple):
    """A sweep with its trials, as they were read."""

    sweep: SweepWish
    fact: SweepFact
    trials: list[Trial]
    unit: str = ""
    importance: Mapping[str, float] = MappingProxyType({})

    @property
    def best(self) -> Trial | None:
        """The best trial; None if none has finished with a value."""
        return next(iter(rank_trials(self.sweep, self.trials)), None)

    @property
    def progress(self) -> str:
        """How far it is."""
        how = Counter(one.outcome for one in self.trials)
        said = ", ".join(f"{how[one]} {one}" for one in Outcome if how[one])
        best = "" if self.best is None else f" · best {self.sweep.metric} {self.best.value:.5g}"
        return f"{said or 'waits'} of {self.sweep.trials} trials{best}"

    @property
    def line(self) -> str:
        """How far it is, with its name."""
        return f"{self.sweep.name}: {self.progress}"

    @property
    def lines(self) -> list[str]:
        """How far it is, or how it ended."""
        return self.end_lines if self.fact.over else [self.line]

    @property
    def end_lines(self) -> list[str]:
        """Why it is over, and its best trial with how to repeat that on all ranks."""
        lines, best, sweep = [f"{self.sweep.name}: {self.fact.over}"], self.best, self.sweep
        if self.fact.spent:
            lines.append(f"Its cluster has cost {dollars(self.fact.spent, self.unit)} meanwhile.")
        if best is None:
            return [*lines, f"No trial has finished with a value of {sweep.metric!r}."]
        given = format_parameters(best)
        lines.append(
            f"The best is trial {best.number}: {sweep.metric} {best.value:.6g} with {given}."
        )
        if self.importance:
            shares = (f"{name} {percent_of(share)}" for name, share in self.importance.items())
            lines.append(f"What mattered for the best tenth (PED-ANOVA): {', '.join(shares)}.")
        run, name = sweep.run, shlex.quote(f"{sweep.name}{BEST}")
        words = [f"--param {shlex.quote(f'{key}={value}')}" for key, value in best.parameters]
        if run.path:
            script = shlex.join([run.path, *run.options.arguments])
            again = f"`workbench run {' '.join(words)} {script}`"
        else:
            again = f"run the same cell with `{' '.join(words)}`"
        return [
            *lines,
            f"It is run {name}, as for `workbench logs {name}`. Repeat it on all ranks: {again}.",
        ]


def read_sweep(store: Store, name: str) -> SweepRecord:
    """Read a sweep.

    Raises:
        Unknown: There is none of this name.
    """
    sweep, fact = store.sweeps.find(name)
    cluster = store.cluster_wish(sweep.cluster)
    unit = cluster.fleet.place.unit if cluster else ""
    return SweepRecord(sweep, fact, store.sweeps.trials(sweep.id), unit)


def read_ended(store: Store, record: SweepRecord) -> SweepRecord:
    """Return the record of a sweep that is over, with the importance of its parameters."""
    if not record.fact.over or len(record.sweep.spaces) < 2:
        return record
    return record._replace(importance=Search(record.sweep).weigh_parameters(record.trials))


def limits_sentence(record: SweepRecord) -> str:
    """Return when a sweep begins no further trial, and how that is changed; empty for no limit."""
    sweep, ends = record.sweep, []
    if sweep.budget:
        amount = dollars(sweep.budget, record.unit)
        ends.append(f"that would make it cost more than {amount} in all (--sweep-budget)")
    if sweep.wall_clock_limit:
        ends.append(f"after {length(sweep.wall_clock_limit)} (--sweep-limit)")
    said = ", and none ".join(ends)
    return f"Sweep {sweep.name!r} begins no trial {said}." if ends else ""


def format_parameters(trial: Trial) -> str:
    """Return a trial's parameters in a line."""
    return ", ".join(f"{name}={_format(value)}" for name, value in trial.parameters)


def trials_table(record: SweepRecord, most: int = MOST_ROWS) -> Table:
    """Return the best trials, then the others, the newest first."""
    ranked = rank_trials(record.sweep, record.trials)
    rest = [one for one in reversed(record.trials) if one not in ranked]
    names = [name for name, _ in record.sweep.spaces]
    rows = tuple(
        (
            str(one.number),
            NOTHING if one.value is None else f"{one.value:.6g}",
            *(_format(dict(one.parameters).get(name, NOTHING)) for name in names),
            str(one.outcome),
            f"{one.ended - one.began:.1f} s" if one.ended else NOTHING,
            one.failure,
        )
        for one in [*ranked, *rest][:most]
    )
    return Table(("trial", record.sweep.metric, *names, "state", "time", "error"), rows)


def sweeps_table(records: list[SweepRecord]) -> Table:
    """Return the table of sweeps, in the given order."""
    rows = tuple(
        (
            one.sweep.name,
            f"{sum(each.outcome.ended for each in one.trials)} of {one.sweep.trials}",
            f"{one.sweep.goal} {one.sweep.metric}",
            NOTHING if one.best is None else f"{one.best.value:.6g}",
            NOTHING if one.best is None else format_parameters(one.best),
            one.fact.over or "active",
        )
        for one in records
    )
    return Table(("sweep", "trials", "goal", "best", "with", "state"), rows)


def follow_sweep(
    store: Store,
    sweep: SweepWish,
    show: Callable[[SweepRecord, bool], None],
    note: Callable[[str], None],
    *,
    interrupts: Interrupts,
    background: bool = False,
    left: Callable[[], bool] = lambda: False,
) -> None:
    """Say what limits a sweep, and show it whenever it has changed, until it is over.

    Args:
        show: Gets a record, and whether it is the last one.
        note: Gets sentences beside it.
        background: Whether to return at once.
        left: Returns whether the page is closed.

    Raises:
        Interrupted: At a second interrupt; the first one stops the sweep.
        RunFailed: Its trials failed; with the traceback of one of them.
    """
    record = read_sweep(store, sweep.id)
    if said := limits_sentence(record):
        note(said)
    if background:
        note(f"Sweep {sweep.name!r} is queued; `workbench sweeps` shows it.")
        return
    care, seen = SupervisorMonitor(sweep.cluster, time.monotonic(), WAKING_SECONDS), -1
    try:
        while not left():
            now = time.monotonic()
            if interrupts.is_meant(now):
                store.sweeps.wish_stop(sweep.id)
                interrupts.asked, seen = True, -1
                note(ASKED)
            if (version := store.data_version()) != seen:
                seen, record = version, read_sweep(store, sweep.id)
                if record.fact.over:
                    break
                show(record, False)
            if done := care.look(now):
                note(done)
            interrupts.wait(LOOK_SECONDS)
    except KeyboardInterrupt:
        raise Interrupted(f"Sweep {sweep.name!r} stops in the background.") from None
    show(read_ended(store, record), True)
    _check_success(store, record)


def _check_success(store: Store, record: SweepRecord) -> None:
    if not record.fact.has_failed:
        return
    failed = [one for one in record.trials if one.outcome is Outcome.FAILED]
    same = [one for one in failed if one.failure and one.failure in record.fact.over]
    trace = ""
    for one in [*same, *failed][:1]:
        with suppress(Unknown):  # its run may be deleted
            trace = store.run(one.run).fact.error
    raise RunFailed(f"Sweep {record.sweep.name!r}: {record.fact.over}", trace)


def describe_trial(record: SweepRecord, trial: Trial) -> str:
    """Return how a trial has ended, a line."""
    value = "" if trial.value is None else f" · {record.sweep.metric} {trial.value:.5g}"
    failure = f" · {trial.failure}" if trial.failure else ""
    return f"trial {trial.number} {trial.outcome} · {format_parameters(trial)}{value}{failure}"


def _format(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
