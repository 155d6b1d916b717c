"""Resume a state that rank 0 alone has on its disk, beside what MPI takes to send as many bytes.

Rank 0 has two snapshots, as a run that has gone for a while: the state comes from the newer one.

Arguments: bytes, rounds, and a folder, which each host may have of its own. Each rank is a node.
Rank 0 writes the seconds of each round: ``ours`` until the state is in the arrays of both ranks,
``new`` of a broadcast into new memory, and ``bare`` into memory that has been written before.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy
from mpi4py import MPI

from workbench.core.recovery.snapshots import SnapshotManifest
from workbench.core.world.world import NODE_VARIABLE
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.snapshot.peers import Peers
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.engine.snapshot.state import LoopState, StepCount

FOUND = "found: "
CHUNK = 64 << 20
WORLD = MPI.COMM_WORLD
RUN = "260101-000000-join"


def state_of(numbers: int) -> dict[str, numpy.ndarray]:
    """Return a model and its optimizer, of half of the numbers each."""
    return {name: numpy.full(numbers // 2, WORLD.rank, "f4") for name in ("model", "momentum")}


def save(folder: Path, numbers: int) -> None:
    """Write the snapshots that rank 0 has."""
    snapshots = RunSnapshots(
        RunLog(RUN, 0, folder / "saved"), str(folder / "0"), run=RUN, attempt=1, generation=1,
        resumes=False,
    )  # fmt: skip
    for iteration in (5, 9):
        state = LoopState(state_of(numbers), StepCount(iteration), None)
        common, own = state.capture({})
        owns = [pickle.dumps(own)] * 2
        manifest = SnapshotManifest(
            run=RUN, attempt=1, generation=1, training=1, iteration=iteration, epoch=0.0, ranks=2,
            final=False,
        )  # fmt: skip
        files = {
            **state.files(common, owns),
            "ranks.pickle": functools.partial(pickle.dump, owns),
        }
        snapshots.folder.write(manifest, files)


def ours(folder: Path, state: dict[str, numpy.ndarray], peers: Peers) -> None:
    """Resume the loop."""
    snapshots = RunSnapshots(
        RunLog(RUN, WORLD.rank, folder / f"log-{WORLD.rank}"), str(folder / str(WORLD.rank)),
        run=RUN, attempt=2, generation=1, resumes=True,
    )  # fmt: skip
    snapshots.begin_loop(LoopState(state, StepCount(), None), peers)


def send(buffer: numpy.ndarray) -> None:
    """Send the bytes."""
    for start in range(0, len(buffer), CHUNK):
        WORLD.Bcast(buffer[start : start + CHUNK], 0)


def main() -> None:
    nbytes, rounds, folder = int(float(sys.argv[1])), int(sys.argv[2]), Path(sys.argv[3])
    os.environ[NODE_VARIABLE] = f"node-{WORLD.rank}"
    folder.mkdir(parents=True, exist_ok=True)
    if WORLD.rank == 0:
        save(folder, nbytes // 4)
    buffer, state, peers = numpy.ones(nbytes, "u1"), state_of(nbytes // 4), Peers()
    ways: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(folder, state, peers),
        "bare": lambda: send(buffer),
        "new": lambda: send(buffer if WORLD.rank == 0 else numpy.empty(nbytes, "u1")),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            for one in state.values():
                one[:] = WORLD.rank
            WORLD.Barrier()
            begun = time.perf_counter()
            way()
            seconds = WORLD.allreduce(time.perf_counter() - begun, MPI.MAX)
            found[name] += [seconds] * (number > 0)
            assert name != "ours" or not any(one[::4096].any() for one in state.values())
    print(f"{FOUND}{json.dumps({'rank': WORLD.rank, **found})}", flush=True)


main()
