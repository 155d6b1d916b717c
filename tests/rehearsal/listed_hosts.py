"""A cluster on hosts of a rehearsal, which a person lists and logs in to."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearsal.hosts import Hosts, RehearsalHost, until
from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.model import FleetWish
from workbench.core.world.world import Host
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store
from workbench.store.paths import cluster_directory


def name_of(host: RehearsalHost) -> str:
    """Return a name that is resolved everywhere to a host's address: that in hexadecimal."""
    return hex(int(ipaddress.ip_address(host.address)))


def log_in(hosts: Hosts, cluster: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a person with this home, and a cluster, log in to hosts."""
    known = "".join(f"{name_of(host)} {host.known_hosts.partition(' ')[2]}\n" for host in hosts)
    places = ((home / ".ssh", "id_ed25519"), (cluster_directory(cluster), "key"))
    for folder, key in places:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / key).touch(0o600)
        (folder / key).write_text(hosts.key)
        (folder / "known_hosts").write_text(known)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@contextlib.contextmanager
def cluster_on(hosts: Hosts, name: str, nodes: int) -> Iterator[Store]:
    """Give the store of a cluster on some of the hosts, a rank on each; delete it at the end."""
    listed = tuple(Host(name_of(host), 1, user="root") for host in hosts)
    fleet = FleetWish("hosts", nodes=nodes, slots=1, hosts=listed)
    with Store() as store:
        ask_cluster(store, 0, cluster=name, fleet=fleet)
        until(
            lambda: store.cluster_fact(name).state is ClusterState.READY,
            f"a cluster of {nodes} hosts",
            said=lambda: f"{store.cluster_fact(name)} {store.fleets.nodes(name)}",
        )
        yield store
        ask_down(store, cluster=name)
        until(lambda: not supervisor_is_awake(name), "the end of the supervisor")
