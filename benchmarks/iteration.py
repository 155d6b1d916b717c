"""The iteration time of an unmodified script with live curves, over that under bare mpiexec."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from . import bare
from .figures import BenchmarkFailed, Row, Series
from .kernel import Kernel
from .place import Place, cluster, held
from .usage import middle, usage_of

RANKS = 2
ITERATIONS = 4_000
SEED = 0
IDLE_SECONDS = 6.0
OURS, THEIRS = "%dist_train script.py", f"mpiexec -n {RANKS} python script.py"


@dataclass(frozen=True)
class Times:
    """What the script wrote of its own iterations."""

    first: float
    seconds: tuple[float, ...]

    @property
    def last(self) -> float:
        return self.first + sum(self.seconds)


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train with both in turn; the one is held while the other trains."""
    ours: list[Times] = []
    theirs: list[Times] = []
    shares: list[dict[str, float]] = []
    with cluster(RANKS), Kernel() as kernel:
        kernel.run("%load_ext workbench")
        _train_here(place, kernel, 100)  # the first picture loads what draws
        for number in range(1, rounds + 1):
            usage = usage_of(place, kernel.pid)
            ours.append(_train_here(place, kernel, ITERATIONS, usage.look))
            shares.append(usage.shares(ours[-1].first, ours[-1].last))
            with held(place.processes()):
                theirs.append(_train_bare(place, ITERATIONS))
            say(
                f"round {number} of {rounds}: {OURS} {1e3 * fmean(ours[-1].seconds):.3f} ms, "
                f"{THEIRS} {1e3 * fmean(theirs[-1].seconds):.3f} ms (means)"
            )
        idle = _idle(place, kernel)
    note = f"{ITERATIONS:,} iterations a round, MLP 784-256-256-10, 64 images a rank"
    rows = [
        _row("iteration time, median", median, ours, theirs, note),
        _row("iteration time, mean", fmean, ours, theirs, "with everything that drawing costs"),
    ]
    return [*rows, *_usage_rows(middle(shares), idle)]


def _row(
    what: str,
    figure: Callable[[tuple[float, ...]], float],
    ours: list[Times],
    theirs: list[Times],
    note: str,
) -> Row:
    return Row(
        what,
        "s",
        Series(OURS, tuple(figure(times.seconds) for times in ours)),
        Series(THEIRS, tuple(figure(times.seconds) for times in theirs)),
        goal=1.01,
        note=note,
    )


def _usage_rows(training: dict[str, float], idle: dict[str, float]) -> list[Row]:
    rows = [
        Row("processor while training", "%", Series(role, (100 * share,)), note="of one core")
        for role, share in sorted(training.items(), key=lambda item: -item[1])
    ]
    share = Series("supervisor", (100 * idle["supervisor"],))
    return [*rows, Row("processor while idle", "%", share, note="of one core")]


def _train_here(
    place: Place, kernel: Kernel, iterations: int, look: Callable[[], None] = lambda: None
) -> Times:
    path = place.path("times.json")
    words = " ".join(_arguments(path, place, iterations))
    kernel.run(f"%dist_train {bare.SCRIPT} {words}", received=look)
    return _read(path)


def _train_bare(place: Place, iterations: int) -> Times:
    path = place.path("times.json")
    bare.mpiexec(place, RANKS, _arguments(path, place, iterations))
    return _read(path)


def _arguments(path: Path, place: Place, iterations: int) -> list[str]:
    out = str(place.folder / "result")
    return f"--iterations {iterations} --seed {SEED} --times {path} --out {out}".split()


def _read(path: Path) -> Times:
    if not path.exists():
        raise BenchmarkFailed("The script ended without having written its times.")
    written = json.loads(path.read_text(encoding="utf-8"))
    return Times(written["first"], tuple(written["iterations"]))


def _idle(place: Place, kernel: Kernel) -> dict[str, float]:
    time.sleep(1)
    usage = usage_of(place, kernel.pid)
    begun = usage.read()
    time.sleep(IDLE_SECONDS)
    usage.readings = [begun, usage.read()]
    return usage.shares(begun.moment, usage.readings[-1].moment)
