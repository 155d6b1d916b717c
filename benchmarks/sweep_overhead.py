"""What trials cost beside their own work: empty ones, against other tuners, and idle ranks.

A hundred trials that do nothing are done one after another. Trials of ten seconds run beside each
other, and the share of the ranks' time without a trial is measured, from the first one's begin to
the last one's end.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
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
WORK_SECONDS, SLOTS, WORKING = 10.0, 2, 12
IDLE = f"ranks idle between trials of {WORK_SECONDS:.0f} s, {WORKING} of them on {SLOTS} ranks"
MOST_IDLE = 5.0
SLEEP = f"import time\ntime.sleep({WORK_SECONDS})\n{SOURCE}"
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
    with cluster(SLOTS):
        _sweep("random", 3, ranks=1)
        ways = {kind: partial(_idle, kind) for kind in (RunKind.CELL, RunKind.SCRIPT)}
        idle = interleaved(min(rounds, 2), ways, say)
    reference = found.get(OPTUNA)
    return (
        [Row(IDLE, "%", series, limit=MOST_IDLE, note=f"{kind}s") for kind, series in idle.items()]
        + [
            Row(
                WHAT,
                "s",
                series,
                None if label == OPTUNA else reference,
                note=label,
            )
            for label, series in found.items()
        ]
        + absent
    )


def _sweep(sampler: str, trials: int, ranks: int = 0, **run: object) -> float:
    """Return the seconds from the request until the sweep is over."""
    begun = time.perf_counter()
    _follow(sampler, trials, ranks, **({"kind": RunKind.CELL, "source": SOURCE} | run))
    return time.perf_counter() - begun


def _idle(kind: RunKind) -> float:
    """Return the percentage of the ranks' time in which they had no trial."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "work.py"
        path.write_text(SLEEP)
        script = {"path": str(path)} if kind is RunKind.SCRIPT else {}
        sweep = _follow("random", WORKING, 1, kind=kind, source=SLEEP, **script)
    with Store() as store:
        facts = [store.run(one.run).fact for one in store.sweeps.trials(sweep)]
    whole = max(one.ended for one in facts) - min(one.started for one in facts)
    return 100 * (1 - WORK_SECONDS * WORKING / (SLOTS * whole))


def _follow(sampler: str, trials: int, ranks: int, **run: object) -> str:
    """Do a sweep to its end; return its id."""
    sampler = "TPESampler" if sampler == "tpe" else sampler
    until = time.monotonic() + DEADLINE
    with Store() as store:
        sweep = ask_sweep(
            store,
            RunOptions(parameters=(("lr", "log(0.001, 1)"),)),
            given={
                "trials": trials,
                "minimize": "loss",
                "sampler": sampler,
                "ranks_per_trial": (ranks, ranks),
            },
            **run,
        )
        seen = -1
        while time.monotonic() < until:
            if (version := store.data_version()) != seen:
                seen = version
                if store.sweeps.find(sweep.id)[1].over:
                    return sweep.id
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
