"""The commands about rented nodes: offers, time to live, interruptions, leftovers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import click

from workbench.cli.consent import best_candidate, confirm, find_market, offers_table, remarks
from workbench.cli.fleet_options import SPELLING, read_request
from workbench.cli.listing import text_table
from workbench.cli.terminal import output
from workbench.core.fleet.model import Leftover
from workbench.core.fleet.offers import collect_needs, rank_offers
from workbench.core.fleet.provider import (
    choose_provider,
    find_provider,
    known_providers,
    provider_choices,
)
from workbench.core.fleet.request import fleet_wish
from workbench.core.units import count
from workbench.errors import ClusterError, InputError
from workbench.requests.cloud_queries import ask_clean, ask_sweep
from workbench.requests.cluster import ask_extension, ask_keep
from workbench.store import Store
from workbench.store.paths import owner_id
from workbench.view.cluster_changes import interrupt_node, kept_sentence
from workbench.view.tables.listing import Table
from workbench.view.tables.nodes import time_to_live
from workbench.view.text import NOTHING, duration, hourly, moment

POLL_SECONDS = 3.0
# Machines take a minute or two to terminate, and their resources can only be deleted after that.
SWEEP_SECONDS = 600.0


def offers(as_json: bool, **given: Any) -> None:
    """Show the offers that fit."""
    name = choose_provider(given)
    if not name or not find_provider(name).is_charged:
        priced = provider_choices(lambda place: place.is_charged)
        raise InputError("No provider with offers was chosen", f"add {priced}.")
    fleet = fleet_wish(read_request(given), SPELLING, now=time.time())
    assert fleet is not None
    market = find_market(fleet)
    fitting = rank_offers(market.offers, collect_needs(fleet), fleet.nodes)
    if as_json:
        click.echo(json.dumps([asdict(offer) for offer in fitting], indent=2))
        return
    candidate = best_candidate(fleet, market.offers)
    output().print(text_table(offers_table(fitting, fleet.nodes, fleet.place.unit)))
    for line in remarks(fleet, candidate, market.offers):
        click.echo(line)
    click.echo(f"`workbench up` would try {candidate} first.")


def extend(seconds: float, cluster: str) -> None:
    """Extend a cluster's time to live."""
    now = time.time()
    with Store() as store:
        expires = ask_extension(store, seconds, cluster=cluster, now=now).fleet.expires
    click.echo(f"Cluster {cluster!r}: {time_to_live(expires, now)}, until {moment(expires)}.")


def keep(cluster: str) -> None:
    """Keep the nodes of a cluster that has nothing to do."""
    with Store() as store:
        wish = ask_keep(store, cluster=cluster, now=time.time())
    click.echo(kept_sentence(wish))


def interrupt(node: str, notice: float, cluster: str, **replayed: Any) -> None:
    """Have a simulated node taken back, or all as in a recording."""
    with Store() as store:
        click.echo(interrupt_node(store, node, notice, cluster, **replayed))


def sweep_leaks(region: str, others: bool, as_json: bool, yes: bool, **given: Any) -> int:
    """List the resources with our tags, and delete them after confirmation."""
    paid = [place.name for place in known_providers() if place.is_paid]
    chosen = choose_provider(given)
    places = [chosen] if chosen else paid
    return max(_sweep(place, region, others, as_json, yes) for place in places)


def _sweep(place: str, region: str, others: bool, as_json: bool, yes: bool) -> int:
    swept = ask_sweep(place, region)
    with Store() as store:
        kept = {wish.name for wish in store.clusters() if wish.up and wish.fleet.provider == place}
    if swept.denied:
        what = "it was" if len(swept.denied) == 1 else "they were"
        click.echo(f"A policy denies {', '.join(swept.denied)}, so {what} not searched.", err=True)
    for name, sentence in swept.refused:
        click.echo(f"{name} was not searched: {sentence}", err=True)
    if as_json:
        click.echo(json.dumps([asdict(left) for left in swept.left], indent=2))
        return int(bool(swept.refused))
    if not swept.left:
        found = "No resource has our tags."
        if swept.refused:
            some = f"{len(swept.refused)} of {swept.regions} regions could not be searched"
            rest = ", and in the others no resource has our tags"
            found = f"Not known: {some}{rest * (len(swept.refused) < swept.regions)}."
        click.echo(found)
        return int(bool(swept.refused))
    mine = owner_id() if find_provider(place).is_paid else ""
    output().print(text_table(leftovers_table(swept.left, kept, mine, time.time())))
    strange = [left for left in swept.left if _is_strange(left, mine)]
    leaks = [left for left in swept.left if left.cluster not in kept and left not in strange]
    # A resource without an owner is deleted by its cluster's name, which ours may share.
    leaks += [left for left in strange if others and (left.owner or left.cluster not in kept)]
    price = hourly(sum(left.price for left in leaks))
    if not leaks:
        click.echo(
            "All of these belong to clusters that are up; delete those with `workbench delete`."
            if not strange
            else "None of these is yours; add --others to delete resources of other people."
        )
        return int(bool(swept.refused))
    question = f"Delete {count(len(leaks), 'resource')} that cost {price}?"
    confirm(question, "nothing was deleted", yes=yes)
    _delete(place, leaks)
    click.echo(f"Deleted {count(len(leaks), 'resource')}.")
    return int(bool(swept.refused))


def leftovers_table(left: Iterable[Leftover], kept: set[str], mine: str, now: float) -> Table:
    """Return a table of the resources with our tags, with age and price.

    Args:
        kept: The clusters that are up here.
        mine: The owner id of this data directory.
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
    """Whether it has another owner, or an unknown one."""
    return left.owner != mine


def _standing(left: Leftover, kept: set[str], mine: str) -> str:
    if _is_strange(left, mine):
        return f" (owner: {left.owner or 'unknown'})"
    return " (up here)" if left.cluster in kept else ""


def _delete(place: str, leaks: Sequence[Leftover]) -> None:
    """Delete until nothing is left, since a resource in use can only go after its user."""
    images = any(left.kind in ("image", "snapshot") for left in leaks)
    owners = list(dict.fromkeys((left.region, left.cluster, left.owner) for left in leaks))
    deadline = time.monotonic() + SWEEP_SECONDS
    for region, cluster, owner in owners:
        said = ""
        while left := ask_clean(place, region, cluster, owner, images=images):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{_join_names(left)} of cluster {cluster!r} still exist",
                    "run `workbench sweep-leaks` again, or delete them at the provider.",
                )
            if (now_said := _join_names(left)) != said:
                said = now_said
                click.echo(f"{cluster}: waiting for {said}", err=True)
            time.sleep(POLL_SECONDS)


def _join_names(left: Sequence[Leftover]) -> str:
    return ", ".join(f"{one.kind} {one.id}" for one in left)
