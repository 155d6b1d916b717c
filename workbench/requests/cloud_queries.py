"""Query a provider in a program of its own, and store what a person approved.

Each query runs ``python -m workbench.cloud``, so that no caller imports a provider's client. It
takes as long as the provider, up to a deadline: use a thread.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workbench.core.cluster.model import DEFAULT_CLUSTER, ClusterWish, check_cluster_name
from workbench.core.fleet.cost import DISK_GIB
from workbench.core.fleet.model import (
    FleetWish,
    Leftover,
    Needs,
    NodeState,
    Offer,
    Provider,
    Purchase,
)
from workbench.core.node.findings import Finding, judge_kept, judge_place
from workbench.core.node.host_findings import HostProbe
from workbench.core.world.world import Host, RankFact
from workbench.errors import CloudError, InputError, MachineError, StateError
from workbench.store.disk import disk_under
from workbench.store.paths import (
    HOST_KEYS_NAME,
    KEY_NAME,
    cluster_directory,
    home_directory,
    home_path,
    owner_id,
    types_folder,
    write_private,
)
from workbench.store.reserve import RESERVE_NAME
from workbench.store.store import Store

DAY = 86_400.0
HISTORY_SECONDS = 3 * DAY
KNOWN_HOSTS_NAME = "known_hosts"
MOST_NOTICE = 120.0  # seconds; EC2's own notice


@dataclass(frozen=True)
class Market:
    """The offers of a provider.

    Args:
        region: The region searched, also when none was named.
    """

    region: str
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class Swept:
    """The resources with our tags.

    Args:
        refused: Regions that were not searched, each with the reason.
        denied: Regions that a policy denies explicitly.
    """

    left: tuple[Leftover, ...]
    refused: tuple[tuple[str, str], ...] = ()
    denied: tuple[str, ...] = ()


def ask_offers(
    place: Provider,
    needs: Needs,
    region: str = "",
    history_seconds: float = HISTORY_SECONDS,
    *,
    image: str = "",
    ssh_from: str = "",
    disk: int = 0,
) -> Market:
    """Return all offers that fit, cheapest first, with the prices of the past days.

    Args:
        region: Empty for the default of the AWS config.
        image: The image to boot, as in the desired state; its size is billed.
        ssh_from: From where nodes accept ssh, as in the desired state; a public address is billed.
        disk: GiB of their disks; 0 for the usual size.

    Raises:
        InputError: No region is configured.
        CloudError: The provider does not answer, or denies access.
        MachineError: The query could not be run.
    """
    asked = _of_place(place, region) | {"needs": asdict(needs), "history_seconds": history_seconds}
    asked |= {
        "nodes": {
            "image": image,
            "ssh_sources": [ssh_from] if ssh_from else [],
            "disk": disk or DISK_GIB,
        }
    }
    answer = _ask("offers", asked, 120)
    return Market(answer["region"], tuple(_offer(values) for values in answer["offers"]))


def market_of(fleet: FleetWish) -> Market:
    """Return the offers that fit a fleet's requirements, at its provider."""
    return ask_offers(
        fleet.provider,
        fleet.needs,
        fleet.region,
        image=fleet.image,
        ssh_from=fleet.ssh_from,
        disk=fleet.disk,
    )


def ask_permissions(fleet: FleetWish, purchase: Purchase) -> tuple[Finding, ...]:
    """Return the findings of a dry run of every call that the nodes need; nothing is bought."""
    nodes = {
        "image": fleet.image,
        "profile": fleet.role,
        "subnets": fleet.needs.subnets,
        "ssh_sources": [fleet.ssh_from] if fleet.ssh_from else [],
    }
    asked = _of_place(fleet.provider, fleet.region) | {"purchase": asdict(purchase), "nodes": nodes}
    return tuple(Finding(**item) for item in _ask("permissions", asked, 180))


def ask_ssh_source(fleet: FleetWish) -> str:
    """Return the network from which rented nodes accept ssh.

    It is the requested one, by default this computer's address as the nodes see it.

    Raises:
        InputError: The requested network is not valid.
        CloudError: It cannot be determined, or the provider does not answer.
    """
    asked = {"wished": fleet.ssh_from, "subnets": fleet.needs.subnets}
    return str(_ask("ssh_source", _of_place(fleet.provider, fleet.region) | asked, 60))


def ask_contact(hosts: Sequence[Host], cluster: str = DEFAULT_CLUSTER) -> tuple[HostProbe, ...]:
    """Probe each host; a host with an unknown key is not logged in to.

    Args:
        cluster: Its known hosts are used beside the user's own.
    """
    return tuple(HostProbe(**item) for item in _ask("contact", _of_hosts(hosts, cluster), 120))


def ask_host_doctor(hosts: Sequence[Host], cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return the problems of hosts as one cluster; each finding names its host."""
    return [Finding(**item) for item in _ask("doctor", _of_hosts(hosts, cluster), 300)]


def ask_doctor(cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return the doctor's findings for this machine and the ranks of ``cluster``.

    Raises:
        MachineError: The doctor cannot run.
    """
    ranks: list[RankFact] = []
    ours: list[Finding] = []
    try:
        with Store() as store:
            ranks = store.ranks(cluster, store.cluster_fact(cluster).generation)
            ours += _examine_store(store)
    except MachineError as error:
        remedy = error.remedy[:1].upper() + error.remedy[1:]
        ours.append(Finding("store", False, error.what, remedy))
    options = ["--json", "--ranks", "-", "--data", str(home_path())]
    answer = subprocess.run(
        [sys.executable, "-m", "workbench.cluster.doctor", *options],
        input=json.dumps([asdict(rank) for rank in ranks]),
        capture_output=True,
        text=True,
        check=False,
    )
    if not answer.stdout.startswith("["):
        last = (answer.stderr.strip().splitlines() or ["without a word"])[-1]
        raise MachineError(f"The doctor ended: {last}", f"reinstall workbench into {sys.prefix}.")
    return [Finding(**item) for item in json.loads(answer.stdout)] + ours


def ask_doctors(cluster: str = DEFAULT_CLUSTER) -> list[Finding]:
    """Return the findings for this machine, and for the hosts of ``cluster``.

    Raises:
        MachineError: The doctor cannot run.
    """
    findings = ask_doctor(cluster)
    try:
        with Store() as store:
            wish = store.cluster_wish(cluster)
    except MachineError:
        return findings  # whose findings include the store
    if wish is not None and wish.fleet.provider is Provider.HOSTS:
        findings += ask_host_doctor(wish.fleet.hosts, cluster)
    return findings


def ask_leftovers(place: Provider, region: str, cluster: str) -> tuple[Leftover, ...]:
    """Return all resources with the tags of ``cluster``."""
    asked = _of_place(place, region) | {"cluster": cluster}
    return tuple(Leftover(**item) for item in _ask("leftovers", asked, 120))


def ask_sweep(place: Provider = Provider.EC2, region: str = "") -> Swept:
    """Return all resources with our tags, by default in all regions."""
    answer = _ask("sweep", _of_place(place, region), 300)
    return Swept(
        tuple(Leftover(**item) for item in answer["left"]),
        tuple((name, sentence) for name, sentence in answer["refused"]),
        tuple(answer["denied"]),
    )


def ask_clean(
    place: Provider, region: str, cluster: str, owner: str, *, images: bool = False
) -> tuple[Leftover, ...]:
    """Delete the resources of ``cluster`` that can be deleted now, and return the others.

    Args:
        owner: Only resources of this owner; empty for all.
        images: Whether to delete images baked from it too.
    """
    asked = _of_place(place, region) | {"cluster": cluster, "images": images, "owner": owner}
    return tuple(Leftover(**item) for item in _ask("clean", asked, 300))


def ask_policy(principal: str, store: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the IAM policy of ``person``, ``node`` or ``baker``, as AWS's console takes it.

    Args:
        store: ``s3://bucket/prefix`` of the nodes; empty leaves it for a person to fill in.

    Returns:
        The policy, and the commands that make a role and an instance profile of it, if it takes
        one.
    """
    found = _ask("policy", {"principal": principal, "store": store}, 30)
    return found["text"], tuple(found["commands"])


def ask_bake(wish: ClusterWish, node: str, name: str) -> str:
    """Start to make an image of a node without its private files; return the image's id.

    Raises:
        StateError: The node is not ready yet.
        CloudError: EC2 refuses.
        MachineError: The node cannot be reached, or has a user's files on it.
    """
    folder = cluster_directory(wish.name)
    try:
        key = (folder / KEY_NAME).read_text(encoding="utf-8")
        known = json.loads((folder / HOST_KEYS_NAME).read_text(encoding="utf-8"))
        host_key = next(one["key"] for one in known if one["id"] == node)
    except (FileNotFoundError, StopIteration):
        raise StateError(
            f"{node} is not ready yet, so its private files cannot be removed",
            "wait until it is ready.",
        ) from None
    fleet = wish.fleet
    asked = _of_place(Provider.EC2, fleet.region) | {"node": node, "name": name}
    asked |= {"cluster": wish.name, "ssh_sources": [fleet.ssh_from] if fleet.ssh_from else []}
    return str(_ask("bake", asked | {"key": key, "host_key": host_key}, 600))


def ask_baked(region: str, image: str) -> tuple[str, int]:
    """Return an image's state, such as ``pending`` or ``available``, and its progress in %."""
    found = _ask("baked", _of_place(Provider.EC2, region) | {"image": image}, 60)
    return found["state"], found["percent"]


def ask_discard(region: str, image: str) -> tuple[str, ...]:
    """Delete a baked image with its snapshots; return the snapshots' ids."""
    return tuple(_ask("discard", _of_place(Provider.EC2, region) | {"image": image}, 120))


def ask_interruption(
    store: Store, node: str, notice: float, *, cluster: str = DEFAULT_CLUSTER
) -> str:
    """Have the rehearsal reclaim a node, as EC2 does with spot nodes; return its id.

    Args:
        node: Its id; empty for the newest node.
        notice: Seconds from the interruption notice until the node is reclaimed.

    Raises:
        InputError: The notice is not valid.
        StateError: The cluster is not a rehearsal, or has no such node.
    """
    if not 0 <= notice <= MOST_NOTICE:
        raise InputError(f"The notice must be from 0 to {MOST_NOTICE:g} s, not {notice:g}.")
    wish = store.cluster_wish(check_cluster_name(cluster))
    if wish is None or wish.fleet.provider is not Provider.REHEARSAL:
        raise StateError(
            f"Cluster {cluster!r} is not a rehearsal, so its nodes cannot be reclaimed on request",
            "start a rehearsal with `workbench up --rehearsal --cluster NAME`.",
        )
    going = (NodeState.ASKED, NodeState.LEAVING, NodeState.GONE)
    there = sorted(one.id for one in store.fleets.nodes(cluster) if one.state not in going)
    chosen = [id_ for id_ in there if node in ("", id_)]
    if not chosen:
        which = f"no node {node!r}" if node else "no node"
        raise StateError(
            f"Cluster {cluster!r} has {which}", f"it has {', '.join(there) or 'none'}."
        )
    asked = {"folder": str(rehearsal_folder()), "node": chosen[-1], "notice": notice}
    return str(_ask("interrupt", asked, 30))


def rehearsal_folder() -> Path:
    """Return the folder of the rehearsal's state, shared by all clusters."""
    return home_directory() / "rehearsal"


def trusted_lines(cluster: str) -> tuple[str, ...]:
    """Return the confirmed lines of known_hosts for ``cluster``."""
    try:
        text = (cluster_directory(cluster) / KNOWN_HOSTS_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return tuple(filter(None, text.splitlines()))


def trust(cluster: str, lines: Iterable[str]) -> None:
    """Store confirmed lines of known_hosts; a new line replaces that of the same host.

    Raises:
        MachineError: They cannot be written.
    """
    kept = {line.split()[0]: line for line in (*trusted_lines(cluster), *lines)}
    text = "".join(f"{line}\n" for line in kept.values())
    write_private(cluster_directory(cluster) / KNOWN_HOSTS_NAME, text)


def _of_place(place: Provider, region: str) -> dict[str, Any]:
    folder = str(rehearsal_folder()) if place is Provider.REHEARSAL else ""
    types = str(types_folder())
    return {
        "place": place, "region": region, "folder": folder, "owner": owner_id(), "types": types,
    }  # fmt: skip


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
            f"There was no answer about {question} within {seconds:g} s",
            "see that this machine reaches the network, and try again.",
        ) from error
    if not answer.stdout.startswith("{"):
        last = (answer.stderr.strip().splitlines() or ["without a message"])[-1]
        raise MachineError(
            f"The query about {question} failed: {last}", f"reinstall workbench into {sys.prefix}."
        )
    reply = json.loads(answer.stdout)
    if "error" in reply:
        raise _error(reply)
    return reply["answer"]


def _error(reply: dict[str, str]) -> InputError | MachineError | CloudError:
    if reply["error"] == "CloudError":
        return CloudError(reply["what"], reply["kind"], reply["code"], remedy=reply["remedy"])
    kind = InputError if reply["error"] == "InputError" else MachineError
    return kind(reply["what"], reply["remedy"])


def _offer(values: dict[str, Any]) -> Offer:
    history = tuple((since, price) for since, price in values["history"])
    return Offer(**{**values, "history": history})


def _examine_store(store: Store) -> list[Finding]:
    """Return the findings on the store's disk and contents."""
    disk, usage = disk_under(store.path), store.removal.usage()
    reserve = store.path.with_name(RESERVE_NAME).exists()
    return [
        judge_place(disk),
        judge_kept(
            disk, usage.number, usage.store, usage.runs, str(store.removal.retention()), reserve
        ),
    ]
