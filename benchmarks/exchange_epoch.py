"""Train for an epoch on 8 hosts with slow links, with compute as long as a slow GPU's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .figures import Row, Series
from .place import Place
from .shaped import ShapedHosts, shaped_hosts

SCRIPT = Path(__file__).with_name("scripts") / "exchange_epoch.py"
NODES = 8
# Eight ranks share two cores for what real nodes compute on their own: time goes twenty times
# slower, on the link and in the computation.
SCALE = 20
MBITS, COMPUTE = 1_440.0 / SCALE, 0.105 * SCALE
STEPS = 32
REACH = 6.0
ALONE, BEST = "one node", "ours, powersgd"
NOTE = f"7.6 M numbers, 105 ms of compute at 1.44 Gbit/s, time scaled by {SCALE}"


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train in each way; one round, for an epoch takes a minute."""
    with shaped_hosts(place, NODES, MBITS) as hosts:
        alone = _epoch(hosts, "ours", 1, say)
        ways = {
            way: _epoch(hosts, way, NODES, say)
            for way in (BEST, "ours, int8", "ours, fp16", "ours", "naive")
        }
    one = Series(ALONE, (alone,))
    rows = [
        Row(
            f"epoch on {NODES} nodes",
            "s",
            Series(way, (seconds,)),
            one,
            goal=1 / REACH if way == BEST else None,
            note=NOTE if way == BEST else "",
        )
        for way, seconds in ways.items()
    ]
    naive = Series("naive", (ways["naive"],))
    return [
        *rows,
        Row(f"epoch on {NODES} nodes", "s", Series(BEST, (ways[BEST],)), naive, goal=1.0),
    ]


def _epoch(hosts: ShapedHosts, way: str, nodes: int, say: Callable[[str], None]) -> float:
    found = hosts.mpi(SCRIPT, way, f"{COMPUTE:g}", str(STEPS), nodes=nodes)[0]
    say(
        f"{way} on {nodes}: {found['seconds']:.1f} s for {found['steps']} steps, accuracy "
        f"{100 * found['accuracy']:.1f} %"
    )
    return float(found["seconds"])
