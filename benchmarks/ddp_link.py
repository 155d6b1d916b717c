"""Train by DistributedDataParallel on 2 to 8 hosts whose links are shaped, as others do and as we.

Nothing is simulated but the link. Where ranks share a core, computing and compressing take longer,
and the link is slower by the same factor; so are the figures, which are divided by it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from statistics import median

from .figures import BenchmarkFailed, Row, Series
from .place import Place
from .shaped import ShapedHosts, shaped_hosts

SCRIPT = Path(__file__).with_name("scripts") / "ddp_link.py"
# The network's depth, and the nodes.
CASES = ((18, 2), (18, 4), (18, 8), (50, 2))
NUMBERS = {18: "11.7 M numbers", 50: "25.6 M numbers"}
MBITS = 1_440.0
PORT = 29_600
# Ours, and each way of PyTorch's that is as accurate.
PAIRS = {
    "ours": ("gloo",),
    "ours, fp16": ("gloo", "gloo, fp16_compress_hook"),
    "ours, int8": ("gloo", "gloo, fp16_compress_hook"),
    "ours, powersgd": ("gloo", "gloo, powerSGD_hook"),
}
WAYS = tuple(dict.fromkeys([*PAIRS, *(way for ways in PAIRS.values() for way in ways)]))


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train in all ways in turn, a step each; a round is one step."""
    if importlib.util.find_spec("torch") is None:
        note = "torch is not installed; make test-torch makes an environment that has it"
        return [Row("step of DDP", "s", None, note=note)]
    rows: list[Row] = []
    for nodes in sorted({nodes for _, nodes in CASES}):
        share = max(1.0, nodes / len(os.sched_getaffinity(0)))
        with shaped_hosts(place, nodes, MBITS / share, share) as hosts:
            for depth in (depth for depth, count in CASES if count == nodes):
                try:
                    rows += _rows(hosts, depth, nodes, share, rounds, say)
                except BenchmarkFailed as error:  # the other cases are measured
                    say(str(error))
                    what = f"step of DDP, ResNet-{depth}, {nodes} nodes"
                    rows.append(Row(what, "s", None, note="it failed"))
    return rows


def _rows(
    hosts: ShapedHosts,
    depth: int,
    nodes: int,
    share: float,
    rounds: int,
    say: Callable[[str], None],
) -> list[Row]:
    gloo = f"{hosts.hosts[0].address}:{PORT + nodes + depth}"
    asked = (str(depth), str(rounds), "; ".join(WAYS), gloo)
    found = hosts.mpi(SCRIPT, *asked, nodes=nodes)[0]
    steps = {way: Series(way, tuple(s / share for s in found["steps"][way])) for way in WAYS}
    for way in WAYS:
        loss, busy = found["losses"][way], median(found["processor"][way])
        figures = f"{steps[way].median:.3f} s, {busy:.3f} s of a processor, loss {loss:.3f}"
        say(f"ResNet-{depth}, {nodes} nodes, {way}: {figures}")
    note = f"{NUMBERS[depth]}, {rounds} steps in turn"
    note += f"; time runs {share:g} times as slow for all" if share > 1 else ""
    what = f"step of DDP, ResNet-{depth} at {MBITS / 1e3:g} Gbit/s, {nodes} nodes"
    return [
        Row(what, "s", steps[way], steps[other], goal=1.0, note=note)
        for way, others in PAIRS.items()
        for other in others
    ]
