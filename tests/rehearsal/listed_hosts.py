"""A cluster on hosts of a rehearsal that a person lists and logs in to, with its training."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.hosts import Hosts, RehearsalHost
from tests.waiting import until
from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.model import FleetWish
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import RunKind
from workbench.core.run.run_options import RunOptions
from workbench.core.world.world import Host
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.run import ask_run
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store
from workbench.store.paths import cluster_directory

TRAINING = Path(__file__).parents[1] / "supervisor" / "programs" / "slow_training.py"


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
def listed_hosts(
    cluster: str, count: int, home: Path, monkeypatch: pytest.MonkeyPatch, *, shared: bool = False
) -> Iterator[Hosts]:
    """Give hosts that a person with this home can log in to.

    Args:
        shared: Whether the folder ``shared`` of the home is the same on all of them.
    """
    folders = [home / "shared"] if shared else []
    for folder in folders:
        folder.mkdir()
    with Hosts(count, shared=folders) as hosts:
        log_in(hosts, cluster, home, monkeypatch)
        yield hosts


@contextlib.contextmanager
def cluster_on(hosts: Hosts, name: str, nodes: int) -> Iterator[Store]:
    """Give the store of a cluster on some of the hosts, a rank on each; delete it at the end."""
    listed = tuple(Host(name_of(host), 1, user="root") for host in hosts)
    fleet = FleetWish("hosts", nodes=nodes, slots=1, hosts=listed)
    with Store() as store:
        ask_cluster(store, 0, cluster=name, fleet=fleet)
        until(
            lambda: store.cluster_fact(name).state is ClusterState.READY,
            what=f"a cluster of {nodes} hosts",
            said=lambda: f"{store.cluster_fact(name)} {store.fleets.nodes(name)}",
        )
        yield store
        ask_down(store, cluster=name)
        until(lambda: not supervisor_is_awake(name), what="the end of the supervisor")


def hosts_and_store(name: str, count: int, *, nodes: int, shared: bool = False) -> tuple[Any, Any]:
    """Return fixtures: hosts that a person can log in to, and the store of a cluster on some."""

    @pytest.fixture
    def hosts(possible: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
        with listed_hosts(name, count, tmp_path, monkeypatch, shared=shared) as hosts:
            yield hosts

    @pytest.fixture
    def store(hosts: Hosts) -> Iterator[Store]:
        with cluster_on(hosts, name, nodes) as store:
            yield store

    return hosts, store


def ask_training(store: Store, name: str, **options: Any) -> str:
    """Ask for a training that ends when it is stopped, and return its run."""
    source = TRAINING.read_text(encoding="utf-8")
    endless = RunOptions(parameters=(("epochs", 100_000),), **options)
    return ask_run(store, endless, kind=RunKind.CELL, source=source, cluster=name).id


def start_training(store: Store, name: str, **options: Any) -> str:
    """Begin such a training, and return its run once it has a snapshot."""
    run = ask_training(store, name, **options)
    until(
        lambda: store.attempts.newest_snapshot(run) != NONE,
        what="a snapshot",
        said=lambda: store.run(run),
        seconds=120.0,
    )
    return run
