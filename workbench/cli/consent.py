"""Show what a cluster's nodes would be and cost, and ask before anything is started or trusted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import click
from rich.console import RenderableType

from workbench.cli.listing import findings_table, text_table
from workbench.core.cluster import ClusterWish
from workbench.core.contact import Contact
from workbench.core.cost import extra_price, is_worth_it
from workbench.core.diagnosis import Finding
from workbench.core.fleet import FleetWish, Needs, Offer, Place
from workbench.core.fleetrequest import COSTLY, DEFAULT_TTL
from workbench.core.ladder import Rung, purchase, rungs
from workbench.core.offers import judge_quota, lacking_vcpus, ranked, total, why_none
from workbench.core.refusal import Kind
from workbench.core.world import Host
from workbench.errors import CloudRefused, InputError, MachineError, PriceQuestion, StateError
from workbench.store import Store
from workbench.store.asking import (
    Market,
    ask_contact,
    ask_door,
    ask_more,
    ask_offers,
    ask_permissions,
    trust,
)
from workbench.view.listing import NOTHING, Table
from workbench.view.phrases import count, dollars, duration, hourly, moment

MOST_OFFERS = 12
HOUR = 3600.0

Show = Callable[[RenderableType], None]


@dataclass(frozen=True)
class Consent:
    """Who is asked, and what was said before.

    Args:
        now: Epoch seconds.
        yes: Whether the price needs no question; an unknown host key always does.
        accepted: Fingerprints that the person said yes to.
        show: Prints tables.
    """

    cluster: str
    now: float
    yes: bool
    accepted: Sequence[str]
    show: Show


def renewed(store: Store, consent: Consent, fleet: FleetWish | None) -> FleetWish | None:
    """Return the nodes to wish for, agreed to if need be; None to leave them as they are.

    Args:
        fleet: What was typed; None when nothing was said of nodes.

    Raises:
        InputError: Nothing fits, or a host is not one.
        StateError: Nobody said yes.
        CloudRefused: The place refuses, or the dry run failed.
        MachineError: A host does not answer, or not as it should.
    """
    before = store.cluster_wish(consent.cluster)
    if fleet is None:
        if before is None or before.up:
            return None
        if before.fleet.place not in COSTLY:
            # Hosts cost nothing: with no time to live but the one that is over, they have none.
            is_over = 0 < before.fleet.expires <= consent.now
            return replace(before.fleet, expires=0.0) if is_over else None
        # What was deleted once is not bought again unasked; its time to live begins anew.
        lives = consent.now + DEFAULT_TTL if before.fleet.expires else 0.0
        return agree(store, consent, replace(before.fleet, expires=lives))
    if before is not None and before.up:
        fleet = replace(fleet, ssh_from=fleet.ssh_from or before.fleet.ssh_from)
    if before is not None and before.up and _is_same(before.fleet, fleet):
        ends = (before.fleet.expires, fleet.expires)
        return replace(before.fleet, expires=max(ends) if all(ends) else 0.0)
    return agree(store, consent, fleet)


def agree(store: Store, consent: Consent, fleet: FleetWish) -> FleetWish:
    """Return the wish as the person agreed to it, with what was left open filled in.

    Raises:
        InputError: Nothing fits, or a host is not one.
        StateError: Nobody said yes.
        CloudRefused: The place refuses, or the dry run failed.
        MachineError: A host does not answer, or not as it should.
    """
    _check_free(store, consent.cluster, fleet)
    if fleet.place is Place.HOSTS:
        return replace(fleet, hosts=_agreed_hosts(consent, fleet))
    if fleet.place in COSTLY and fleet.nodes:
        return _agreed_price(consent, fleet)
    return fleet


def agree_to_nodes(
    store: Store, wish: ClusterWish, nodes: int, now: float, *, yes: bool
) -> ClusterWish:
    """Wish for another number of nodes, once the person has agreed to what more of them cost.

    Raises:
        StateError: Nobody said yes, or it would cost more than the cluster may.
    """
    try:
        return ask_more(store, nodes, cluster=wish.name, now=now)
    except PriceQuestion as question:
        click.echo(str(question))
        if wish.fleet.expires:
            seconds = wish.fleet.expires - now
            cost = dollars(question.price * seconds / HOUR)
            click.echo(f"Until all is deleted, in {duration(seconds)}, that comes to about {cost}.")
        if not yes:
            confirm(
                "Start them?",
                "Nobody said yes, and nothing was bought; answer at a terminal, or add --yes.",
            )
        return ask_more(store, nodes, cluster=wish.name, now=now, agreed=question.price)


def agree_to_keys(
    cluster: str, hosts: Sequence[Host], accepted: Sequence[str]
) -> tuple[Contact, ...]:
    """Ask about the keys that are unknown, keep those that were agreed to, and look again.

    Raises:
        StateError: Nobody said yes.
    """
    contacts = ask_contact(hosts, cluster)
    given = {one.strip() for text in accepted for one in text.split(",")}
    strangers = [one for one in contacts if one.line and not one.known]
    asked = [one for one in strangers if one.fingerprint not in given]
    if asked:
        _ask_about_keys(asked)
    trust(cluster, [one.line for one in contacts if one.line])
    return ask_contact(hosts, cluster) if strangers else contacts


def confirm(question: str, otherwise: str) -> None:
    """Ask, and go on only after a yes.

    Args:
        otherwise: The sentence for when nobody is there to answer.

    Raises:
        StateError: There was no yes.
    """
    try:
        said = click.confirm(question)
    except click.Abort as error:
        if isinstance(error.__context__, EOFError):
            click.echo()
            raise StateError(otherwise) from error
        raise
    if not said:
        raise StateError("You did not say yes, so nothing was done.")


def offers_table(offers: Sequence[Offer], nodes: int, extra: float = 0.0) -> Table:
    """Return what fits, in the order given.

    Args:
        extra: $/h of one node beside its price: its disk.
    """
    headers = (
        "type", "zone", "price now", "past days", "GPUs", "vCPUs", "memory", "network, sustained",
        "quota left", "all nodes, with disks" if extra else "all nodes",
    )  # fmt: skip
    return Table(headers, tuple(_offer_row(offer, nodes, extra) for offer in offers[:MOST_OFFERS]))


def find_market(fleet: FleetWish) -> Market:
    """Return what fits.

    Raises:
        InputError: Nothing does; the one need that is too much is named.
    """
    market = ask_offers(fleet.place, fleet.needs, fleet.region)
    if not market.offers:
        others = ask_offers(fleet.place, Needs(), fleet.region, 0.0)
        raise InputError(why_none(replace(fleet, region=market.region), others.offers))
    return market


def best_rung(fleet: FleetWish, offers: Sequence[Offer]) -> Rung:
    """Return what would be tried first.

    Args:
        offers: At least one that fits.

    Raises:
        StateError: What fits costs more than was said, or the quota does not reach.
    """
    fitting = ranked(offers, fleet.needs, fleet.nodes)
    ladder = rungs(
        fleet.needs,
        offers,
        fleet.nodes,
        min(fleet.least, fleet.nodes),
        room=fleet.most_price,
        extra=extra_price(fleet.place),
        placement=fleet.nodes > 1,
    )
    if ladder:
        return ladder[0]
    quota = judge_quota(fitting[0], fleet.nodes)
    if all(lacking_vcpus(offer, fleet.least) for offer in fitting):
        raise StateError(f"{quota.found}. {quota.remedy}")
    cheapest = total(min(offer.price for offer in fitting), fleet.nodes, extra_price(fleet.place))
    raise StateError(
        f"{count(fleet.nodes, 'node')} that fit cost {hourly(cheapest)} now, more than "
        f"{hourly(fleet.most_price)}; raise --max-price, or ask for fewer or smaller nodes."
    )


def _check_free(store: Store, cluster: str, fleet: FleetWish) -> None:
    wish = store.cluster_wish(cluster)
    if wish is None or not wish.up:
        return
    if wish.fleet.region and fleet.region not in ("", wish.fleet.region):
        raise StateError(
            f"Cluster {cluster!r} is up in {wish.fleet.region}; delete it first (workbench down), "
            "or choose another name with --cluster."
        )
    if wish.fleet.place is not fleet.place:
        raise StateError(
            f"Cluster {cluster!r} is up on nodes of another place ({wish.fleet.place}); "
            "delete it first (workbench down), or choose another name with --cluster."
        )


def _is_same(before: FleetWish, fleet: FleetWish) -> bool:
    """Whether nothing more is asked for than what was agreed to; how long is another matter."""
    known = {host.address: host.slots for host in before.hosts}
    hosts = tuple(
        replace(host, slots=host.slots or fleet.slots or known.get(host.address, 0))
        for host in fleet.hosts
    )
    filled = replace(
        fleet, region=fleet.region or before.region, expires=before.expires, hosts=hosts
    )
    return filled == before


def _agreed_hosts(consent: Consent, fleet: FleetWish) -> tuple[Host, ...]:
    contacts = agree_to_keys(consent.cluster, fleet.hosts, consent.accepted)
    if errors := [one.error for one in contacts if one.error]:
        raise MachineError("\n".join(errors))
    pairs = zip(fleet.hosts, contacts, strict=True)
    hosts = tuple(
        replace(host, slots=host.slots or fleet.slots or one.slots) for host, one in pairs
    )
    for host in hosts:
        if not host.slots:
            raise MachineError(
                f"{host.address} cannot say how many ranks it carries, as there is no environment "
                f"as here ({sys.prefix}); `workbench doctor --host {host.address}` says what it "
                "lacks."
            )
    return hosts


def _ask_about_keys(strangers: Sequence[Contact]) -> None:
    for one in strangers:
        click.echo(f"{one.address} shows a host key that is not known here: {one.fingerprint}")
    flags = " ".join(f"--accept-keys {one.fingerprint}" for one in strangers)
    confirm(
        "Does `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` say the same on "
        f"{'the host' if len(strangers) == 1 else 'each host'}, and is it to be trusted?",
        "Nobody said yes to the host keys, and nothing was started; compare their fingerprints "
        f"on the hosts, then answer at a terminal or add {flags}.",
    )


def _agreed_price(consent: Consent, fleet: FleetWish) -> FleetWish:
    market = find_market(fleet)
    fleet = replace(fleet, region=market.region)
    door = ask_door(fleet.place, fleet.region, fleet.ssh_from) if fleet.place is Place.EC2 else ""
    rung = best_rung(fleet, market.offers)
    fitting = ranked(market.offers, fleet.needs, fleet.nodes)
    consent.show(text_table(offers_table(fitting, fleet.nodes, extra_price(fleet.place))))
    trial = purchase(consent.cluster, "trial", 0, rung)
    tried = ask_permissions(fleet.place, fleet.region, trial, fleet.image, fleet.role)
    _tell_trial(tried, consent.show)
    for line in _terms(fleet, rung, market.offers, consent.now):
        click.echo(line)
    if door:
        click.echo(f"Nodes let in ssh from {door}, and all else from one another alone.")
    if not consent.yes:
        confirm(
            "Start?",
            "Nobody said yes, and nothing was bought; answer at a terminal, or add --yes.",
        )
    return fleet


def _tell_trial(tried: Sequence[Finding], show: Show) -> None:
    faults = [finding for finding in tried if finding.ok is False]
    if faults:
        show(findings_table(faults))
        raise CloudRefused(
            f"The dry run failed at {', '.join(fault.check for fault in faults)}, and nothing was "
            "bought; `workbench doctor --iam` prints the policy that allows it all.",
            Kind.PERMISSION,
        )
    open_ = [finding.check for finding in tried if finding.ok is None]
    more = f"; not tried: {', '.join(open_)}" if open_ else ""
    click.echo(f"Dry run: {count(len(tried) - len(open_), 'check')} passed{more}.")


def _terms(fleet: FleetWish, rung: Rung, offers: Sequence[Offer], now: float) -> list[str]:
    """Return what the person says yes to: how many of what, and what it costs until when.

    Raises:
        StateError: The budget is used up as soon as they stand.
    """
    first = min(
        (one for one in offers if one.type in rung.types and rung.zone in ("", one.zone)),
        key=lambda one: (rung.types.index(one.type), one.price),
    )
    extra = extra_price(fleet.place)
    price = total(first.price, rung.count, extra)
    if not is_worth_it(0.0, price, fleet.budget):
        raise StateError(
            f"{dollars(fleet.budget)} last {duration(HOUR * fleet.budget / price)} at "
            f"{hourly(price)}, which is too little to start; raise --budget, or ask for fewer or "
            "smaller nodes."
        )
    most = f", of at most {hourly(fleet.most_price)}" if fleet.most_price else ""
    disks = f", with {hourly(extra * rung.count)} for their disks" if extra else ""
    lines = [f"Tried first: {rung}, {hourly(price)} now{disks}{most}."]
    if fleet.expires:
        seconds = fleet.expires - now
        lines.append(
            f"Everything is deleted after {duration(seconds)} ({moment(fleet.expires)}), which "
            f"comes to about {dollars(price * seconds / HOUR)}."
        )
    else:
        lines.append("It lives, and costs, until somebody deletes it: `workbench down`.")
    if fleet.budget:
        lines.append(f"It ends before it has cost {dollars(fleet.budget)}.")
    if fleet.place is Place.FAKE:
        lines.append("This is a rehearsal: the nodes are pretended, and nothing is paid.")
    return lines


def _offer_row(offer: Offer, nodes: int, extra: float) -> tuple[str, ...]:
    prices = [price for _, price in offer.history]
    gpus = f"{offer.gpus} × {offer.gpu or 'GPU'}, {offer.gpu_memory:g} GiB"
    return (
        offer.type,
        offer.zone,
        hourly(offer.price),
        f"${min(prices):.4g}–{max(prices):.4g}" if prices else NOTHING,
        gpus if offer.gpus else NOTHING,
        str(offer.vcpus),
        f"{offer.memory:g} GiB",
        f"{offer.network:g} Gbit/s" if offer.network else "unknown",
        "unknown" if offer.quota is None else f"{offer.quota} vCPUs",
        hourly(total(offer.price, nodes, extra)),
    )
