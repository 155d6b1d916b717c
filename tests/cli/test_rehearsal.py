"""From a shell through the rehearsal's whole life: the keeper and the place are those that ship.

Only the ranks are played: they are on all nodes that are ready.
"""

from __future__ import annotations

import fcntl
import re
import threading
import time
from collections.abc import Iterator

import pytest

from tests.waiting import until
from workbench.cloud.rehearsal.provider import Rehearsal, Weather
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.fleet.model import FleetWish
from workbench.requests.cloud_queries import ask_leftovers
from workbench.store import Store
from workbench.store.paths import cluster_directory, home_directory
from workbench.supervisor.fleet.fleet_loop import FleetKeeper, Load

CLUSTER = "default"
# The command asks the place as it is by default: what ends there has not ended sooner here.
QUICK = Weather(boot=(0.1, 0.5), lag=0.1)


class Keeper(threading.Thread):
    """A supervisor that keeps nodes, with simulated ranks on them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._leave = threading.Event()
        self._lock = (cluster_directory(CLUSTER) / "supervisor.lock").open("a+b")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def run(self) -> None:
        cloud = Rehearsal(home_directory() / "rehearsal", weather=QUICK)
        used: frozenset[str] = frozenset()
        with Store() as store:
            keeper = FleetKeeper(CLUSTER, store, cloud, prepare=lambda session, wish, say: None)
            while not self._leave.wait(0.02):
                wish = store.cluster_wish(CLUSTER)
                if wish is None:
                    continue
                fleet = keeper.tick(wish, Load(used=used), time.time())
                used = frozenset(host.address for host in fleet.hosts)
                ranks = sum(host.slots for host in fleet.hosts)
                state = ClusterState.READY if ranks else ClusterState.STARTING
                if not wish.up:
                    state = ClusterState.DOWN if fleet.finished else ClusterState.STOPPING
                elif wish.fleet.nodes == 0:
                    state = ClusterState.PAUSED
                fact = ClusterFact(CLUSTER, state, ranks, 1, fleet.message, 1, "", time.time())
                store.put_cluster_fact(fact)
                if state is ClusterState.DOWN:
                    break
            keeper.close()
        self._lock.close()

    def leave(self) -> None:
        self._leave.set()
        self.join(20)


@pytest.fixture
def keeper(home) -> Iterator[Keeper]:
    keeper = Keeper()
    keeper.start()
    yield keeper
    keeper.leave()


def test_a_node_is_taken_back_at_will_and_replaced(keeper, workbench, store):
    workbench("up", "--rehearsal", "--nodes", "2", "--yes")
    before = {node.id for node in store.fleets.nodes(CLUSTER)}

    said = workbench("interrupt")
    taken = max(before)
    until(lambda: taken not in {node.id for node in store.fleets.nodes(CLUSTER)}, seconds=30.0)

    workbench("resize", "--nodes", "2")
    assert f"The rehearsal reclaims {taken};" in said.stdout
    assert len(before & {node.id for node in store.fleets.nodes(CLUSTER)}) == 1
    workbench("delete")


def test_nodes_come_and_go_as_in_a_recording(keeper, workbench, store, tmp_path):
    recording = tmp_path / "made-up.csv"
    recording.write_text("0,4\n600,2\n1200,4\n6000,4\n")
    workbench("up", "--rehearsal", "--nodes", "2", "--yes")
    before = {node.id for node in store.fleets.nodes(CLUSTER)}

    said = workbench("interrupt", "--history", str(recording), "--speed", "600")
    until(lambda: not before <= {n.id for n in store.fleets.nodes(CLUSTER)}, seconds=30.0)

    workbench("resize", "--nodes", "2")
    assert "1 h 40 min of made-up.csv are replayed in 10 s: up to 4 nodes" in said.stdout
    assert len(before & {node.id for node in store.fleets.nodes(CLUSTER)}) == 1
    workbench("delete")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("--speed", "0"), "The speed must be above 0, not 0."),
        (("--skip", "2h"), "No node is there in this part of"),
        (("--notice", "3m"), "The notice must be from 0 to 120 s"),
        (("r-000001",), "A recording says which nodes go"),
        (("--history", "nowhere.csv"), "nowhere.csv cannot be read"),
        (("--history", __file__), "is no recording of spot nodes"),
    ],
)
def test_what_cannot_be_replayed_is_refused(workbench, store, tmp_path, given, expected):
    recording = tmp_path / "made-up.csv"
    recording.write_text("0,4\n600,2\n")
    store.wish_cluster(CLUSTER, up=True, ranks=0, fleet=FleetWish("rehearsal", nodes=2))

    said = workbench("interrupt", "--history", str(recording), *given)

    assert said.exit_code
    assert expected in said.stderr


def test_no_other_place_takes_nodes_back_at_will(workbench, store):
    store.wish_cluster(CLUSTER, up=False, ranks=1)

    said = workbench("interrupt", "r-000001")

    assert said.exit_code
    assert "are not simulated" in said.stderr


def test_nodes_come_and_go_as_they_are_asked_for_and_nothing_is_left(keeper, workbench, store):
    up = workbench("up", "--rehearsal", "--nodes", "2", "--gpus", "1", "--budget", "5", "--yes")
    status = workbench("status")
    more = workbench("resize", "--nodes", "3")
    none = workbench("resize", "--nodes", "0")
    down = workbench("delete")

    assert "2 ranks on 2 of 2 nodes" in up.stdout
    assert "2 nodes of gpu.1 in here-1" in up.stderr
    assert "2 of 2 nodes" in status.stdout
    assert re.search(r" of \$5\.00 left, (8 h|7 h 5\d min) to live", status.stdout)
    assert "3 ranks on 3 of 3 nodes" in more.stdout
    assert "has no nodes now, and costs nothing" in none.stdout
    assert "no resource of it is left." in down.stdout, down.stderr
    assert ask_leftovers(store.cluster_wish(CLUSTER).fleet, CLUSTER) == ()
