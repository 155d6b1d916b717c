"""Add up one array over 2 to 8 hosts whose links are shaped, against what the link can carry."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from .exchange_memory import NO_GLOO
from .figures import Row, Series
from .place import Place
from .shaped import ShapedHosts, shaped_hosts

SCRIPT = Path(__file__).with_name("scripts") / "exchange_link.py"
NODES = (2, 3, 4, 8)
# Two cores cannot carry 1.44 Gbit/s for eight hosts at once: bytes and bits a second by ten.
MBITS, NBYTES = 144.0, 10_000_000
REACH = 0.95
NOTE = "100 MB at 1.44 Gbit/s, both divided by ten"
PORT = 29_500


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Measure the link's limit with iperf3 before each size of world."""
    ways = ["ours", "MPI's default", "naive"]
    if importlib.util.find_spec("torch") is not None:
        ways.append("gloo")
    else:
        say(NO_GLOO)
    rows: list[Row] = []
    with shaped_hosts(place, max(NODES), MBITS) as hosts:
        for nodes in NODES:
            rows += _rows(hosts, nodes, rounds, ways, say)
    return rows


def _rows(
    hosts: ShapedHosts, nodes: int, rounds: int, ways: list[str], say: Callable[[str], None]
) -> list[Row]:
    limit = hosts.limit()
    gloo = f"{hosts.hosts[0].address}:{PORT + nodes}"
    told = (str(NBYTES), str(rounds), ",".join(ways), gloo)
    found = hosts.mpi(SCRIPT, *told, nodes=nodes)[0]
    least = 2 * (nodes - 1) / nodes * NBYTES / limit
    for way in ways:
        share = [f"{least / seconds:.3f}" for seconds in sorted(found[way])]
        say(f"{nodes} nodes, {way}: busbw over the link's limit {', '.join(share)}")
    ours = Series("workbench.create_communicator()", tuple(found["ours"]))
    bound = Series(f"iperf3's {limit * 8e-6:.0f} Mbit/s", (least,) * len(found["ours"]))
    what = f"allreduce, {nodes} nodes"
    return [
        Row(what, "s", ours, bound, goal=1 / REACH, note=NOTE),
        *(
            Row(what, "s", ours, Series(way, tuple(found[way])), goal=1.0)
            for way in ways
            if way != "ours"
        ),
    ]
