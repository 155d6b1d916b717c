"""Bring a state of 1 GB to a rank that joins, and save one that is divided among the ranks.

What a rank that joins waits for is held against the same bytes sent by MPI, over a link of
1.44 Gbit/s between two hosts and in the memory of one. A snapshot of a divided model is held
against `torch.distributed.checkpoint.save` alone; both write until all is on the disk.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from .bare import SCRIPTS, run_ranks
from .figures import Row, Series
from .place import Place
from .shaped import shaped_hosts

NBYTES = 1_000_000_000
MBITS = 1_440.0
REACH = 0.9
SECONDS = 900.0
DIVIDED = {
    "node": "2 ranks on one node",
    "nodes": "2 nodes; each one saves both parts",
}
Found = dict[str, list[float]]


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Measure a joiner over a link and in memory, and snapshots of a divided model."""
    joiner = "joiner_state.py"
    rows = _joiner(_run(place, joiner, rounds, str(place.path("joiner"))), "memory", say)
    with shaped_hosts(place, 2, MBITS) as hosts:
        words = (str(NBYTES), str(rounds), "/tmp/joiner")
        both = hosts.mpi(SCRIPTS / joiner, *words, nodes=2)
    rows += _joiner(_of_rank_0(both), f"{MBITS / 1e3:g} Gbit/s", say)
    if importlib.util.find_spec("torch") is None:
        say("snapshots of a divided model left out: there is no torch here")
        return rows
    for nodes, what in DIVIDED.items():
        folder = place.path("divided")
        folder.mkdir()
        found = _run(place, "divided_snapshot.py", rounds, str(folder), nodes)
        theirs = Series("torch.distributed.checkpoint.save", tuple(found["dcp"]))
        on_disk, waited = (
            Series(label, tuple(found[name]))
            for name, label in (("ours", "on the disk"), ("waited", "the training waits"))
        )
        note = "1 GB of FSDP2's model and optimizer"
        rows += [Row(f"snapshot, {what}", "s", one, theirs, note=note) for one in (on_disk, waited)]
        say(", ".join(f"{name} {median(values):.2f} s" for name, values in found.items()))
    return rows


def _joiner(found: Found, link: str, say: Callable[[str], None]) -> list[Row]:
    ours = Series("until it is in the arrays of both", tuple(found["ours"]))
    rates = {name: NBYTES / 1e9 / median(found[name]) for name in ("ours", "new", "bare")}
    say(f"{link}: " + ", ".join(f"{name} {rate:.3f} GB/s" for name, rate in rates.items()))
    note = "; ".join(f"{name} {rate:.2f} GB/s" for name, rate in rates.items())
    return [
        Row(
            f"state of 1 GB to a rank that joins, {link}",
            "s",
            ours,
            Series(f"MPI's broadcast into {memory}", tuple(found[name])),
            goal=1 / REACH if name == "bare" else None,
            note=note,
        )
        for name, memory in (("bare", "memory in use"), ("new", "new memory"))
    ]


def _run(place: Place, script: str, rounds: int, *words: str) -> Found:
    """Run a script on two ranks of this machine; return what rank 0 found."""
    words = (str(NBYTES), str(rounds), *words)
    return _of_rank_0(run_ranks(place, SCRIPTS / script, 2, *words, seconds=SECONDS).found)


def _of_rank_0(found: Sequence[dict[str, Any]]) -> Found:
    mine = next(one for one in found if one["rank"] == 0)
    return {name: values for name, values in mine.items() if name != "rank"}
