"""Add up one array over 2 to 8 hosts whose links are shaped, against what the link can carry."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from .exchange_memory import NO_GLOO
from .figures import Row, Series
from .place import Place
from .shaped import ShapedHosts, shape, shaped_hosts

SCRIPT = Path(__file__).with_name("scripts") / "exchange_link.py"
# Nodes, and by what bytes and bits a second are divided: what eight hosts send each other at
# 1.44 Gbit/s takes 0.9 of what two cores can do, so they are measured at half of it as well.
CASES = ((2, 1), (3, 1), (4, 1), (8, 1), (8, 2))
MBITS, NBYTES = 1_440.0, 100_000_000
SLOW_NODES, SLOWER = 4, 4  # one of the nodes has a link so many times slower
REACH = 0.95
PORT = 29_500


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Measure the link's limit with iperf3 before each size of world."""
    ways = ["ours", "MPI's default", "naive"]
    if importlib.util.find_spec("torch") is not None:
        ways.append("gloo")
    else:
        say(NO_GLOO)
    rows: list[Row] = []
    for slower in sorted({slower for _, slower in CASES}):
        sizes = [nodes for nodes, divisor in CASES if divisor == slower]
        with shaped_hosts(place, max(sizes), MBITS / slower) as hosts:
            for nodes in sizes:
                rows += _rows(hosts, nodes, slower, rounds, ways, say)
    with shaped_hosts(place, SLOW_NODES, MBITS) as hosts:
        return rows + _slow_rows(hosts, rounds, ways, say)


def _rows(
    hosts: ShapedHosts,
    nodes: int,
    slower: int,
    rounds: int,
    ways: list[str],
    say: Callable[[str], None],
) -> list[Row]:
    limit, nbytes = hosts.limit(), NBYTES // slower
    found = _found(hosts, nodes, nbytes, rounds, ways)
    least = 2 * (nodes - 1) / nodes * nbytes / limit
    for way in ways:
        share = [f"{least / seconds:.3f}" for seconds in sorted(found[way])]
        say(f"{nodes} nodes, {way}: busbw over the link's limit {', '.join(share)}")
    ours = Series("workbench.create_communicator()", tuple(found["ours"]))
    bound = Series(f"iperf3's {limit * 8e-6:.0f} Mbit/s", (least,) * len(found["ours"]))
    what = f"allreduce of {nbytes / 1e6:.0f} MB at {MBITS / slower / 1e3:g} Gbit/s, {nodes} nodes"
    return [
        Row(what, "s", ours, bound, goal=1 / REACH),
        *(
            Row(what, "s", ours, Series(way, tuple(found[way])), goal=1.0)
            for way in ways
            if way != "ours"
        ),
    ]


def _slow_rows(
    hosts: ShapedHosts, rounds: int, ways: list[str], say: Callable[[str], None]
) -> list[Row]:
    """Slow one node; in a ring of equal parts its link carries 2(n−1)/n of the bytes."""
    limit = hosts.limit() / SLOWER
    shape(hosts.hosts[1], MBITS / SLOWER)
    found = _found(hosts, SLOW_NODES, NBYTES, rounds, ways)
    least = 2 * (SLOW_NODES - 1) / SLOW_NODES * NBYTES / limit
    for way in ways:
        say(f"one slow link, {way}: {', '.join(f'{one:.3g} s' for one in sorted(found[way]))}")
    ours = Series("workbench.create_communicator()", tuple(found["ours"]))
    bound = Series("the slow link in a ring of equal parts", (least,) * len(found["ours"]))
    what = f"allreduce of {NBYTES / 1e6:.0f} MB, {SLOW_NODES} nodes, one link {SLOWER} times slower"
    others = [Series(way, tuple(found[way])) for way in ways if way != "ours"]
    return [
        Row(what, "s", ours, bound, goal=1 / REACH),
        *(Row(what, "s", ours, other, goal=1.0) for other in others),
    ]


def _found(
    hosts: ShapedHosts, nodes: int, nbytes: int, rounds: int, ways: list[str]
) -> dict[str, list[float]]:
    gloo = f"{hosts.hosts[0].address}:{PORT + nodes}"
    reported = (str(nbytes), str(rounds), ",".join(ways), gloo)
    return hosts.mpi(SCRIPT, *reported, nodes=nodes)[0]
