"""Play seeded faults against a real cluster of this machine; `make chaos N=1000 SEED=1`."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.place import Place
from tests.chaos.play import Play, cluster
from workbench.store import Store

ENDING_SECONDS = 15.0


def main() -> int:
    """Play, print what was lost, and return 1 if anything was that must not be."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", action="append", default=[], help="Play this fault alone.")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    with Place() as place, Store() as store, tempfile.TemporaryDirectory() as folder:
        play = Play(store, Path(folder), options.seed, lambda text: print(text, flush=True))
        with cluster(store):
            play.go(options.faults, options.only)
        # A watchdog ends at its next look.
        psutil.wait_procs(place.processes(), timeout=ENDING_SECONDS)
        left, segments = place.processes(), play.segments()
        for process in left:
            print("left:", process.pid, " ".join(process.cmdline())[:200])
        for name in segments:
            print("left:", name)
    print(play.tally)
    seconds = time.monotonic() - began
    print(
        f"{len(left)} processes and {len(segments)} folders in shared memory left; "
        f"{seconds:.0f} s in all"
    )
    return 0 if play.tally.is_well and not (left or segments) else 1


if __name__ == "__main__":
    sys.exit(main())
