"""A hundred trials that do nothing, one after another: ours on a warm cluster, and other tuners."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from workbench.core.run.model import RunKind
from workbench.core.run.run_options import RunOptions
from workbench.requests.sweep import ask_sweep
from workbench.store import Store

from .figures import BenchmarkFailed, Row, interleaved
from .place import Place, cluster

TRIALS = 100
WHAT = f"{TRIALS} empty trials"
DEADLINE = 120.0
SOURCE = "import workbench\nworkbench.report(loss=(lr - 0.3) ** 2)"
OURS, TPE, OPTUNA, RAY = (
    "%%dist_sweep, random",
    "%%dist_sweep --sampler tpe",
    "Optuna in one process",
    "Ray Tune",
)
SCRIPTS = Path(__file__).parent / "scripts"


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Do the trials in each way, in turn."""
    with cluster(1):
        _sweep("random", 3)  # the first world beside that of the cells is started once
        ways = {OURS: partial(_sweep, "random", TRIALS), TPE: partial(_sweep, "tpe", TRIALS)}
        others = {OPTUNA: ("optuna", "optuna_trials.py"), RAY: ("ray", "ray_trials.py")}
        absent = []
        for label, (module, script) in others.items():
            if importlib.util.find_spec(module) is None:
                absent.append(Row(WHAT, "s", None, note=f"{label} is absent"))
                continue
            try:
                _script(script)
            except BenchmarkFailed as error:
                absent.append(Row(WHAT, "s", None, note=f"{label}: {error}"))
            else:
                ways[label] = partial(_script, script)
        found = interleaved(rounds, ways, say)
    reference = found.get(OPTUNA)
    return [
        Row(
            WHAT,
            "s",
            series,
            None if label == OPTUNA else reference,
            note=label,
        )
        for label, series in found.items()
    ] + absent


def _sweep(sampler: str, trials: int) -> float:
    """Return the seconds from the request until the sweep is over."""
    sampler = "TPESampler" if sampler == "tpe" else sampler
    with Store() as store:
        begun = time.perf_counter()
        sweep = ask_sweep(
            store,
            RunOptions(parameters=(("lr", "log(0.001, 1)"),)),
            given={"trials": trials, "minimize": "loss", "sampler": sampler},
            kind=RunKind.CELL,
            source=SOURCE,
        )
        seen = -1
        while time.perf_counter() - begun < DEADLINE:
            if (version := store.data_version()) != seen:
                seen = version
                if store.sweeps.find(sweep.id)[1].over:
                    return time.perf_counter() - begun
            time.sleep(0.01)
    raise BenchmarkFailed(f"{trials} trials did not end within {DEADLINE:.0f} s")


def _script(name: str) -> float:
    """Return the seconds that a script says its trials took, without its imports."""
    command = [sys.executable, SCRIPTS / name, str(TRIALS)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchmarkFailed(f"{name} took more than {DEADLINE:.0f} s") from None
    if done.returncode:
        raise BenchmarkFailed(f"{name} ended with {done.returncode}: {done.stderr[-300:]}")
    return float(done.stdout.split()[-1])
