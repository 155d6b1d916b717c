"""From `sbatch` to the first step on Slurm: a real controller, and nodes that are namespaces."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.rehearsal import slurm
from tests.rehearsal.hosts import Hosts, why_not
from workbench.core.fleet.model import FleetWish
from workbench.core.units import count

from . import place
from .figures import BenchmarkFailed, Row, Series
from .nodes import FIRST, PHASES, start

NODES = (1, 3)


def measure(here: place.Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Start one node and three in turn, each time from nothing, on nodes that are free."""
    if reason := why_not() or slurm.why_not():
        raise BenchmarkFailed(reason)
    user = here.path("user")
    user.mkdir()
    os.environ["HOME"] = str(user)
    found: dict[int, list[dict[str, float]]] = {nodes: [] for nodes in NODES}
    with Hosts(max(NODES), shared=[user]) as hosts, slurm.slurm(hosts) as site:
        os.environ["SLURM_CONF"] = site.environment["SLURM_CONF"]
        for number in range(1, rounds + 1):
            for nodes, starts in found.items():
                with place.home(here.path("home")):
                    starts.append(start(FleetWish("slurm", nodes=nodes, min_nodes=nodes, slots=1)))
                reported = ", ".join(f"{name} {taken:.1f}" for name, taken in starts[-1].items())
                say(f"round {number} of {rounds}, {count(nodes, 'node')}: {reported} s")
    few, many = NODES
    note = "a real Slurm; its nodes are namespaces of one machine and share a home folder"
    return [
        Row(
            f"start of {many} nodes of Slurm, sbatch to {name}", "s",
            _since_submission(many, name, found), _since_submission(few, name, found), note=note,
        )
        for name in [*PHASES, FIRST] if name != "asked"
    ]  # fmt: skip


def _since_submission(nodes: int, name: str, found: dict[int, list[dict[str, float]]]) -> Series:
    """Return the seconds from the moment at which the job was listed until a phase had ended."""
    values = tuple(one[name] - one["asked"] for one in found[nodes])
    return Series(count(nodes, "node"), values)
