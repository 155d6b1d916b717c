"""Play seeded faults against real clusters; `make chaos N=1000 SEED=1`.

The faults are played in chapters, each with a seed, a home and a cluster of its own. A line per
chapter is written as it ends, and a play that was interrupted continues with the next chapter.
"""

from __future__ import annotations

import argparse
import random
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
from tests.chaos.tally import Record, Tally, total
from workbench.store import Store

ENDING_SECONDS = 15.0
CHAPTER = 20
TOGETHER = (1, 2, 3)
FOLDER = Path("build/chaos")
STAGES = ("machine", "nodes")


def main() -> int:
    """Play, print what was lost, and return 1 if anything was that must not be."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--stage", choices=STAGES, default="machine")
    parser.add_argument("--only", action="append", default=[], help="Play this fault alone.")
    options = parser.parse_args()
    record = Record(FOLDER / f"{options.stage}-{options.seed}.jsonl")
    print(f"seed {options.seed}, {record.path}", flush=True)
    played = record.chapters()
    chapter, began = 0, time.monotonic()
    while (left := options.faults - sum(one.faults for one in played.values())) > 0:
        if chapter not in played:
            played[chapter] = play(options.stage, options.seed, chapter, left, options.only)
            record.write(chapter, played[chapter])
            print(total(played.values()), flush=True)
        chapter += 1
    found = total(played.values())
    print(f"{found}\n{time.monotonic() - began:.0f} s in all")
    return 0 if found.is_well else 1


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
    return made.tally


if __name__ == "__main__":
    sys.exit(main())
