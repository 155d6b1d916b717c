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
# slower, on the link, in the computation and in the codec.
SCALE = 20
MBITS, COMPUTE = 1_440.0 / SCALE, 0.105
EPOCH, STEPS = 32, 6
REACH = 6.0
ALONE, BEST = "one node", "ours, powersgd"
NOTE = (
    f"Network in Network, 7.6 M numbers in 12 layers; {1e3 * COMPUTE:.0f} ms of compute, the codec "
    f"and 1.44 Gbit/s are played {SCALE} times slower, all else is not slowed"
)


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
            note=NOTE if way == BEST else f"{alone / seconds:.1f} times as fast",
        )
        for way, seconds in ways.items()
    ]
    naive = Series("naive", (ways["naive"],))
    return [
        *rows,
        Row(f"epoch on {NODES} nodes", "s", Series(BEST, (ways[BEST],)), naive, goal=1.0),
    ]


def _epoch(hosts: ShapedHosts, way: str, nodes: int, say: Callable[[str], None]) -> float:
    """Return the seconds of ``EPOCH`` batches, as long as they take where nothing is slowed."""
    found = hosts.mpi(SCRIPT, way, f"{COMPUTE:g}", str(SCALE), str(STEPS), nodes=nodes)[0]
    seconds = float(found["step"]) * EPOCH / nodes
    say(
        f"{way} on {nodes}: {1e3 * found['step']:.0f} ms a step, {1e3 * found['coding']:.1f} ms of "
        f"it coding; an epoch of {EPOCH} batches takes {seconds:.2f} s"
    )
    return seconds
