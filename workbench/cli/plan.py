"""``workbench plan``: predicted time and cost for numbers of nodes of each type that fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from workbench.analysis.plan_inputs import find_plan_basis, find_plan_market, parse_assumptions
from workbench.cli.curve_file import check_chart_path, write_picture
from workbench.cli.fleet_options import SPELLING, read_request
from workbench.cli.listing import text_table
from workbench.cli.terminal import output
from workbench.core.cluster.model import check_cluster_name
from workbench.core.fleet.provider import choose_provider
from workbench.core.fleet.request import value_problems
from workbench.errors import InputError
from workbench.store import Store
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


def plan_command(region: str, plot: Path | None, as_json: bool, cluster: str, **given: Any) -> None:
    """Show the predicted time and cost of an epoch."""
    if plot is not None:
        check_chart_path(plot)
    place = choose_provider(given)
    # Only the requirements count: nothing is bought.
    request = read_request({**given, "max_nodes": None})
    for _, sentence in value_problems(request, SPELLING):
        raise InputError(sentence)
    asked = parse_assumptions(given, check_cluster_name(cluster))
    with Store() as store:
        basis = find_plan_basis(store, asked)
        market = find_plan_market(store, cluster, request.needs, place, region or "")
        found = plan(store, asked, basis, market.offers)
    if plot is not None:
        _draw(found, plot)
    if as_json:
        click.echo(json.dumps(plan_message(found), indent=2))
    else:
        _show(found)


def _show(found: TrainingPlan) -> None:
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


def _draw(found: TrainingPlan, path: Path) -> None:
    from workbench.view.pictures.plan_picture import save_plan

    write_picture(path, lambda temporary: save_plan(found, temporary))
