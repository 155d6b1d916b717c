"""Show a cluster's nodes and their price, and confirm before anything is started or trusted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import click
from rich.console import RenderableType

from workbench.cli.listing import findings_table, text_table
from workbench.core.cluster.idleness import describe_end, rest_sentence
from workbench.core.cluster.model import ClusterWish, ResizeAt, WhenDone
from workbench.core.cluster.size import Size
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.cost import ALL_BILLED, extra_charges, is_worth_it
from workbench.core.fleet.fallbacks import (
    Candidate,
    candidates,
    dearest,
    first_offer,
    purchase,
)
from workbench.core.fleet.model import FleetWish, Needs, NodeState, Offer
from workbench.core.fleet.offers import (
    LISTED,
    collect_needs,
    judge_quota,
    lacking_vcpus,
    rank_offers,
    refusal,
    slowing,
    total,
    why_none,
    why_not,
    without_cuda,
)
from workbench.core.fleet.request import is_raised
from workbench.core.node.findings import Finding
from workbench.core.node.host_findings import HostProbe
from workbench.core.units import count
from workbench.core.world.world import Host
from workbench.errors import CloudError, InputError, MachineError, PriceQuestion, StateError
from workbench.requests.cloud_queries import (
    CloudMarket,
    ask_contact,
    ask_permissions,
    ask_ssh_source,
    query_market,
)
from workbench.requests.cluster import ask_size, check_allowed, check_place, is_released
from workbench.requests.environment import has_cuda_here, travel_notes
from workbench.store import Store
from workbench.store.paths import trust
from workbench.view.tables.listing import Table
from workbench.view.text import NOTHING, dollars, duration, hourly, moment, network

MOST_OFFERS = 12
HOUR = 3600.0

Show = Callable[[RenderableType], None]


@dataclass(frozen=True)
class Consent:
    """How to confirm, and what was confirmed in advance by options.

    Args:
        now: Epoch seconds.
        yes: Whether the price is confirmed in advance; an unknown host key never is.
        accepted: Fingerprints confirmed in advance.
        show: Prints tables.
        ranks: The requested number; 0 for all that the nodes carry.
        when_done: What becomes of the nodes when the run has ended that they are for.
    """

    cluster: str
    now: float
    yes: bool
    accepted: Sequence[str]
    show: Show
    ranks: int = 0
    when_done: WhenDone | None = None


def renew_wish(
    store: Store,
    consent: Consent,
    fleet: FleetWish | None,
    *,
    is_exact: bool = False,
    is_for_run: bool = False,
) -> FleetWish | None:
    """Return the desired nodes, confirmed if needed; None to keep the present ones.

    Args:
        fleet: What the options say; None when no option is about nodes. A deleted cluster, or one
            whose nodes were released, is confirmed again.
        is_exact: Whether the time to live was given; a default one shortens no earlier one.
        is_for_run: Whether a run follows, which starts nodes again that were given back.

    Raises:
        InputError: Nothing fits, or a host is not one.
        StateError: Not confirmed.
        CloudError: The provider refuses, or the dry run failed.
        MachineError: A host does not answer, or not correctly.
    """
    before = store.cluster_wish(consent.cluster)
    rests = before is not None and is_released(before, store.cluster_fact(consent.cluster))
    if fleet is None:
        if before is None or not rests or is_for_run:
            return None
        fleet = replace(before.fleet, asked=consent.now)
    if before is None or not before.up:
        return agree(store, consent, fleet)
    again = before.fleet.settings if before.fleet.provider == fleet.provider else ()
    fleet = replace(fleet, settings=fleet.place.read_settings(fleet.settings, again))
    is_back = rests and not is_for_run and fleet.asked != before.fleet.asked
    if (
        not _is_same(before.fleet, fleet)
        or is_back
        or _are_released(store, before, consent.now, rests)
    ):
        return agree(store, consent, fleet)
    ends = (before.fleet.expires, fleet.expires)
    expires = fleet.expires if is_exact else (max(ends) if all(ends) else 0.0)
    wanted = replace(
        before.fleet,
        budget=fleet.budget,
        expires=expires,
        idle=fleet.idle,
        asked=before.fleet.asked if rests else fleet.asked,
        settings=fleet.settings,
    )
    _agree_to_limits(consent, before.fleet, wanted, store.fleets.spent(consent.cluster))
    return wanted


def _are_released(store: Store, wish: ClusterWish, now: float, rests: bool) -> bool:
    """Return whether the nodes of a cluster have gone by a limit of their cost or time.

    Args:
        rests: Whether they were given back because there was nothing to do.
    """
    is_over = 0 < wish.fleet.expires <= now
    has_any = any(node.state is not NodeState.LEAVING for node in store.fleets.nodes(wish.name))
    return is_over or (
        bool(wish.fleet.budget and store.fleets.spent(wish.name)) and not (has_any or rests)
    )


def _agree_to_limits(consent: Consent, before: FleetWish, fleet: FleetWish, spent: float) -> None:
    """Say what other limits mean for nodes that are there, and confirm higher ones.

    A budget may be lower than a start needs: these nodes have started.
    """
    if fleet.budget != before.budget:
        unit = fleet.place.unit
        most = f"up to {dollars(fleet.budget, unit)}" if fleet.budget else "without a limit"
        had = f" (before: {dollars(before.budget, unit)})" if before.budget else ""
        over = ", so its nodes are released now" if 0 < fleet.budget <= spent else ""
        click.echo(
            f"Cluster {consent.cluster!r} may cost {most}{had}; {dollars(spent, unit)} are spent"
            f"{over}."
        )
    if fleet.expires != before.expires:
        lives = (
            f"Its nodes are released after {duration(fleet.expires - consent.now)} "
            f"({moment(fleet.expires)})."
            if fleet.expires
            else "It never expires, and costs money until you delete it (`workbench delete`)."
        )
        click.echo(lives)
    if fleet.idle != before.idle:
        click.echo(f"{rest_sentence(fleet)}")
    if is_raised(before, fleet) and fleet.place.is_charged:
        confirm("Raise it?", "nothing was changed", yes=consent.yes)


def agree(store: Store, consent: Consent, fleet: FleetWish) -> FleetWish:
    """Return the confirmed nodes, with all open choices filled in.

    Raises:
        InputError: Nothing fits, or a host is not one.
        StateError: Not confirmed, or an administrator's limit forbids it.
        CloudError: The provider refuses, or the dry run failed.
        MachineError: A host does not answer, or not correctly.
    """
    check_place(store, store.cluster_wish(consent.cluster), fleet)
    check_allowed(store, ClusterWish(consent.cluster, True, consent.ranks, fleet=fleet))
    if fleet.place.lists_hosts:
        return replace(fleet, hosts=_agree_to_hosts(consent, fleet))
    if fleet.place.is_charged and fleet.nodes:
        return _agree_to_price(consent, fleet, _count_spent(store, consent.cluster))
    return fleet


def agree_to_size(
    store: Store,
    wish: ClusterWish,
    size: Size,
    *,
    yes: bool,
    oversubscribe: bool = False,
    across_zones: bool = False,
    at: ResizeAt = ResizeAt.STEP,
) -> ClusterWish:
    """Request another size, once the person has agreed to what more nodes cost.

    Raises:
        StateError: Not confirmed, or it exceeds the max price or the budget.
    """
    ask = partial(
        ask_size,
        store,
        size,
        cluster=wish.name,
        oversubscribe=oversubscribe,
        across_zones=across_zones,
        at=at,
    )
    try:
        return ask()
    except PriceQuestion as question:
        click.echo(str(question))
        if wish.fleet.expires:
            seconds = wish.fleet.expires - time.time()
            cost = dollars(question.price * seconds / HOUR, wish.fleet.place.unit)
            click.echo(
                f"Until its time to live is over, in {duration(seconds)}, this costs about {cost}."
            )
        confirm("Start them?", "nothing was bought", yes=yes)
        return ask(agreed=question.price)


def agree_to_keys(cluster: str, fleet: FleetWish, accepted: Sequence[str]) -> tuple[HostProbe, ...]:
    """Confirm unknown host keys, store the confirmed ones, and check the hosts again.

    Raises:
        StateError: Not confirmed.
    """
    contacts = ask_contact(fleet, cluster)
    given = {one.strip() for text in accepted for one in text.split(",")}
    strangers = [one for one in contacts if one.line and not one.known]
    asked = [one for one in strangers if one.fingerprint not in given]
    if asked:
        _ask_about_keys(asked)
    trust(cluster, [one.line for one in contacts if one.line])
    return ask_contact(fleet, cluster) if strangers else contacts


def confirm(
    question: str,
    outcome: str,
    *,
    yes: bool = False,
    what: str = "Not confirmed",
    remedy: str = "answer at a terminal, or add --yes.",
) -> None:
    """Ask a question, and return only if the answer is yes.

    Args:
        outcome: What a missing answer means, such as "nothing was deleted".
        yes: Whether it was confirmed in advance, so that nothing is asked.
        what: What the error says that was not confirmed.
        remedy: What to do where there is no terminal to ask at.

    Raises:
        StateError: There was no yes.
    """
    if yes:
        return
    try:
        said = click.confirm(question)
    except click.Abort as error:
        if isinstance(error.__context__, EOFError):
            click.echo()
            raise StateError(f"{what}, so {outcome}", remedy) from error
        raise
    if not said:
        raise StateError("Not confirmed, so nothing was done.")


def offers_table(offers: Sequence[Offer], nodes: int, unit: str = "") -> Table:
    """Return a table of the offers, in the order given; see ``dollars`` for ``unit``."""
    billed = any(offer.extra_price for offer in offers)
    headers = (
        "type", "zone", "price now", "past days", "GPUs", "vCPUs", "memory", "network, sustained",
        "quota left", ALL_BILLED if billed else "all nodes",
    )  # fmt: skip
    return Table(headers, tuple(_offer_row(offer, nodes, unit) for offer in offers[:MOST_OFFERS]))


def remarks(fleet: FleetWish, candidate: Candidate, offers: Sequence[Offer]) -> list[str]:
    """Return the remarks to show before the price is confirmed."""
    if not fleet.place.copies_environment:
        return []
    first = first_offer(candidate, offers)
    lacks = without_cuda(fleet, first, has_cuda_here(), "add --cuda")
    found = [fleet.place.caution, LISTED, slowing(first), lacks]
    return [*filter(None, found), *travel_notes(fleet, first)]


def find_market(fleet: FleetWish) -> CloudMarket:
    """Return the offers that fit.

    Raises:
        InputError: Nothing fits, and the requirement that excludes all is named; or a named type
            cannot run ranks.
    """
    market = query_market(fleet)
    fleet = replace(fleet, region=market.region)
    if why_not(fleet, market.offers):
        others = query_market(replace(fleet, needs=Needs()), 0.0)
        raise InputError(refusal(fleet, market.offers) or why_none(fleet, others.offers))
    return market


def best_candidate(fleet: FleetWish, offers: Sequence[Offer]) -> Candidate:
    """Return the candidate that is tried first.

    Args:
        offers: One or more that fit.

    Raises:
        StateError: What fits costs more than the max price, or exceeds the quota.
    """
    needs = collect_needs(fleet)
    fitting = rank_offers(offers, needs, fleet.nodes)
    ladder = candidates(
        needs,
        offers,
        fleet.nodes,
        min(fleet.min_nodes, fleet.nodes),
        room=fleet.max_price,
        placement=fleet.nodes > 1,
    )
    if ladder:
        return ladder[0]
    quota = judge_quota(fitting[0], fleet.nodes)
    if all(lacking_vcpus(offer, fleet.min_nodes) for offer in fitting):
        raise quota.error
    cheapest = min(total(offer, fleet.nodes) for offer in fitting)
    raise StateError(
        f"{count(fleet.nodes, 'node')} that fit now cost {hourly(cheapest)}, more than "
        f"the max price of {hourly(fleet.max_price)}",
        "raise --max-price, or ask for fewer or smaller nodes.",
    )


def _is_same(before: FleetWish, fleet: FleetWish) -> bool:
    """Whether this requests the nodes that were confirmed, apart from their limits.

    See ``with_limits``.
    """
    kept = fleet.place.kept_settings
    known = {host.address: host.slots for host in before.hosts}
    hosts = tuple(
        replace(host, slots=host.slots or fleet.slots or known.get(host.address, 0))
        for host in fleet.hosts
    )
    filled = replace(
        fleet,
        region=fleet.region or before.region,
        expires=before.expires,
        idle=before.idle,
        asked=before.asked,
        agreed=before.agreed,
        budget=before.budget,
        most_price=before.most_price,
        hosts=hosts,
        settings=before.settings,
    )
    changed = {*fleet.settings} ^ {*before.settings}
    return filled == before and all(name in kept for name, _ in changed)


def _agree_to_hosts(consent: Consent, fleet: FleetWish) -> tuple[Host, ...]:
    contacts = agree_to_keys(consent.cluster, fleet, consent.accepted)
    if errors := [one.error for one in contacts if one.error]:
        raise MachineError("\n".join(errors))
    pairs = zip(fleet.hosts, contacts, strict=True)
    hosts = tuple(
        replace(host, slots=host.slots or fleet.slots or one.slots) for host, one in pairs
    )
    for host in hosts:
        if not host.slots:
            raise MachineError(
                f"{host.address} has no Python environment like the one here ({sys.prefix}), so "
                "its number of slots is unknown",
                f"see what it lacks with `workbench doctor --host {host.address}`.",
            )
    return hosts


def _ask_about_keys(strangers: Sequence[HostProbe]) -> None:
    for one in strangers:
        click.echo(f"{one.address} has an unknown host key: {one.fingerprint}")
    flags = " ".join(f"--accept-keys {one.fingerprint}" for one in strangers)
    confirm(
        "Does `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` say the same on "
        f"{'the host' if len(strangers) == 1 else 'each host'}, and is it to be trusted?",
        "nothing was started",
        what="The host keys were not confirmed",
        remedy="compare their fingerprints on the hosts, then answer at a terminal or add "
        f"{flags}.",
    )


def _count_spent(store: Store, cluster: str) -> float:
    """Return the $ that count for a cluster's budget: those of the nodes since it was deleted."""
    wish = store.cluster_wish(cluster)
    return store.fleets.spent(cluster) if wish is not None and wish.up else 0.0


def _agree_to_price(consent: Consent, fleet: FleetWish, spent: float) -> FleetWish:
    market = find_market(fleet)
    fleet = replace(fleet, region=market.region)
    source = ask_ssh_source(fleet) if fleet.place.admits_ssh else ""
    candidate = best_candidate(fleet, market.offers)
    fitting = rank_offers(market.offers, collect_needs(fleet), fleet.nodes)
    consent.show(text_table(offers_table(fitting, fleet.nodes, fleet.place.unit)))
    trial = purchase(consent.cluster, "trial", 0, candidate)
    tried = ask_permissions(fleet, trial)
    _tell_trial(tried, consent.show)
    for line in remarks(fleet, candidate, market.offers):
        click.echo(line)
    for line in _terms(consent, fleet, candidate, market.offers, spent):
        click.echo(line)
    if source:
        click.echo(f"Nodes accept ssh from {source}, and all other traffic only from each other.")
    confirm("Start?", "nothing was bought", yes=consent.yes)
    first = first_offer(candidate, market.offers)
    fleet = replace(fleet, agreed=total(first, candidate.count))
    return dearest(fleet, first.hour)


def _tell_trial(tried: Sequence[Finding], show: Show) -> None:
    faults = [finding for finding in tried if finding.ok is False]
    if faults:
        show(findings_table(faults))
        raise CloudError(
            f"The dry run failed at {', '.join(fault.check for fault in faults)}, so nothing was "
            f"bought. {faults[0].remedy}",
            ErrorKind.PERMISSION,
        )
    open_ = [finding.check for finding in tried if finding.ok is None]
    more = f", {len(open_)} cannot be tested before resources exist" if open_ else ""
    only = f": {tried[0].found.rstrip('.')}." if len(tried) == 1 and not open_ else "."
    click.echo(f"Dry run: {count(len(tried) - len(open_), 'check')} passed{more}{only}")


def _terms(
    consent: Consent,
    fleet: FleetWish,
    candidate: Candidate,
    offers: Sequence[Offer],
    spent: float,
) -> list[str]:
    """Return the terms to confirm: number and type of nodes, price, and duration.

    Args:
        spent: $ of the budget that are spent already.

    Raises:
        StateError: The budget would be spent as soon as the nodes are ready.
    """
    first = first_offer(candidate, offers)
    price, unit = total(first, candidate.count), fleet.place.unit
    if not is_worth_it(spent, price, fleet.budget):
        left = max(0.0, fleet.budget - spent)
        raise StateError(
            f"{dollars(left, unit)} last {duration(HOUR * left / price)} at "
            f"{hourly(price, unit)}, which is too little to start",
            "raise --budget, or ask for fewer or smaller nodes.",
        )
    # The user's own limit, or the one that is confirmed here.
    most = f" (max price {hourly(fleet.max_price)})" if fleet.max_price else ""
    each = dearest(fleet, first.hour).most_price
    waits = [f"At most {hourly(each * candidate.count)} is paid; otherwise it waits."]
    billed = f", with {extra_charges(first, candidate.count)}" if first.extra_price else ""
    lines = [
        f"Tried first: {candidate}, {hourly(price, unit)} now{billed}{most}.",
        *(waits if each and fleet.place.is_paid else []),
        *fleet.place.traffic_notes(fleet),
    ]
    ends = describe_end(fleet, consent.when_done, price)
    lines += [ends] if ends else []
    if fleet.expires:
        seconds = fleet.expires - consent.now
        cost = dollars(price * seconds / HOUR, unit)
        lines.append(
            f"The nodes are released after {duration(seconds)}{' at the latest' if ends else ''} "
            f"({moment(fleet.expires)}), which costs about {cost}."
        )
    elif not ends:
        lines.append("It never expires, and costs money until you delete it (`workbench delete`).")
    if fleet.budget:
        lines.append(f"They are released before they have cost {dollars(fleet.budget, unit)}.")
    if fleet.place.is_simulated:
        lines.append("The nodes are simulated and cost nothing.")
    return lines


def _offer_row(offer: Offer, nodes: int, unit: str) -> tuple[str, ...]:
    prices = [price for _, price in offer.history]
    gpus = f"{offer.gpus} × {offer.gpu or 'GPU'}, {offer.gpu_memory:.3g} GiB"
    return (
        offer.type,
        offer.zone,
        hourly(offer.price, unit),
        f"{dollars(min(prices))}–{dollars(max(prices))}" if prices else NOTHING,
        gpus if offer.gpus else NOTHING,
        str(offer.vcpus),
        f"{offer.memory:g} GiB",
        network(offer),
        "unknown" if offer.quota is None else f"{offer.quota} vCPUs",
        hourly(total(offer, nodes), unit),
    )
