"""The commands of sweeps: ask for one, follow it, list them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from workbench.analysis.search import Search, check_search
from workbench.cli.command import ask_script
from workbench.cli.listing import text_table
from workbench.cli.terminal import output
from workbench.core.run.sweep import SweepWish
from workbench.errors import InputError, Interrupted
from workbench.requests.sweep import ask_sweep, extend_sweep
from workbench.store import Store
from workbench.view.cluster_changes import start_sentence
from workbench.view.following import Interrupts
from workbench.view.sweep_record import (
    SweepRecord,
    describe_trial,
    follow_sweep,
    read_ended,
    read_sweep,
    sweeps_table,
    trials_table,
)


def sweep(script: str | None, arguments: tuple[str, ...], **given: Any) -> int:
    """Run a script with many parameters, and show each trial as it ends."""
    with Store() as store, Interrupts() as interrupts:
        if given["resume"] is not None:
            asked = extend_sweep(store, given["resume"], given)
        else:
            asked = _ask(store, script, arguments, given)
        shown = set[int]()
        known = store.sweeps.trials(asked.id) if given["resume"] is not None else []
        shown.update(one.number for one in known if one.outcome.ended)

        def show(record: SweepRecord, is_last: bool) -> None:
            for trial in record.trials:
                if trial.outcome.ended and trial.number not in shown:
                    shown.add(trial.number)
                    click.echo(f"{record.line} · {describe_trial(record, trial)}")
            if is_last:
                output().print(text_table(trials_table(record)))
                for line in record.end_lines:
                    click.echo(line)

        try:
            follow_sweep(
                store, asked, show, partial(click.echo, err=not given["background"]),
                interrupts=interrupts, background=given["background"],
            )  # fmt: skip
        except Interrupted as stopped:
            click.echo(str(stopped), err=True)
            return 130
        return 130 if interrupts.count else 0


def _ask(
    store: Store, script: str | None, arguments: tuple[str, ...], given: dict[str, Any]
) -> SweepWish:
    asked, before = ask_script(
        store,
        script,
        arguments,
        given,
        lambda values: partial(ask_sweep, given=check_search(values)),
    )
    cluster = store.cluster_wish(asked.cluster)
    if cluster is not None and (before is None or not before.up):
        click.echo(start_sentence(before, cluster), err=True)
    return asked


def sweeps(names: tuple[str, ...], study: Path | None, as_json: bool) -> None:
    """List sweeps, or the trials of some."""
    if study is not None and len(names) != 1:
        raise InputError("--study needs one sweep, as in `workbench sweeps --study a.journal fit`.")
    with Store() as store:
        found = [read_sweep(store, name) for name in names or store.sweeps.names()]
        if names:
            found = [read_ended(store, one) for one in found]
        if as_json:
            click.echo(json.dumps([_document(one) for one in found], indent=2))
        elif not found:
            click.echo("There are no sweeps yet; start one with `workbench sweep`.")
        elif names:
            for one in found:
                output().print(text_table(trials_table(one, most=len(one.trials))))
                for line in one.lines:
                    click.echo(line)
        else:
            output().print(text_table(sweeps_table(found)))
        if study is not None:
            sweep = found[0].sweep
            curve = partial(store.sweeps.curve, metric=sweep.metric)
            Search(sweep, curve).write_study(found[0].trials, study)
            click.echo(f"Wrote the study {sweep.name!r} as {study}.", err=True)


def _document(record: SweepRecord) -> dict[str, Any]:
    sweep = record.sweep
    return {
        "name": sweep.name,
        "goal": str(sweep.goal),
        "metric": sweep.metric,
        "sampler": sweep.sampler,
        "trials": [msgspec.to_builtins(one) for one in record.trials],
        "over": record.fact.over,
        "budget": sweep.budget,
        "spent": record.fact.spent,
        "best": None if record.best is None else record.best.number,
        "importance": dict(record.importance),
    }
