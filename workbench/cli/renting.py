"""The commands about what is lent: what is on offer, how long it lives, what was left behind."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import click

from workbench.cli.consent import best_rung, confirm, find_market, offers_table
from workbench.cli.fleet_options import (
    SPELLING,
    money_options,
    need_options,
    place_options,
    read_request,
    size_options,
    with_options,
)
from workbench.cli.listing import text_table
from workbench.cli.options import SECONDS, cluster_option, json_option, yes_option
from workbench.cli.terminal import output
from workbench.core.cost import extra_price
from workbench.core.fleet import Leftover, Place
from workbench.core.fleetrequest import fleet_wish
from workbench.core.offers import ranked
from workbench.errors import ClusterError, InputError
from workbench.store import Store
from workbench.store.asking import (
    ask_clean,
    ask_interruption,
    ask_longer,
    ask_sweep,
)
from workbench.store.home import owner_id
from workbench.view.listing import NOTHING, Table
from workbench.view.nodes import lifetime
from workbench.view.phrases import count, duration, hourly, moment

POLL_SECONDS = 3.0
# Machines take a minute or two to be gone, and what they used cannot go before.
SWEEP_SECONDS = 600.0


@click.command()
@with_options(place_options, size_options, need_options, money_options)
@json_option
def offers(as_json: bool, **given: Any) -> None:
    """Show the types of nodes that fit, their prices and the quota, without starting any."""
    if not (given["ec2"] or given["rehearse"]):
        raise InputError("Say where to look: --ec2, or --rehearse for pretended nodes.")
    now = time.time()
    fleet = fleet_wish(read_request(given), SPELLING, now=now)
    assert fleet is not None
    market = find_market(fleet)
    fitting = ranked(market.offers, fleet.needs, fleet.nodes)
    if as_json:
        click.echo(json.dumps([asdict(offer) for offer in fitting], indent=2))
        return
    rung = best_rung(fleet, market.offers)
    output().print(text_table(offers_table(fitting, fleet.nodes, extra_price(fleet.place))))
    click.echo(f"`workbench up` would first try {rung}.")


@click.command()
@click.argument("longer", type=SECONDS)
@cluster_option
def extend(longer: float, cluster: str) -> None:
    """Let a cluster live LONGER (4h) before it is deleted."""
    now = time.time()
    with Store() as store:
        expires = ask_longer(store, longer, cluster=cluster, now=now).fleet.expires
    click.echo(f"Cluster {cluster!r}: {lifetime(expires, now)}, until {moment(expires)}.")


@click.command()
@click.argument("node", default="")
@click.option(
    "--notice", type=SECONDS, default=0.0, help="From its notice to its end; none, if not."
)
@cluster_option
def interrupt(node: str, notice: float, cluster: str) -> None:
    """Have a rehearsal take NODE back, or the newest, to see what becomes of a run."""
    with Store() as store:
        taken = ask_interruption(store, node, notice, cluster=cluster)
    when = f" in {duration(notice)}" if notice else ""
    click.echo(f"The rehearsal takes {taken} back{when}; `workbench status` shows what follows.")


@click.command("sweep-leaks")
@click.option("--region", default="", metavar="NAME", help="Look only there; all, if not.")
@click.option("--rehearse", is_flag=True, help="Look at the rehearsal's place.")
@click.option("--others", is_flag=True, help="Delete what other people's clusters have, too.")
@json_option
@yes_option
def sweep_leaks(region: str, rehearse: bool, others: bool, as_json: bool, yes: bool) -> int:
    """List whatever bears our tags in all regions, and delete it on a yes.

    What belongs to clusters that are up here is listed and stays; so does what other people have
    in the same account, unless --others is said.
    """
    place = Place.FAKE if rehearse else Place.EC2
    swept = ask_sweep(place, region)
    with Store() as store:
        kept = {wish.name for wish in store.clusters() if wish.up and wish.fleet.place is place}
    if as_json:
        click.echo(json.dumps([asdict(left) for left in swept.left], indent=2))
        return 0
    for name, sentence in swept.refused:
        click.echo(f"{name} was not looked through: {sentence}", err=True)
    if not swept.left:
        click.echo("Nothing bears our tags.")
        return int(bool(swept.refused))
    mine = "" if rehearse else owner_id()
    output().print(text_table(leftovers_table(swept.left, kept, mine, time.time())))
    strange = [left for left in swept.left if _is_strange(left, mine)]
    leaks = [left for left in swept.left if left.cluster not in kept and left not in strange]
    # What names no owner is deleted by its cluster's name, and ours may have the same one.
    leaks += [left for left in strange if others and (left.owner or left.cluster not in kept)]
    price = hourly(sum(left.price for left in leaks))
    if not leaks:
        click.echo(
            "All of it belongs to clusters that are up; `workbench down` deletes them."
            if not strange
            else "None of it is yours to delete; others' things stay unless you say --others."
        )
        return 0
    if not yes:
        confirm(
            f"Delete {count(len(leaks), 'thing')} that cost {price}?",
            "Nobody said yes, and nothing was deleted; answer at a terminal, or add --yes.",
        )
    _delete(place, leaks)
    click.echo(f"Deleted {count(len(leaks), 'thing')}; nothing of them is left.")
    return int(bool(swept.refused))


def leftovers_table(left: Iterable[Leftover], kept: set[str], mine: str, now: float) -> Table:
    """Return what bears our tags, with age and price.

    Args:
        kept: The clusters that are up here.
        mine: The owner that this data directory is.
    """
    rows = tuple(
        (
            one.kind,
            one.id,
            f"{one.cluster}{_standing(one, kept, mine)}",
            one.region or NOTHING,
            duration(now - one.created) if one.created else "unknown",
            hourly(one.price) if one.price else "free",
        )
        for one in left
    )
    return Table(("kind", "id", "cluster", "region", "age", "price"), rows)


def _is_strange(left: Leftover, mine: str) -> bool:
    """Whether somebody else keeps it, or nobody says who does."""
    return left.owner != mine


def _standing(left: Leftover, kept: set[str], mine: str) -> str:
    if _is_strange(left, mine):
        return f" (of {left.owner or 'nobody known'})"
    return " (up here)" if left.cluster in kept else ""


def _delete(place: Place, leaks: Sequence[Leftover]) -> None:
    """Delete again and again until nothing is left: what is in use goes after what uses it."""
    images = any(left.kind in ("image", "snapshot") for left in leaks)
    owners = list(dict.fromkeys((left.region, left.cluster, left.owner) for left in leaks))
    deadline = time.monotonic() + SWEEP_SECONDS
    for region, cluster, owner in owners:
        said = ""
        while left := ask_clean(place, region, cluster, owner, images=images):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{_listed(left)} of cluster {cluster!r} are still there; run "
                    "`workbench sweep-leaks` again, and see the console if they stay."
                )
            if (now_said := _listed(left)) != said:
                said = now_said
                click.echo(f"{cluster}: still there: {said}", err=True)
            time.sleep(POLL_SECONDS)


def _listed(left: Sequence[Leftover]) -> str:
    return ", ".join(f"{one.kind} {one.id}" for one in left)
