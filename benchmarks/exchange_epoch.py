"""Train for an epoch on 8 hosts with slow links, with compute as long as a slow GPU's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .figures import Row, Series
from .place import Place
from .shaped import ShapedHosts, shaped_hosts

SCRIPT = Path(__file__).with_name("scripts") / "exchange_epoch.py"
NODES = 8
MBITS = 1_440.0
EPOCH, STEPS = 32, 4
REACH = 6.0
ALONE, BEST = "one node", "ours, powersgd"
WAYS = (BEST, "ours, int8", "ours, fp16", "ours", "naive")


class Training(NamedTuple):
    """What is trained: a network, its seconds of compute a step, and in which ways.

    Eight ranks share two cores for what real nodes compute on their own: time goes slower, on the
    link, in the computation, in the codec and in the optimizer.

    Args:
        compute: 0 for those that this machine's core needs for one example.
        slower: By what; the more numbers eight ranks copy for real, the more.
    """

    network: str
    title: str
    compute: float
    slower: int
    ways: tuple[str, ...]


TRAININGS = (
    Training("nin", "Network in Network, 7.6 M numbers", 0.105, 10, WAYS),
    Training("resnet50", "ResNet-50, 25.6 M numbers", 0.105, 30, (BEST,)),
    Training("resnet50", "ResNet-50, an example a step on a core", 0.0, 10, (BEST,)),
)


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train in each way; one round, for an epoch takes a minute."""
    rows: list[Row] = []
    for one in TRAININGS:
        with shaped_hosts(place, NODES, MBITS / one.slower, one.slower) as hosts:
            rows += _rows(hosts, one, say)
    return rows


def _rows(hosts: ShapedHosts, one: Training, say: Callable[[str], None]) -> list[Row]:
    alone = _epoch(hosts, one, "ours", 1, say)
    took = {way: _epoch(hosts, one, way, NODES, say) for way in one.ways}
    note = f"{one.title}; compute, codec, optimizer and link are played {one.slower} times slower"
    return [
        Row(
            f"epoch on {NODES} nodes, {one.title}",
            "s",
            Series(way, (seconds,)),
            Series(ALONE, (alone,)),
            goal=1 / REACH if way == BEST else None,
            note=note if way == BEST else f"{alone / seconds:.1f} times as fast",
        )
        for way, seconds in took.items()
    ]


def _epoch(
    hosts: ShapedHosts, one: Training, way: str, nodes: int, say: Callable[[str], None]
) -> float:
    """Return the seconds of ``EPOCH`` batches, as long as they take where nothing is slowed."""
    arguments = (way, one.network, f"{one.compute:g}", str(one.slower), str(STEPS))
    found = hosts.mpi(SCRIPT, *arguments, nodes=nodes)[0]
    parts = ", ".join(f"{name} {1e3 * found[name]:.1f}" for name in ("compute", "coding", "update"))
    seconds = float(found["step"]) * EPOCH / nodes
    say(
        f"{one.network}, {way} on {nodes}: {1e3 * found['step']:.0f} ms a step ({parts}, and "
        f"{1e3 * found['tail']:.1f} after the last compute); an epoch takes {seconds:.2f} s; all "
        f"ranks really used {1e3 * found['real']:.1f} ms of processor time"
    )
    return seconds
