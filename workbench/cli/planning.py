"""The command that plans: time and money for numbers of nodes of each type that fits."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import click

from workbench.cli.chart import check_chart_path
from workbench.cli.fleet_options import SPELLING, need_options, read_request, with_options
from workbench.cli.listing import text_table
from workbench.cli.options import SECONDS, Checked, cluster_option, json_option
from workbench.cli.terminal import output
from workbench.core.cluster import check_cluster_name
from workbench.core.fleet import Place
from workbench.core.fleetrequest import fleet_wish
from workbench.errors import InputError, MachineError
from workbench.store import Store
from workbench.view.plan import Plan, curves_table, frontier_table, plan, plan_message
from workbench.view.planbasis import Asked, basis_of, market_of, nbytes_of

NBYTES = Checked("bytes", nbytes_of)


@click.command("plan")
@click.option("--ec2", is_flag=True, help="What EC2's spot market offers.")
@click.option("--rehearse", is_flag=True, help="What the rehearsal offers: no account, no network.")
@click.option("--region", default="", metavar="NAME", help="Where; AWS's own setting, if not.")
@with_options(need_options)
@click.option("--run", default="", metavar="NAME", help="Go by this run; the newest, if not.")
@click.option("--step", type=SECONDS, help="A rank's compute in a step, in place of a run's.")
@click.option("--gradients", type=NBYTES, metavar="98MB", help="Bytes, in place of a run's.")
@click.option("--batch", type=int, metavar="N", help="Examples of a rank's step.")
@click.option("--examples", type=int, metavar="N", help="Examples of an epoch.")
@click.option("--gpu", default="", metavar="NAME", help="On which the step was measured.")
@click.option("--most", default=64, metavar="N", help="Nodes at most; 64, if not.")
@click.option("--total-batch", is_flag=True, help="The batch of all ranks together stays.")
@click.option("--plain", is_flag=True, help="No compression and no overlap, as ChainerMN does.")
@click.option("--interruptions", type=float, metavar="R", help="Of one node, in an hour.")
@click.option("--plot", type=Path, metavar="FILE.png", help="Draw time against money.")
@json_option
@cluster_option
def plan_command(
    ec2: bool, rehearse: bool, region: str, plot: Path | None, as_json: bool, cluster: str,
    **given: Any,
) -> None:  # fmt: skip
    """Show what an epoch would take and cost on numbers of nodes, and where more stop paying.

    It goes by the newest run that was measured, by links as measured or as rated, and by what
    earlier forecasts missed.
    """
    if ec2 and rehearse:
        raise InputError("Plan with one market: --ec2, or --rehearse.")
    if plot is not None:
        check_chart_path(plot)
    place = Place.EC2 if ec2 else Place.FAKE if rehearse else None
    # Of what nodes are to be, the needs alone count: nothing is bought.
    request = read_request({**given, "most": None, "ec2": ec2, "rehearse": not ec2})
    wish = fleet_wish(request, SPELLING, now=0.0)
    assert wish is not None
    asked = asked_of(given, check_cluster_name(cluster))
    with Store() as store:
        basis = basis_of(store, asked)
        market = market_of(store, cluster, wish.needs, place, region)
        found = plan(store, asked, basis, market.offers)
    if plot is not None:
        _draw(found, plot)
    if as_json:
        click.echo(json.dumps(plan_message(found), indent=2))
    else:
        _show(found)


def asked_of(given: dict[str, Any], cluster: str) -> Asked:
    """Return what the options say."""
    names = ("run", "step", "gradients", "batch", "examples", "gpu", "most", "interruptions")
    said = {name: given[name] for name in names if given.get(name) is not None}
    return Asked(cluster, total=given["total_batch"], plain=given["plain"], **said)


def _show(found: Plan) -> None:
    if found.frontier.choices:
        output().print(text_table(frontier_table(found)))
        output().print(text_table(curves_table(found)))
    else:
        click.echo("Of what is on offer, nothing can be planned with.")
    for sentence in (*found.says, *found.frontier.left_out):
        click.echo(sentence)


def _draw(found: Plan, path: Path) -> None:
    from workbench.view.planpicture import save_plan

    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, suffix=path.suffix)
        os.close(handle)
        try:
            save_plan(found, temporary)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise MachineError(
            f"{path} cannot be written ({error.strerror}); choose another folder."
        ) from error
