"""Train by a script of Hugging Face as one attempt of a run, for tests that resume it.

``… OPTIONS``: a JSON object; ``DEFAULTS`` has its names. Each rank appends what it trains on to a
file of its own beside the snapshots, so that it is there after a kill.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import socket
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

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
from workbench.core.run.rank_protocol import SnapshotSaved, TrainingResumed
from workbench.engine.boundary import RunStopped
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current
from workbench.engine.snapshot import saved_training
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.errors import WorkbenchError
from workbench.frameworks.accelerate import AccelerateFramework
from workbench.frameworks.lightning import LightningFramework
from workbench.frameworks.torch.framework import TorchFramework
from workbench.frameworks.transformers import TransformersFramework

DEFAULTS: dict[str, Any] = {
    "kind": "trainer_script",
    "folder": "",
    "attempt": 1,
    "resume": False,
    "saves": True,  # snapshots of ours
    "own": False,  # whether the script loads its own checkpoint, as with --restart
    "loads": False,  # whether it does so in a run that is saved
    "stop": None,  # the boundary at which the run stops
    "every": 2,  # iterations between snapshots
    "kill": None,  # [rank, what it does, step] at which the rank is killed
    "examples": 48,
    "evaluated": 48,  # examples
    "batch": 4,
    "accumulate": 1,
    "epochs": 2,
    "model": "plain",
    "workers": 0,
    "dropout": 0.0,
    "noise": 0.0,  # at most that is added to an example where it is read
    "seed": 3,
    "splits": False,  # whether accelerate divides a batch among the ranks
    "divides": False,  # whether a sampler of the script's divides the data among the ranks
    "items": "",  # what the model does with the number of items
    "streams": False,  # whether the data has no indices
    "patience": [0.0, 50],  # the least change of a validation, and how many without it are allowed
    "ways": [],  # what else the script does, by names of its own
    "arguments": {},  # further ones of the library's
}
options = {**DEFAULTS, **json.loads(arguments[0])}
warnings.simplefilter("ignore")
os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
here = SimpleNamespace(**options, rank=rank, size=size, found=found, place=Path(options["folder"]))
FRAMEWORKS = (
    TorchFramework(),
    AccelerateFramework(),
    LightningFramework(),
    TransformersFramework(),
)


def kill(doing: str, step: int) -> None:
    """End this rank at once if it is to be killed while it does this in this step."""
    if here.kill == [rank, doing, step]:
        if run.snapshots is not None:
            run.snapshots.writer.wait()  # so that it continues after what was done
        (here.place / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def noted(step: int, numbers: list[int]) -> None:
    """Note which examples are trained on in a step."""
    with (here.place / f"visits-{here.attempt}-{rank}").open("a") as file:
        file.write(json.dumps([step, numbers]) + "\n")
    if run.snapshots is not None:
        run.snapshots.writer.wait()  # so that the next one is not left out
    kill("train", step)


here.killed, here.noted = kill, noted


def port() -> int:
    if rank:
        return int(world.bcast(None))
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(world.bcast(server.getsockname()[1]))


world = worlds.offer(0)
run = RunContext(RunLog("260101-000000-arun", rank, folder / f"rank-{rank}" / "log"))
run.world = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
if options["saves"] and not options["own"]:
    run.snapshots = RunSnapshots(
        run.log,
        str(here.place / f"snapshots-{0}"),
        run="260101-000000-arun",
        attempt=options["attempt"],
        generation=1,
        resumes=options["resume"],
    )
run.boundaries.asks_script = options["own"]
if options["every"] == 1:
    vars(saved_training)["FIRST_ITERATIONS"] = 1
vars(saved_training)["interval"] = lambda *_: options["every"]
if options["stop"] is not None:
    run.boundaries.stop_at(options["stop"])
os.environ |= {
    "RANK": str(rank),
    "LOCAL_RANK": str(rank),
    "WORLD_SIZE": str(size),
    "LOCAL_WORLD_SIZE": str(size),
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": str(port()),
}


def main() -> None:
    np.random.seed(rank)
    random.seed(rank)
    for one in FRAMEWORKS:
        one.install()
    set_current(run)
    for one in FRAMEWORKS:
        one.begin_run(size, is_script=True)
    errors, found["ended"] = io.StringIO(), "finished"
    try:
        with contextlib.redirect_stderr(errors):
            import importlib

            importlib.import_module(f"tests.engine.elastic.programs.{here.kind}").train(here)
    except RunStopped:
        found["ended"] = "stopped"
    except WorkbenchError as error:
        found["ended"] = str(error)
    except BaseException:
        sys.stderr.write(errors.getvalue())
        raise
    finally:
        run.close()
        set_current(None)
        for one in FRAMEWORKS:
            one.leave()
        if run.snapshots is not None:
            run.snapshots.close()
    events = events_of(run.log)
    found["snapshots"] = [one.iteration for one in events if isinstance(one, SnapshotSaved)]
    found["resumed"] = [one.iteration for one in events if isinstance(one, TrainingResumed)]
    found["said"] = "\n".join(x for x in errors.getvalue().splitlines() if "workbench:" in x)
    found["progress"] = [run.log.progress.iteration, run.log.progress.epoch]
    write_found()


main()
