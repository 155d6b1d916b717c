"""Show a plan below a cell: time against money, and where adding nodes stops paying."""

from __future__ import annotations

import argparse
import base64

from workbench.core.fleet import Needs, Place
from workbench.errors import InputError
from workbench.notebook.page import paragraph, stacked, table
from workbench.store import Store
from workbench.view.kept import Bundle, figure_html
from workbench.view.plan import Plan, curves_table, frontier_table, plan
from workbench.view.planbasis import Asked, basis_of, market_of
from workbench.view.planpicture import describe_plan, plan_png


def planned(store: Store, chosen: argparse.Namespace) -> Bundle:
    """Return the plan that the options of ``%dist_plan`` ask for.

    Raises:
        InputError: An option will not do, or nobody lends there.
        StateError: Nothing was measured yet.
    """
    if chosen.ec2 and chosen.rehearse:
        raise InputError("Plan with one market: --ec2, or --rehearse.")
    place = Place.EC2 if chosen.ec2 else Place.FAKE if chosen.rehearse else None
    needs = Needs(gpus=chosen.gpus, network=chosen.network, types=tuple(chosen.types))
    asked = Asked(
        chosen.cluster,
        run=" ".join(chosen.run),
        step=chosen.step,
        gradients=chosen.gradients,
        batch=chosen.batch,
        examples=chosen.examples,
        gpu=chosen.gpu,
        most=chosen.most,
        total=chosen.total_batch,
        plain=chosen.plain,
        interruptions=chosen.interruptions,
    )
    basis = basis_of(store, asked)
    market = market_of(store, chosen.cluster, needs, place, chosen.region)
    return plan_bundle(plan(store, asked, basis, market.offers))


def plan_bundle(found: Plan) -> Bundle:
    """Return a plan as a picture, tables and sentences."""
    told = paragraph(*found.says, *found.frontier.left_out)
    if not found.frontier.choices:
        return stacked([paragraph("Of what is on offer, nothing can be planned with."), told])
    tables = stacked(
        [
            table(frontier_table(found), "Nothing is both quicker and cheaper"),
            table(curves_table(found), "Where adding nodes stops paying"),
            told,
        ]
    )
    picture = plan_png(found)
    shown = figure_html(picture, describe_plan(found), "An epoch; rings mark where it stops paying")
    return {
        "image/png": base64.b64encode(picture).decode(),
        "text/html": shown + tables["text/html"],
        "text/plain": tables["text/plain"],
    }
