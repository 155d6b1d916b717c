"""Train by an elastic loop as one attempt of a run, for tests that resume it.

``… OPTIONS``: a JSON object; ``DEFAULTS`` has its names.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import signal
import warnings
import zlib
from contextlib import redirect_stderr
from types import SimpleNamespace
from typing import Any

import numpy as np
from msgspec.structs import asdict, astuple

from tests.engine.programs.world import (
    arguments,
    events_of,
    folder,
    found,
    rank,
    size,
    worlds,
    write_found,
)
from workbench.core.options.table import variables
from workbench.core.run.rank_protocol import SnapshotSaved, TrainingResumed
from workbench.core.world.world import NODE_VARIABLE
from workbench.engine.boundary import RunStopped
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current
from workbench.engine.snapshot import saved_training
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.errors import WorkbenchError
from workbench.frameworks.torch.framework import TorchFramework

DEFAULTS: dict[str, Any] = {
    "kind": "numpy",  # whose loop: numpy, chainer, torch or sharded
    "folder": "",  # of the snapshots; none are saved without
    "attempt": 1,
    "resume": False,
    "stop": None,  # the boundary at which the run stops
    "steps": [12],  # of each loop
    "epochs": None,
    "every": 3,  # iterations between snapshots
    "fail": None,  # the step after which the training fails
    "kill": None,  # [rank, step] after which it is killed
    "ask": None,  # the step after which a snapshot is asked for
    "examples": 50,
    "batch": 7,
    "data": "batches",
    "units": 3,
    "more": None,  # [rank, name] of an entry that this rank alone has
    "scatter": True,
    "alone": False,  # whether ranks keep their gradients for themselves
    "workers": 0,  # processes of a loader
    "compress": None,
    "double_buffering": False,
    "noise": 0.0,  # of the data that is read
    "shard": "fsdp",  # how a sharded network is divided: fsdp, hsdp or tensor; not at all if empty
    "nodes": False,  # whether each rank is a node of its own
}
options = {**DEFAULTS, **json.loads(arguments[0])}
warnings.simplefilter("ignore")
given = variables(options)
if options["nodes"]:
    os.environ[NODE_VARIABLE] = f"node-{rank}"
else:
    os.environ.pop(NODE_VARIABLE, None)
os.environ |= dict(given)
if given:
    TorchFramework().install()
world = worlds.offer(0)
run = RunContext(RunLog("260101-000000-arun", rank, folder / f"rank-{rank}" / "log"))
if options["folder"]:
    run.snapshots = RunSnapshots(
        run.log,
        options["folder"].format(rank=rank),
        run="260101-000000-arun",
        attempt=options["attempt"],
        generation=1,
        resumes=options["resume"],
    )
vars(saved_training)["interval"] = lambda *_: options["every"]
if options["ask"]:
    vars(saved_training)["LISTEN_SECONDS"] = 0.0  # at each step
if options["stop"] is not None:
    run.boundaries.stop_at(options["stop"])
found |= {"ended": "finished", "losses": {}, "visited": [], "resets": []}
found |= {"weights": [], "epochs": []}


def noted(loop: int, step: Any, loss: float, visited: list[int]) -> None:
    """Note a step, and disturb the training where it was asked for."""
    mean = world.allreduce(loss * step.weight) / size
    found["losses"][f"{loop} {int(step) + 1}"] = mean
    if step.weight:
        found["visited"].append([step.epoch, visited])
    found["epochs"].append([step.epoch, step.ends_epoch])
    if run.snapshots is not None:
        run.snapshots.writer.wait()  # so that the next one is not left out
    if options["ask"] == step + 1 and run.snapshots is not None:
        run.snapshots.is_asked = rank == 0
    if options["fail"] == step + 1:
        raise ValueError("the training fails here")
    if options["kill"] == [rank, step + 1]:
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def ended(*arrays: Any) -> None:
    """Note the state of a loop at its end."""
    found["weights"].append([zlib.crc32(np.asarray(one).tobytes()) for one in arrays])


def main() -> None:
    np.random.seed(rank)
    random.seed(rank)
    name = f"tests.engine.elastic.programs.{options['kind']}_loop"
    train = importlib.import_module(name).train
    here = SimpleNamespace(
        options=SimpleNamespace(**options),
        rank=rank,
        size=size,
        world=world,
        folder=folder,
        noted=noted,
        ended=ended,
        found=found,
        exchanges=bool(given),
    )
    set_current(run)
    errors = io.StringIO()
    try:
        with redirect_stderr(errors):
            for number, steps in enumerate(options["steps"]):
                train(here, number, steps)
    except RunStopped:
        found["ended"] = "stopped"
    except (ValueError, WorkbenchError) as error:
        found["ended"] = str(error)
    finally:
        run.close()
        set_current(None)
        for name, _ in given:
            del os.environ[name]
        if run.snapshots is not None:
            run.snapshots.close()
    news = [*run.log._samples]
    values = (one for one in news if isinstance(one, tuple))
    samples = [(at, name, one) for at, _, pairs in values for name, one in pairs]
    events = events_of(run.log)
    found["snapshots"] = [one.iteration for one in events if isinstance(one, SnapshotSaved)]
    found["resumed"] = [astuple(one) for one in events if isinstance(one, TrainingResumed)]
    found["reported"] = [(at, one) for at, name, one in samples if name == "loss"]
    chunks = "".join(getattr(one, "text", "") for one in run.log._chunks)
    found["said"] = errors.getvalue() + chunks
    found["boundaries"], found["iteration"] = run.boundaries.count, run.iteration
    found["progress"] = asdict(run.log.progress)
    found["after"] = [np.random.rand(), random.random()]
    write_found()


main()
