"""What it costs to look after many nodes: the supervisor's processor time, and one plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tests.simulation.thread_cluster import ThreadCluster
from workbench.cloud.rehearsal.provider import Rehearsal, Weather
from workbench.core.fleet.facts import FleetFact
from workbench.core.fleet.fleet_plan import plan_fleet
from workbench.core.fleet.model import (
    FleetWish,
    Machine,
    MachineState,
    Needs,
    Node,
    NodeState,
)
from workbench.core.fleet.node_health import SessionState
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.store import Store
from workbench.store.paths import home_directory
from workbench.supervisor.fleet.fleet_loop import FleetKeeper
from workbench.supervisor.hosts import ClusterHosts
from workbench.supervisor.loop import Supervisor

from . import place
from .figures import BenchmarkFailed, Row, Series

NODES = 100
PLANNED = 1_000
MOST_PERCENT = 2.0
CLUSTER = "hundred"
WATCH_SECONDS = 10.0
UP_SECONDS = 120.0
BOOT_SECONDS = 1.0
REPEATS = 20


def measure(here: place.Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Measure a real loop over simulated nodes and threads as ranks, once all are up."""
    shares = _shares(rounds, say)
    plans = [_plan_seconds(nodes=PLANNED) for _ in range(rounds)]
    say(f"plan of {PLANNED:,} nodes: {', '.join(f'{1e3 * one:.3g} ms' for one in plans)}")
    few = [_plan_seconds(nodes=PLANNED // 10) for _ in range(rounds)]
    return [
        Row(
            f"supervisor of {NODES} nodes that are up, of a core",
            "%",
            Series("supervisor", tuple(100 * share for share in shares)),
            limit=MOST_PERCENT,
            note="with the rehearsal, which is a part of the same process",
        ),
        Row(
            f"one plan for {PLANNED:,} nodes",
            "s",
            Series("plan", tuple(plans)),
            Series(f"for {PLANNED // 10}", tuple(few)),
        ),
    ]


def _shares(rounds: int, say: Callable[[str], None]) -> list[float]:
    """Return processor seconds a second, of this process, which does nothing else meanwhile."""
    cloud = Rehearsal(
        home_directory() / "rehearsal",
        weather=Weather(plenty=NODES, boot=(BOOT_SECONDS, 2 * BOOT_SECONDS), quota=1_000_000),
        cluster=CLUSTER,
    )
    fleet = FleetWish("rehearsal", nodes=NODES, slots=1, needs=Needs(types=("cpu.2",)))
    with Store() as store:
        hosts = ClusterHosts(lambda wish: FleetKeeper(wish.name, store, cloud))
        ask_cluster(store, 0, cluster=CLUSTER, fleet=fleet)
        supervisor = Supervisor(CLUSTER, store, ThreadCluster(), hosts=hosts)
        supervisor.open()
        _turn(supervisor, UP_SECONDS, lambda: len(_joined(store)) == NODES)
        if len(_joined(store)) != NODES:
            fact = store.cluster_fact(CLUSTER)
            raise BenchmarkFailed(
                f"Of {NODES} simulated nodes {len(_joined(store))} came up; the cluster is "
                f"{fact.state}{fact.message and f': {fact.message}'}."
            )
        shares = []
        for number in range(1, rounds + 1):
            began, used = time.monotonic(), time.process_time()
            _turn(supervisor, WATCH_SECONDS)
            shares.append((time.process_time() - used) / (time.monotonic() - began))
            say(f"round {number} of {rounds}: {100 * shares[-1]:.2f} % of a core")
        ask_down(store, cluster=CLUSTER)
        _turn(supervisor, UP_SECONDS)
    return shares


def _turn(
    supervisor: Supervisor, seconds: float, enough: Callable[[], bool] = lambda: False
) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and supervisor.tick() and not enough():
        continue


def _joined(store: Store) -> list[Node]:
    return [node for node in store.fleets.nodes(CLUSTER) if node.state is NodeState.JOINED]


def _plan_seconds(nodes: int) -> float:
    wish = FleetWish("rehearsal", nodes=nodes, needs=Needs(types=("cpu.2",)))
    now = 1_700_000_000.0
    ready = [
        Node(f"i-{number}", NodeState.JOINED, f"10.0.{number >> 8}.{number & 255}", 1, since=now)
        for number in range(nodes)
    ]
    machines = [
        Machine(node.id, MachineState.RUNNING, node.address, node.address, launched=now)
        for node in ready
    ]
    fact = FleetFact(
        "big",
        founded=now,
        asked=now,
        nodes=(replace(ready[0], head=True), *ready[1:]),
        machines=tuple(machines),
        seen=now + 1,
        contacts=tuple(SessionState(node.id, open=True, since=now) for node in ready),
        used=frozenset(node.id for node in ready),
    )
    began = time.perf_counter()
    for _ in range(REPEATS):
        plan_fleet(wish, fact, wanted=True, now=now + 2)
    return (time.perf_counter() - began) / REPEATS
