"""Play seeded faults against real clusters; `make chaos N=1000 SEED=1`.

The faults are played in chapters, each with a seed, a home and a cluster of its own. A line per
chapter is written as it ends, and a play that was interrupted continues with the next chapter. The
home of a chapter in which something went wrong is kept beside the line. Three processes play at the
same time, two on this machine and one on nodes, where these can be simulated.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from random import Random

import psutil

from benchmarks.place import Place
from tests.chaos.nodes import Nodes
from tests.chaos.play import Play, cluster
from tests.chaos.tally import Record, Tally, table, total
from tests.rehearsal.hosts import why_not
from workbench.store import Store

ENDING_SECONDS = 15.0
CHAPTER = 20
TOGETHER = (1, 2, 3, 4)
FOLDER = Path("build/chaos")
STAGES = ("both", "machine", "nodes")
OF_NODES = 0.2  # of the faults


def main() -> int:
    """Play, print what was lost, and return 1 if anything was that must not be."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--stage", choices=STAGES, default="both")
    parser.add_argument("--only", action="append", default=[], help="Play this fault alone.")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore the first
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    if options.stage == "both":
        found = at_once(options.seed, options.faults, options.only)
    else:
        played = play_chapters(options.stage, options.seed, options.faults, options.only)
        found = {options.stage: total(played)}
    for tally in found.values():
        print(tally)
    print(f"{table(found)}\n{time.monotonic() - began:.0f} s in all")
    return 0 if all(tally.is_well for tally in found.values()) else 1


def at_once(seed: int, faults: int, only: Sequence[str]) -> dict[str, Tally]:
    """Play in a process for each part; return what happened on each stage."""
    parts = shares(seed, faults)
    options = [word for name in only for word in ("--only", name)]
    command = [sys.executable, "-m", "tests.chaos", *options]
    processes = [
        subprocess.Popen(
            [*command, "--stage", stage, "--seed", str(seed), "--faults", str(number)],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
        )
        for stage, seed, number in parts
    ]
    try:
        for process in processes:
            process.wait()
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)  # no effect on one that has ended
            process.wait()
    found: dict[str, Tally] = {}
    for stage, part, _ in parts:
        tallies = Record(path_of(stage, part)).chapters().values()
        found.setdefault(stage, Tally()).add(total(tallies))
    return found


def shares(seed: int, faults: int) -> list[tuple[str, int, int]]:
    """Return the parts that are played at once: stage, seed and number of faults."""
    if reason := why_not():
        print(f"All on this machine: {reason}.")
        parts = [("machine", seed, faults - faults // 2), ("machine", seed + 1, faults // 2)]
    else:
        here, there = faults - int(faults * OF_NODES), int(faults * OF_NODES)
        parts = [("machine", seed, here - here // 2), ("machine", seed + 1, here // 2)]
        parts.append(("nodes", seed, there))
    return [part for part in parts if part[-1]]


def path_of(stage: str, seed: int) -> Path:
    """Return the path of the record of a play."""
    return FOLDER / f"{stage}-{seed}.jsonl"


def play_chapters(stage: str, seed: int, faults: int, only: Sequence[str]) -> list[Tally]:
    """Play the chapters that are not in the record yet; return the tallies of all."""
    record = Record(path_of(stage, seed))
    print(f"seed {seed}, {record.path}", flush=True)
    played = record.chapters()
    for chapter in itertools.count():
        left = faults - sum(one.faults for one in played.values())
        if left <= 0:
            break
        if chapter not in played:
            played[chapter] = play(stage, seed, chapter, left, only)
            record.write(chapter, played[chapter])
            print(total(played.values()), flush=True)
    return [*played.values()]


def play(stage: str, seed: int, chapter: int, faults: int, only: Sequence[str]) -> Tally:
    """Play one chapter in a home of its own, and see what is left of it."""
    say = partial(print, f"{stage} {seed}.{chapter}:", flush=True)
    chance = Random(f"{seed} {chapter}")
    # Not in /tmp, which hosts have of their own.
    with (
        tempfile.TemporaryDirectory(prefix="wb-chaos-", dir="/run") as folder,
        Nodes() if stage == "nodes" else nullcontext(None) as there,
        Place() as place,
        Store() as store,
    ):
        made = Play(store, Path(folder), chance, say, stage=there, together=TOGETHER)
        try:
            with cluster(store) if there is None else there.cluster(store):
                made.go(min(CHAPTER, faults), only)
        except AssertionError as error:
            made.tally.stuck.append(f"the cluster: {error}")
        # A watchdog ends at its next look.
        psutil.wait_procs(place.processes(), timeout=ENDING_SECONDS)
        lines = [" ".join([str(one.pid), *one.cmdline()])[:200] for one in place.processes()]
        made.tally.left += [*lines, *made.segments(), *(there.left() if there else ())]
        if not made.tally.is_well:
            keep = FOLDER / f"{stage}-{seed}.{chapter}"
            shutil.copytree(place.folder, keep, ignore=_sockets, dirs_exist_ok=True)
    return made.tally


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(folder) / name).is_socket()]


if __name__ == "__main__":
    sys.exit(main())
