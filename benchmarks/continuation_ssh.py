"""How long a training over ssh pauses when it is resized, or when a node vanishes silently."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rehearsal.hosts import Hosts, why_not
from workbench.core.cluster.model import ClusterState
from workbench.core.cluster.size import Size
from workbench.core.fleet.model import FleetWish
from workbench.core.world.world import Host
from workbench.requests.cluster import ask_cluster, ask_size
from workbench.store import Store
from workbench.store.paths import cluster_directory

from . import place
from .continuation import LAST_STEP_SECONDS, NAME, NOTE, continued, gap, times, training, until
from .figures import BenchmarkFailed, Row, Series

HOSTS = 3
DOWN_SECONDS = 60.0


def measure(here: place.Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Resize a training to fewer and to more hosts, then pull the cable of one, in turn."""
    if reason := why_not():
        raise BenchmarkFailed(reason)
    shrunk: list[float] = []
    grown: list[float] = []
    lost: list[float] = []
    for number in range(1, rounds + 1):
        with place.home(here.path("home")), _hosts(here.path("user")) as hosts, Store() as store:
            shrunk.append(_resized(store, HOSTS - 1))
            grown.append(_resized(store, HOSTS))
            lost.append(_lost(store, hosts))
            place.take_down(DOWN_SECONDS)
        line = f"shrunk {shrunk[-1]:.5g}, grown {grown[-1]:.5g}, node lost {lost[-1]:.5g}"
        say(f"round {number} of {rounds}: {line}")
    few, many = HOSTS - 1, HOSTS
    note = f"{NOTE}; each host is a namespace with its own sshd"
    return [
        Row(
            f"pause of a training that is resized from {many} to {few} ssh hosts",
            "s", Series("resize", tuple(shrunk)), limit=1.0, note=note,
        ),
        Row(
            f"pause of a training that is resized from {few} to {many} ssh hosts",
            "s", Series("resize", tuple(grown)), limit=1.0, note=note,
        ),
        Row(
            f"cable of one of {many} ssh hosts pulled to the end of the next step",
            "s", Series("continues by itself", tuple(lost)), limit=5.0, note=note,
        ),
    ]  # fmt: skip


@contextmanager
def _hosts(user: Path) -> Iterator[Hosts]:
    """Have a cluster of hosts, to which a person with this home folder can log in."""
    before = {name: os.environ.get(name) for name in ("HOME", "SSH_AUTH_SOCK")}
    with Hosts(HOSTS) as hosts:
        known = "".join(f"{host.known_hosts}\n" for host in hosts)
        for folder, name in ((user / ".ssh", "id_ed25519"), (cluster_directory(NAME), "key")):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / name).touch(0o600)
            (folder / name).write_text(hosts.key)
            (folder / "known_hosts").write_text(known)
        os.environ["HOME"] = str(user)
        os.environ.pop("SSH_AUTH_SOCK", None)
        try:
            listed = tuple(Host(host.address, 1, user="root") for host in hosts)
            fleet = FleetWish("hosts", nodes=HOSTS, slots=1, hosts=listed)
            with Store() as store:
                ask_cluster(store, 0, cluster=NAME, fleet=fleet)
                until(lambda: store.cluster_fact(NAME).state is ClusterState.READY)
            yield hosts
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _resized(store: Store, nodes: int) -> float:
    with training(store, []) as run:
        ask_size(store, Size(None, nodes), cluster=NAME)
        return gap(store, run)


def _lost(store: Store, hosts: Hosts) -> float:
    """Return the time from the loss of a host to the end of the next step on the others."""
    with training(store, []) as run:
        began = time.time()
        hosts[1].cut()
        continued(store, run, 1)
        return min(t for t in times(store, run) if t > began + LAST_STEP_SECONDS) - began
