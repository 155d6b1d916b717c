"""Ask a program about a place that lends nodes, and keep what a person said yes to.

What looks and asks does not know the places, so each question goes to ``python -m
workbench.cloud``. It takes as long as the place takes, up to a deadline: use a thread.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from workbench.core.cluster import DEFAULT_CLUSTER, ClusterWish, check_cluster_name
from workbench.core.contact import Contact
from workbench.core.diagnosis import Finding
from workbench.core.fleet import FleetWish, Leftover, Needs, NodeState, Offer, Place, Purchase
from workbench.core.fleetworld import check_fleet
from workbench.core.growth import growth, needs_a_yes, refuse_unasked
from workbench.core.world import Host
from workbench.errors import (
    CloudRefused,
    InputError,
    MachineError,
    PriceQuestion,
    StateError,
    Unknown,
)
from workbench.store.home import (
    HOST_KEYS_NAME,
    KEY_NAME,
    cluster_directory,
    home_directory,
    owner_id,
    write_private,
)
from workbench.store.store import Store
from workbench.store.wishes import ask_cluster, ask_doctor, ask_nodes

DAY = 86_400.0
HISTORY_SECONDS = 3 * DAY
KNOWN_HOSTS_NAME = "known_hosts"
MOST_NOTICE = 120.0  # seconds; as long as EC2 gives


@dataclass(frozen=True)
class Market:
    """What is on offer.

    Args:
        region: The one that was looked at, also where none was named.
    """

    region: str
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class Swept:
    """What bears our tags.

    Args:
        refused: Region, and the sentence why it was not looked through.
    """

    left: tuple[Leftover, ...]
    refused: tuple[tuple[str, str], ...] = ()


def ask_offers(
    place: Place, needs: Needs, region: str = "", history_seconds: float = HISTORY_SECONDS
) -> Market:
    """Return all that would do, cheapest first, with the prices of the past days.

    Args:
        region: Empty for the one of AWS's own settings.

    Raises:
        InputError: No region is named anywhere.
        CloudRefused: The place does not answer, or not to us.
        MachineError: The question could not be asked.
    """
    asked = _of_place(place, region) | {"needs": asdict(needs), "history_seconds": history_seconds}
    answer = _ask("offers", asked, 120)
    return Market(answer["region"], tuple(_offer(values) for values in answer["offers"]))


def market_of(fleet: FleetWish) -> Market:
    """Return what fits a fleet's needs, where it is to be bought."""
    return ask_offers(fleet.place, fleet.needs, fleet.region)


def ask_permissions(
    place: Place, region: str, purchase: Purchase, image: str = "", role: str = ""
) -> tuple[Finding, ...]:
    """Return what a dry run of every call of the purchase's life found; nothing is bought."""
    asked = _of_place(place, region) | {"purchase": asdict(purchase), "image": image, "role": role}
    return tuple(Finding(**item) for item in _ask("permissions", asked, 180))


def ask_door(place: Place, region: str, wished: str = "") -> str:
    """Return the network from which rented nodes let in ssh.

    Args:
        wished: A network; empty for this computer, where it is in that of the nodes.

    Raises:
        InputError: What is wished is no such network.
        CloudRefused: It cannot be said, or the place does not answer.
    """
    return str(_ask("door", _of_place(place, region) | {"wished": wished}, 60))


def ask_contact(hosts: Sequence[Host], cluster: str = DEFAULT_CLUSTER) -> tuple[Contact, ...]:
    """Return what each host answers; who is not known is not logged in to.

    Args:
        cluster: Whose lines of known hosts count, beside the person's own.
    """
    return tuple(Contact(**item) for item in _ask("contact", _of_hosts(hosts, cluster), 120))


def ask_host_doctor(hosts: Sequence[Host], cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return what keeps hosts from being one machine; each check names its host."""
    return [Finding(**item) for item in _ask("doctor", _of_hosts(hosts, cluster), 300)]


def ask_doctors(cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return what stands in the way on this machine, and on the hosts that ``cluster`` has.

    Raises:
        MachineError: A doctor itself cannot run.
    """
    findings = ask_doctor(cluster)
    try:
        with Store() as store:
            wish = store.cluster_wish(cluster)
    except MachineError:
        return findings  # which tell of the store already
    if wish is not None and wish.fleet.place is Place.HOSTS:
        findings += ask_host_doctor(wish.fleet.hosts, cluster)
    return findings


def ask_leftovers(place: Place, region: str, cluster: str) -> tuple[Leftover, ...]:
    """Return all that bears the tags of ``cluster``."""
    asked = _of_place(place, region) | {"cluster": cluster}
    return tuple(Leftover(**item) for item in _ask("leftovers", asked, 120))


def ask_sweep(place: Place = Place.EC2, region: str = "") -> Swept:
    """Return all that bears our tags, in all regions unless one is named."""
    answer = _ask("sweep", _of_place(place, region), 300)
    return Swept(
        tuple(Leftover(**item) for item in answer["left"]),
        tuple((name, sentence) for name, sentence in answer["refused"]),
    )


def ask_clean(
    place: Place, region: str, cluster: str, owner: str, *, images: bool = False
) -> tuple[Leftover, ...]:
    """Delete what bears the tags of ``cluster``, as far as it goes now, and return what is left.

    Args:
        owner: Whose it is; empty for everybody's.
        images: Whether images that were baked from it go too.
    """
    asked = _of_place(place, region) | {"cluster": cluster, "images": images, "owner": owner}
    return tuple(Leftover(**item) for item in _ask("clean", asked, 300))


def ask_policy(principal: str, store: str = "") -> str:
    """Return the IAM policy of ``person``, ``node`` or ``baker``, as AWS's console takes it.

    Args:
        store: ``s3://bucket/prefix`` of the nodes; empty leaves it for a person to fill in.
    """
    return str(_ask("policy", {"principal": principal, "store": store}, 30))


def ask_bake(wish: ClusterWish, node: str, name: str) -> str:
    """Begin to make an image of a node, without what is its own; return the image's id.

    Raises:
        StateError: Nobody has logged in to the node yet.
        CloudRefused: EC2 does not make it.
        MachineError: The node is out of reach, or has something of a person's on it.
    """
    folder = cluster_directory(wish.name)
    try:
        key = (folder / KEY_NAME).read_text(encoding="utf-8")
        known = json.loads((folder / HOST_KEYS_NAME).read_text(encoding="utf-8"))
        host_key = next(one["key"] for one in known if one["id"] == node)
    except (FileNotFoundError, StopIteration):
        raise StateError(
            f"Nobody has logged in to {node} yet, and what is its own can only be taken off it in "
            "a session; wait until it is ready."
        ) from None
    fleet = wish.fleet
    asked = _of_place(Place.EC2, fleet.region) | {"node": node, "name": name}
    asked |= {"cluster": wish.name, "doors": [fleet.ssh_from] if fleet.ssh_from else []}
    return str(_ask("bake", asked | {"key": key, "host_key": host_key}, 600))


def ask_baked(region: str, image: str) -> tuple[str, int]:
    """Return an image's state, such as ``pending`` or ``available``, and how much is done in %."""
    told = _ask("baked", _of_place(Place.EC2, region) | {"image": image}, 60)
    return told["state"], told["percent"]


def ask_discard(region: str, image: str) -> tuple[str, ...]:
    """Delete an image that was baked, with its snapshots; return their ids."""
    return tuple(_ask("discard", _of_place(Place.EC2, region) | {"image": image}, 120))


def ask_more(
    store: Store,
    nodes: int,
    *,
    cluster: str = DEFAULT_CLUSTER,
    now: float,
    agreed: float | None = None,
    market: Callable[[FleetWish], Market] = market_of,
) -> ClusterWish:
    """Wish for another number of nodes, as `ask_nodes` does, if its price was agreed to.

    Args:
        market: Says what is on offer for a fleet.
        agreed: $/h of all nodes that somebody said yes to; None where nobody was asked.

    Raises:
        InputError: There cannot be as many, or nothing on offer does.
        PriceQuestion: It costs more than what was agreed to.
        StateError: It costs more than the cluster may, or the cluster is not up.
        CloudRefused: The place does not answer, or not to us.
    """
    wish = store.cluster_wish(check_cluster_name(cluster))
    if wish is not None and needs_a_yes(wish, nodes):
        refuse_unasked(wish, now)
        fleet = check_fleet(replace(wish.fleet, nodes=nodes))
        offers, there = market(fleet).offers, store.nodes(cluster)
        found = growth(wish, nodes, offers, there, store.spent(cluster))
        if agreed is None or not found.is_within(agreed):
            raise PriceQuestion(f"{found}.", found.price)
    return ask_nodes(store, nodes, cluster=cluster)


def ask_longer(
    store: Store, seconds: float, *, cluster: str = DEFAULT_CLUSTER, now: float
) -> ClusterWish:
    """Wish for a cluster to live longer than it was to.

    Raises:
        InputError: That is no time.
        Unknown: Nobody ever asked for this cluster.
        StateError: It is not up, or lives for as long as nobody deletes it.
    """
    wish = store.cluster_wish(check_cluster_name(cluster))
    if wish is None:
        raise Unknown(f"There is no cluster called {cluster!r}; start it first.")
    if seconds <= 0:
        raise InputError(f"It must be longer by more than 0 seconds, not {seconds:g}; try 4h.")
    if not wish.up:
        raise StateError(f"Cluster {cluster!r} is not up, so it has no time to live; start it.")
    if not wish.fleet.expires:
        raise StateError(f"Cluster {cluster!r} lives until somebody deletes it; nothing to extend.")
    fleet = replace(wish.fleet, expires=max(wish.fleet.expires, now) + seconds)
    return ask_cluster(
        store, wish.ranks, cluster=cluster, oversubscribe=wish.oversubscribe, fleet=fleet
    )


def ask_interruption(
    store: Store, node: str, notice: float, *, cluster: str = DEFAULT_CLUSTER
) -> str:
    """Have a rehearsal's place take a node back, as EC2 does when it likes; return its id.

    Args:
        node: Its id; empty for the one that was rented last.
        notice: Seconds from the place's notice until the node is gone.

    Raises:
        InputError: That is no notice.
        StateError: The cluster is none of a rehearsal, or has no such node.
    """
    if not 0 <= notice <= MOST_NOTICE:
        raise InputError(f"The notice must be from 0 to {MOST_NOTICE:g} s, not {notice:g}.")
    wish = store.cluster_wish(check_cluster_name(cluster))
    if wish is None or wish.fleet.place is not Place.FAKE:
        raise StateError(
            f"Cluster {cluster!r} is no rehearsal, and only a rehearsal's nodes are taken back at "
            "will; start one with `workbench up --rehearse --cluster NAME`."
        )
    going = (NodeState.ASKED, NodeState.LEAVING, NodeState.GONE)
    there = sorted(one.id for one in store.nodes(cluster) if one.state not in going)
    chosen = [id_ for id_ in there if node in ("", id_)]
    if not chosen:
        which = f"no node {node!r}" if node else "no node"
        raise StateError(f"Cluster {cluster!r} has {which}; it has {', '.join(there) or 'none'}.")
    asked = {"folder": str(rehearsal_folder()), "node": chosen[-1], "notice": notice}
    return str(_ask("interrupt", asked, 30))


def rehearsal_folder() -> Path:
    """Return where the rehearsal's place keeps its state, one for all clusters."""
    return home_directory() / "rehearsal"


def trusted_lines(cluster: str) -> tuple[str, ...]:
    """Return the exact lines of known_hosts that somebody said yes to for ``cluster``."""
    try:
        text = (cluster_directory(cluster) / KNOWN_HOSTS_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return tuple(filter(None, text.splitlines()))


def trust(cluster: str, lines: Iterable[str]) -> None:
    """Keep exact lines of known_hosts; a new one takes the place of that of the same host.

    Raises:
        MachineError: They cannot be written.
    """
    kept = {line.split()[0]: line for line in (*trusted_lines(cluster), *lines)}
    text = "".join(f"{line}\n" for line in kept.values())
    write_private(cluster_directory(cluster) / KNOWN_HOSTS_NAME, text)


def _of_place(place: Place, region: str) -> dict[str, Any]:
    folder = str(rehearsal_folder()) if place is Place.FAKE else ""
    return {"place": place, "region": region, "folder": folder, "owner": owner_id()}


def _of_hosts(hosts: Sequence[Host], cluster: str) -> dict[str, Any]:
    return {"hosts": [asdict(host) for host in hosts], "trusted": trusted_lines(cluster)}


def _ask(question: str, asked: dict[str, Any], seconds: float) -> Any:
    command = [sys.executable, "-m", "workbench.cloud", question]
    try:
        answer = subprocess.run(
            command,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise MachineError(
            f"There was no answer about {question} within {seconds:g} s; see that this machine "
            "reaches the network, and try again."
        ) from error
    if not answer.stdout.startswith("{"):
        last = (answer.stderr.strip().splitlines() or ["without a word"])[-1]
        raise MachineError(
            f"What was to ask about {question} ended: {last}; reinstall workbench into "
            f"{sys.prefix}."
        )
    told = json.loads(answer.stdout)
    if "error" in told:
        raise _error(told)
    return told["answer"]


def _error(told: dict[str, str]) -> InputError | MachineError | CloudRefused:
    if told["error"] == "CloudRefused":
        return CloudRefused(told["message"], told["kind"], told["code"])
    kind = InputError if told["error"] == "InputError" else MachineError
    return kind(told["message"])


def _offer(values: dict[str, Any]) -> Offer:
    history = tuple((since, price) for since, price in values["history"])
    return Offer(**{**values, "history": history})
