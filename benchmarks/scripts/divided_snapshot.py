"""Save a model that FSDP2 divides, by ours and by PyTorch alone, in turn.

Arguments: bytes of model and optimizer, rounds, a folder, and ``node`` or ``nodes``: whether both
ranks are on one node. Rank 0 writes the seconds of each round: ``ours`` and ``dcp`` until all is on
the disk, and ``waited`` for which the training waits for ours.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from mpi4py import MPI
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from workbench.core.world.world import NODE_VARIABLE
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.snapshot.peers import Peers
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.engine.snapshot.state import LoopState, StepCount

FOUND = "found: "
UNITS = 2_048
WORLD = MPI.COMM_WORLD


def make(nbytes: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Return a model and an optimizer with two numbers for each of its parameters."""
    layers = max(1, round(nbytes / 12 / UNITS**2))
    model = torch.nn.Sequential(*(torch.nn.Linear(UNITS, UNITS) for _ in range(layers)))
    mesh = init_device_mesh("cpu", (WORLD.size,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    model(torch.rand(2, UNITS)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def timed(way: Callable[[], object]) -> float:
    """Return the seconds that the slowest rank takes."""
    WORLD.Barrier()
    begun = time.perf_counter()
    way()
    return float(WORLD.allreduce(time.perf_counter() - begun, MPI.MAX))


def main() -> None:
    nbytes, rounds, folder = int(float(sys.argv[1])), int(sys.argv[2]), Path(sys.argv[3])
    if sys.argv[4] == "nodes":
        os.environ[NODE_VARIABLE] = f"node-{WORLD.rank}"
    else:
        os.environ.pop(NODE_VARIABLE, None)
    torch.set_num_threads(1)
    store = f"file://{folder}/store-{sys.argv[4]}"
    torch.distributed.init_process_group("gloo", store, rank=WORLD.rank, world_size=WORLD.size)
    model, optimizer = make(nbytes)
    steps, own = StepCount(1), folder / (sys.argv[4] + str(WORLD.rank) * (sys.argv[4] == "nodes"))
    snapshots = RunSnapshots(
        RunLog("260101-000000-save", WORLD.rank, folder / f"log-{WORLD.rank}"), str(own),
        run="260101-000000-save", attempt=1, generation=1, resumes=False,
    )  # fmt: skip
    state = LoopState({"model": model, "optimizer": optimizer}, steps, None)
    training = snapshots.begin_loop(state, Peers())
    training.begin()
    values = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    found: dict[str, list[float]] = {"ours": [], "waited": [], "dcp": []}
    for number in range(rounds + 1):
        waited = 0.0

        def ours() -> None:
            nonlocal waited
            begun = time.perf_counter()
            training.passed(is_due=True)
            waited = time.perf_counter() - begun
            snapshots.writer.wait()

        target = folder / f"dcp-{number}"
        steps.done += 1
        theirs = functools.partial(dcp.save, values, checkpoint_id=target)
        took = {"ours": timed(ours), "dcp": timed(theirs)}
        took["waited"] = WORLD.allreduce(waited, MPI.MAX)
        for name, seconds in took.items():
            found[name] += [seconds] * (number > 0)  # in the first one both get their memory
        if WORLD.rank == 0:
            shutil.rmtree(target)
    torch.distributed.destroy_process_group()
    print(f"{FOUND}{json.dumps({'rank': WORLD.rank, **found})}", flush=True)


main()
