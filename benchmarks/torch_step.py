"""A DDP loop with curves, step times and Stop over the same under torchrun, and how each starts."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, median

from .figures import BenchmarkFailed, Row, Series, interleaved
from .kernel import Kernel
from .place import Place, cluster, held

SCRIPT = Path(__file__).parent / "scripts" / "ddp_steps.py"
RANKS = 2
STEPS = 200
SECONDS = 600
OURS, THEIRS = "%dist_train script.py", f"torchrun --nproc-per-node {RANKS} script.py"
CARRIED = "%dist_train --communicator auto script.py"


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train in each way in turn; nothing else of ours runs while torchrun trains."""
    if importlib.util.find_spec("torch") is None:
        note = "torch is not installed; make test-torch makes an environment that has it"
        return [Row("DDP step, median", "s", None, note=note)]
    with cluster(RANKS), Kernel() as kernel:
        kernel.run("%load_ext workbench")
        _from_cell(place, kernel, "")  # what is warm later is made warm here
        steps: dict[str, list[list[float]]] = {}
        ways = {
            OURS: partial(_kept, steps, OURS, partial(_from_cell, place, kernel, "")),
            CARRIED: partial(
                _kept, steps, CARRIED, partial(_from_cell, place, kernel, "--communicator auto ")
            ),
            THEIRS: partial(_kept, steps, THEIRS, partial(_from_torchrun, place)),
        }
        starts = interleaved(rounds, ways, say)
    note = f"{STEPS} steps of about 20 ms a round, MLP 784-1200-1200-10, {RANKS} ranks, one thread"
    rows = []
    for figure, what in ((median, "DDP step, median"), (fmean, "DDP step, mean")):
        reference = Series(THEIRS, tuple(figure(one) for one in steps[THEIRS]))
        for label in (OURS, CARRIED):
            series = Series(label, tuple(figure(one) for one in steps[label]))
            goal = 1.01 if label == OURS else None
            rows.append(Row(what, "s", series, reference, goal=goal, note=note))
    first = "to the end of the first step of DDP"
    return [*rows, Row(first, "s", starts[OURS], starts[THEIRS], goal=0.1, note="warm cluster")]


def _kept(
    steps: dict[str, list[list[float]]], label: str, train: Callable[[], tuple[float, list[float]]]
) -> float:
    """Keep the seconds of the steps, and return those until the first had ended."""
    start, seconds = train()
    steps.setdefault(label, []).append(seconds)
    return start


def _from_cell(place: Place, kernel: Kernel, options: str) -> tuple[float, list[float]]:
    path = place.path("times.json")
    answer = kernel.run(f"%dist_train {options}{SCRIPT} {path} {STEPS}")
    return _read(path, answer.asked)


def _from_torchrun(place: Place) -> tuple[float, list[float]]:
    path = place.path("times.json")
    runner = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    with held(place.processes()):
        started = time.time()
        done = subprocess.run(
            [*runner, "--nproc-per-node", str(RANKS), str(SCRIPT), str(path), str(STEPS)],
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise BenchmarkFailed(f"torchrun ended with code {done.returncode}: {last}")
    return _read(path, started)


def _read(path: Path, started: float) -> tuple[float, list[float]]:
    if not path.exists():
        raise BenchmarkFailed("The script ended without having written its times.")
    written = json.loads(path.read_text(encoding="utf-8"))
    return written["first"] - started, written["steps"]
