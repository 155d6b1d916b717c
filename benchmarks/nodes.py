"""From the click to the first iteration on EC2's rehearsal: where time goes, and how it grows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import why_not
from workbench.core.fleet.model import FleetWish, Needs, NodeState
from workbench.core.run.model import RunKind
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.run import ask_run
from workbench.store import Store

from . import place
from .figures import BenchmarkFailed, Row, Series

FEW, MANY = 3, 8
TYPE, REGION = "c5.large", "us-east-1"
# Invented; the rehearsal accepts any.
ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
UP_SECONDS, DOWN_SECONDS = 240.0, 120.0
LOOK_SECONDS = 0.02
# A phase ends when the last node has come so far.
PHASES = {
    "asked": NodeState.ASKED,
    "running": NodeState.BOOTING,
    "verified": NodeState.VERIFIED,
    "data ready": NodeState.READY,
    "joined": NodeState.JOINED,
}
FIRST = "first iteration"
ORDER = [*NodeState]
SOURCE = "import workbench\nfor step in range(3):\n    workbench.report(loss=1.0 / (step + 1))\n"


def measure(here: place.Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Start few and many nodes in turn, each time from nothing."""
    if reason := why_not():
        raise BenchmarkFailed(reason)
    found: dict[int, list[dict[str, float]]] = {FEW: [], MANY: []}
    for number in range(1, rounds + 1):
        for nodes, starts in found.items():
            with place.home(here.path("home")), Endpoint(machines=True) as endpoint:
                os.environ.update(ACCOUNT, AWS_ENDPOINT_URL=endpoint.url)
                starts.append(start(spot_nodes(nodes, endpoint.ssh_source)))
            reported = ", ".join(f"{name} {seconds:.1f}" for name, seconds in starts[-1].items())
            say(f"round {number} of {rounds}, {nodes} nodes: {reported} s")
    few, many = (_series(nodes, starts) for nodes, starts in found.items())
    note = "moto's EC2, a namespace with its own sshd for each node"
    return [
        Row(f"start of {MANY} spot nodes, click to {name}", "s", many[name], few[name], note=note)
        for name in [*PHASES, FIRST]
    ]


def _series(nodes: int, starts: list[dict[str, float]]) -> dict[str, Series]:
    return {
        name: Series(f"{nodes} nodes", tuple(start[name] for start in starts))
        for name in [*PHASES, FIRST]
    }


def spot_nodes(nodes: int, ssh_source: str, *own: tuple[str, str]) -> FleetWish:
    """Return a wish for so many nodes of the rehearsal's EC2.

    Args:
        ssh_source: This machine's address, which the nodes let in.
        own: More settings of EC2.
    """
    needs = Needs(types=(TYPE,))
    settings = (*own, ("ssh_from", f"{ssh_source}/32"))
    return FleetWish(
        "ec2", nodes=nodes, min_nodes=nodes, slots=1, needs=needs, region=REGION, settings=settings
    )


def start(
    fleet: FleetWish,
    *,
    marks: Mapping[str, Callable[[], bool]] | None = None,
    seconds: float = UP_SECONDS,
    then: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Return the seconds from the click until all nodes had come so far, by phase.

    Args:
        marks: More phases, and what says that one has ended.
        seconds: Until the first iteration, at most.
        then: What is done after it, while the nodes are there.
    """
    with Store() as store:
        began = time.monotonic()
        ask_cluster(store, 0, fleet=fleet)
        run = ask_run(store, kind=RunKind.CELL, source=SOURCE).id
        try:
            found = _follow(store, fleet.nodes, run, began, marks or {}, seconds)
            then()
            return found
        finally:
            ask_down(store)
            place.take_down(DOWN_SECONDS)


def _follow(
    store: Store,
    nodes: int,
    run: str,
    began: float,
    marks: Mapping[str, Callable[[], bool]],
    most: float,
) -> dict[str, float]:
    reached: dict[str, float] = {}
    deadline = began + most
    while FIRST not in reached:
        if time.monotonic() > deadline:
            fact = store.cluster_fact("default")
            raise BenchmarkFailed(f"{nodes} nodes came no further than {reached}: {fact.message}")
        there = [ORDER.index(node.state) for node in store.fleets.nodes("default")]
        seconds = time.monotonic() - began
        for name, state in PHASES.items():
            if name not in reached and sum(at >= ORDER.index(state) for at in there) >= nodes:
                reached[name] = seconds
        for name, is_past in marks.items():
            if name not in reached and is_past():
                reached[name] = seconds
        if store.run(run).fact.iteration:
            reached |= {name: seconds for name in [*PHASES, *marks] if name not in reached}
            reached[FIRST] = seconds
        time.sleep(LOOK_SECONDS)
    return reached
