"""Show a plan below a cell: time and cost, and where adding nodes stops paying."""

from __future__ import annotations

import argparse
import base64

from workbench.analysis.plan_inputs import find_plan_basis, find_plan_market, parse_assumptions
from workbench.core.fleet.model import Needs
from workbench.core.fleet.provider import choose_provider
from workbench.notebook.cell_output import paragraph, stack_parts, table
from workbench.store import Store
from workbench.view.html import join_html
from workbench.view.pictures.figure import draw_png
from workbench.view.pictures.plan_picture import describe_plan, draw_plan
from workbench.view.run_output import Bundle, figure_html
from workbench.view.tables.plan import (
    BEST,
    PAYING,
    TrainingPlan,
    curves_table,
    frontier_table,
    plan,
    recommendation,
)
from workbench.view.tables.sweep_plan import (
    DIVIDED,
    SweepPlan,
    plan_sweep,
    shapes_table,
    sweep_recommendation,
)


def build_plan(store: Store, chosen: argparse.Namespace) -> Bundle:
    """Return the plan for the options of ``%dist_plan``.

    Raises:
        InputError: An option is not valid, or the provider has no offers.
        StateError: Nothing was measured yet.
    """
    place = choose_provider(vars(chosen))
    needs = Needs(chosen.gpus or 0, network=chosen.network or 0.0, types=tuple(chosen.types))
    asked = parse_assumptions({**vars(chosen), "run": " ".join(chosen.run)}, chosen.cluster)
    basis = find_plan_basis(store, asked)
    market = find_plan_market(
        store, chosen.cluster, needs, place, chosen.region or "", is_sweep=bool(asked.sweep)
    )
    if asked.sweep:
        return sweep_plan_bundle(plan_sweep(store, asked, basis, market))
    return plan_bundle(plan(store, asked, basis, market.offers, market.unit))


def sweep_plan_bundle(found: SweepPlan) -> Bundle:
    """Return how to divide ranks among trials as a sentence and a table."""
    shown = [table(shapes_table(found), DIVIDED)] if found.shapes else []
    return stack_parts([paragraph(sweep_recommendation(found)), *shown, paragraph(*found.says)])


def plan_bundle(found: TrainingPlan) -> Bundle:
    """Return a plan as a picture, tables and sentences."""
    reported = paragraph(*found.says, *found.frontier.left_out)
    if not found.frontier.choices:
        return stack_parts([paragraph("None of the offers can be used for a plan."), reported])
    first = paragraph(recommendation(found))
    tables = stack_parts(
        [table(frontier_table(found), BEST), table(curves_table(found), PAYING), reported]
    )
    picture = draw_png(draw_plan(found))
    shown = figure_html(picture, describe_plan(found), "")
    return {
        "image/png": base64.b64encode(picture).decode(),
        "text/html": join_html([first["text/html"], shown, tables["text/html"]]),
        "text/plain": f"{first['text/plain']}\n{tables['text/plain']}",
    }
