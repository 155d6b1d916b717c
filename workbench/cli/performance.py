"""The commands about speed: measure a cluster, and plan a larger one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from workbench.analysis.plan_inputs import find_plan_basis, find_plan_market, parse_assumptions
from workbench.cli.fleet_options import SPELLING, read_request
from workbench.cli.listing import text_table
from workbench.cli.terminal import TerminalRunView, exit_code, notes, output, screen_for
from workbench.core.cluster.model import check_cluster_name
from workbench.core.fleet.provider import choose_provider
from workbench.core.fleet.request import value_problems
from workbench.core.performance.bandwidth import Measurement, measurement_json
from workbench.core.run.model import Run, RunState
from workbench.errors import InputError, StateError
from workbench.requests.run import ask_measurement
from workbench.store import Store
from workbench.view.following import Interrupts, check_success, follow
from workbench.view.pictures.figure import check_chart_path, write_picture
from workbench.view.pictures.survey_picture import can_draw, draw_survey
from workbench.view.state_line import state_line
from workbench.view.tables.plan import (
    BEST,
    PAYING,
    TrainingPlan,
    curves_table,
    frontier_table,
    plan,
    plan_message,
    recommendation,
)
from workbench.view.tables.survey import find_previous, heading, remarks, tables
from workbench.view.tables.sweep_plan import (
    DIVIDED,
    SweepPlan,
    plan_sweep,
    shapes_table,
    sweep_plan_message,
    sweep_recommendation,
)


def bandwidth_command(
    rating: float | None, last: bool, plot: Path | None, as_json: bool, cluster: str
) -> int:
    """Measure a cluster, or show its last measurement."""
    check_cluster_name(cluster)
    if plot is not None:
        check_chart_path(plot)
    with Store() as store:
        if last:
            known = store.surveys.of_cluster(cluster, limit=1)
            if not known:
                raise StateError(
                    f"Cluster {cluster!r} has not been measured yet",
                    "measure it with `workbench bandwidth`.",
                )
            found: Measurement | None = known[0]
        else:
            run = _await_measurement(store, cluster, rating)
            found = store.surveys.of_run(run.id)
            if found is None:
                click.echo(f"Run {run.wish.name}: {state_line(run, time.time())}", err=True)
                return exit_code(run)
        assert found is not None
        _show_measurement(store, cluster, found, as_json)
        if plot is not None and can_draw(found):
            write_picture(plot, draw_survey(found))
            click.echo(f"Saved the picture as {plot}.", err=True)
    return 0


def _await_measurement(store: Store, cluster: str, rating: float | None) -> Run:
    with Interrupts() as interrupts:
        wish = ask_measurement(store, cluster=cluster, rating=rating)
        run = store.run(wish.id)
        try:
            with screen_for(notes(), notes()) as screen:
                run = follow(store, TerminalRunView(run, screen), interrupts=interrupts)
        except KeyboardInterrupt:
            raise StateError(
                f"Stopping run {wish.name!r} in the background", "`workbench status` shows it."
            ) from None
    if run.fact.state is not RunState.STOPPED:
        check_success(run)
    return run


def _show_measurement(store: Store, cluster: str, found: Measurement, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(json.loads(measurement_json(found)), indent=2))
        return
    now = time.time()
    said = [heading(found), *remarks(found, find_previous(store, cluster, found), now)]
    shown = [Text(sentence) for sentence in said]
    parts = [part for title, table in tables(found) for part in (Text(title), text_table(table))]
    output().print(Group(*shown, *parts))


def plan_command(region: str, plot: Path | None, as_json: bool, cluster: str, **given: Any) -> None:
    """Show the predicted time and cost of an epoch, or of a sweep."""
    if plot is not None:
        if given["sweep"] is not None:
            raise InputError("--plot draws the plan of an epoch", "leave it or --sweep out.")
        check_chart_path(plot)
    place = choose_provider(given)
    # Only the requirements count: nothing is bought.
    request = read_request({**given, "max_nodes": None})
    for _, sentence in value_problems(request, SPELLING):
        raise InputError(sentence)
    asked = parse_assumptions(given, check_cluster_name(cluster))
    with Store() as store:
        basis = find_plan_basis(store, asked)
        market = find_plan_market(
            store, cluster, request.needs, place, region or "", request.settings,
            is_sweep=bool(asked.sweep),
        )  # fmt: skip
        if asked.sweep:
            _show_sweep(plan_sweep(store, asked, basis, market), as_json)
            return
        found = plan(store, asked, basis, market.offers, market.unit)
    if plot is not None:
        _draw_plan(found, plot)
    if as_json:
        click.echo(json.dumps(plan_message(found), indent=2))
    else:
        _show_plan(found)


def _show_sweep(found: SweepPlan, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(sweep_plan_message(found), indent=2))
        return
    click.echo(sweep_recommendation(found))
    if found.shapes:
        click.echo(f"\n{DIVIDED}")
        output().print(text_table(shapes_table(found)))
        click.echo()
    for sentence in found.says:
        click.echo(sentence)


def _show_plan(found: TrainingPlan) -> None:
    if found.frontier.choices:
        click.echo(recommendation(found))
        for title, table in ((BEST, frontier_table(found)), (PAYING, curves_table(found))):
            click.echo(f"\n{title}")
            output().print(text_table(table))
        click.echo()
    else:
        click.echo("None of the offers can be used for a plan.")
    for sentence in (*found.says, *found.frontier.left_out):
        click.echo(sentence)


def _draw_plan(found: TrainingPlan, path: Path) -> None:
    from workbench.view.pictures.plan_picture import draw_plan

    write_picture(path, draw_plan(found))
