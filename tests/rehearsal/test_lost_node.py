"""A node vanishes without a word while it trains, and the run continues on the others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearsal.hosts import Hosts, until
from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.model import FleetWish, Provider
from workbench.core.run.model import RunKind
from workbench.core.run.resumption import NONE
from workbench.core.world.world import Host
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.run import ask_run, ask_stop
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store
from workbench.store.paths import cluster_directory

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(300),
]  # fmt: skip

NAME = "lost"
TRAINING = Path(__file__).parents[1] / "supervisor" / "programs" / "slow_training.py"
LAST_STEP_SECONDS = 0.3


@pytest.fixture
def hosts(possible: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """Give three hosts that a person can log in to."""
    with Hosts(3) as hosts:
        folder = tmp_path / ".ssh"
        folder.mkdir(mode=0o700)
        (folder / "id_ed25519").touch(0o600)
        (folder / "id_ed25519").write_text(hosts.key)
        known = "".join(f"{host.known_hosts}\n" for host in hosts)
        (folder / "known_hosts").write_text(known)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        cluster = cluster_directory(NAME)
        cluster.mkdir(parents=True, exist_ok=True)
        (cluster / "known_hosts").write_text(known)
        (cluster / "key").touch(0o600)
        (cluster / "key").write_text(hosts.key)
        yield hosts


def test_a_run_continues_seconds_after_the_cable_of_a_node_was_pulled(hosts: Hosts) -> None:
    listed = tuple(Host(host.address, 1, user="root") for host in hosts)
    fleet = FleetWish(Provider.HOSTS, nodes=3, slots=1, hosts=listed)
    with Store() as store:
        ask_cluster(store, 0, cluster=NAME, fleet=fleet)
        until(
            lambda: store.cluster_fact(NAME).state is ClusterState.READY,
            "a cluster of three hosts",
            said=lambda: f"{store.cluster_fact(NAME)} {store.nodes(NAME)}",
        )
        source = TRAINING.read_text(encoding="utf-8")
        run = ask_run(
            store,
            kind=RunKind.CELL,
            source=source,
            cluster=NAME,
            parameters=(("epochs", 1_000),),
        ).id
        until(lambda: store.newest_snapshot(run) != NONE, "a snapshot", said=store.run(run))
        time.sleep(1.0)

        began = time.time()
        hosts[1].cut()

        def later() -> list[float]:
            points = [p for p in store.points(run) if p.name == "main/loss" and p.rank == 0]
            return [p.time for p in points if p.time > began + LAST_STEP_SECONDS]

        until(later, "a step on the others", said=lambda: store.run(run).fact)
        seconds = min(later()) - began
        fact = store.run(run).fact
        print(f"{seconds:.2f} s from the loss to the next step; {fact.message}")
        ask_stop(store, run, NAME)
        ask_down(store, cluster=NAME)
        until(lambda: not supervisor_is_awake(NAME), "the end of the supervisor")

    assert (fact.attempt, fact.ranks) == (2, 2)
    assert "out of reach" in fact.message or "its node is gone" in fact.message
