"""Exchange a ResNet-50's gradients between two ranks of this machine, in several ways."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable

from .bare import SCRIPTS, run_ranks
from .figures import BenchmarkFailed, Row, Series
from .place import Place

RANKS = 2
MORE_RANKS = (4, 16)  # than cores, maybe
WHAT = "gradient exchange of ResNet-50"
NOTE = "161 arrays, 25.6 M numbers in single precision"
NAIVE = (("naive", "ChainerMN naive"),)
MOST_COPIES = 1.7
NO_GLOO = "gloo left out: there is no torch here, `pip install torch==2.13.0`"
SECONDS = 300.0


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Have one world exchange in all ways in turn, once a round."""
    ways = ["ours", "naive", "one buffer", "copy"]
    has_torch = importlib.util.find_spec("torch") is not None
    if has_torch:
        ways.append("gloo")
    else:
        say(NO_GLOO)
    found = _run(place, RANKS, max(rounds, 9), ways)
    ours = Series("workbench.create_communicator()", found["ours"])
    rivals = {
        **dict(NAIVE),
        "one buffer": "MPI allreduce of one buffer",
        "gloo": "gloo, buckets of 25 MB",
    }
    what = f"{WHAT}, {RANKS} ranks"
    rows = [
        Row(what, "s", ours, Series(label, found[way]), goal=1.0, note=NOTE)
        for way, label in rivals.items()
        if way in found
    ]
    bound = Series("one copy of the gradients, both ranks at once", found["copy"])
    rows.append(Row(f"{what}, distance to the bound", "s", ours, bound, goal=MOST_COPIES))
    for ranks in MORE_RANKS:
        try:
            found = _run(place, ranks, rounds, ["ours", "naive"])
        except BenchmarkFailed as error:
            say(f"{ranks} ranks left out: {error}")
            continue
        both = (Series(label, found[way]) for way, label in (("ours", ours.label), *NAIVE))
        rows.append(Row(f"{WHAT}, {ranks} ranks", "s", *both, note=NOTE))
        say(f"{ranks} ranks: {rows[-1].ratio:.3f} of naive")
    return rows


def _run(place: Place, ranks: int, rounds: int, ways: list[str]) -> dict[str, tuple[float, ...]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = (str(rounds), ",".join(ways), port)
    [found] = run_ranks(place, SCRIPTS / "exchange_memory.py", ranks, *words, seconds=SECONDS).found
    return {way: tuple(found[way]) for way in ways}
