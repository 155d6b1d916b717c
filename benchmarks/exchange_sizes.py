"""Add up arrays from 1 kB to 256 MB over 2, 4 and 8 hosts whose links are shaped."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from .exchange_link import MBITS, PORT, REACH
from .exchange_memory import NO_GLOO
from .figures import Row, Series
from .place import Place
from .shaped import shaped_hosts

SCRIPT = Path(__file__).with_name("scripts") / "exchange_sizes.py"
NODES = (2, 4, 8)
SIZES = (1e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8, 2.56e8)
BOUND = (1e6, 1e7, 1e8)
"""Sizes that are compared with what the link can carry, too."""
SECONDS = 1.5
OURS, CHECKED = "ours", "MPI's default with checks"


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Exchange each size in all ways in turn, as often as there is time for."""
    ways = [OURS, CHECKED, "MPI's default", "naive"]
    if importlib.util.find_spec("torch") is not None:
        ways.append("gloo")
    else:
        say(NO_GLOO)
    rows: list[Row] = []
    with shaped_hosts(place, max(NODES), MBITS) as hosts:
        for nodes in NODES:
            address = f"{hosts.hosts[0].address}:{PORT + nodes}"
            limit = hosts.limit()
            sizes = ",".join(f"{size:g}" for size in SIZES)
            arguments = (sizes, ",".join(ways), f"{SECONDS:g}", address)
            for found in hosts.mpi(SCRIPT, *arguments, nodes=nodes):
                took = {way: Series(way, tuple(found[way])) for way in ways}
                what = f"allreduce of {found['nbytes'] / 1e3:g} kB, {nodes} nodes"
                medians = ", ".join(f"{way} {1e3 * took[way].median:.3f} ms" for way in ways)
                say(f"{what}: {medians}")
                best = min((took[way] for way in ways[2:]), key=lambda one: one.median)
                rows.append(Row(what, "s", took[OURS], best, goal=1.0))
                # The others do not see whether numbers are finite and ranks agree.
                rows.append(Row(what, "s", took[OURS], took[CHECKED], goal=1.0))
                if found["nbytes"] in BOUND:
                    least = 2 * (nodes - 1) / nodes * found["nbytes"] / limit
                    link = Series("the link by iperf3", (least,) * len(found[OURS]))
                    rows.append(Row(what, "s", took[OURS], link, goal=1 / REACH))
    return rows
