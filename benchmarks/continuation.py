"""How long a training pauses when its ranks change, and what its snapshots cost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

from workbench.core.cluster.size import Size
from workbench.core.run.model import RunKind, RunState
from workbench.core.run.rank_protocol import SnapshotSaved
from workbench.core.supervisor import log_messages
from workbench.requests.cluster import ask_size
from workbench.requests.resume import ask_resume
from workbench.requests.run import ask_run, ask_stop
from workbench.requests.supervisor import LOG_NAME
from workbench.store import Store
from workbench.store.paths import cluster_directory

from .figures import BenchmarkFailed, Row, Series, interleaved
from .place import Place, cluster

SOURCE = Path(__file__).parent / "scripts" / "continued_training.py"
NAME = "default"
SECONDS = 120.0
AFTER = 5  # iterations on the new ranks
LAST_STEP_SECONDS = 0.1  # a step may still end right after the kill
OURS, BY_HAND = "resize", "stop, resize, resume"
WAIT = "import time\ntime.sleep(60)"
ALLREDUCE = "from mpi4py import MPI\nassert MPI.COMM_WORLD.allreduce(1) == 2"
PARTS = (
    "SIGKILL to the start of the next ranks",
    "from there until they are ready",
    "from there to the end of the next step",
)
NOTE = "100 MB of parameters and momentum, real steps; without a step's own time"


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Resize and kill trainings, in turn, and read the times of their iterations."""
    stalls: list[float] = []
    killed: list[tuple[float, ...]] = []
    crashed: list[float] = []
    with cluster(2), Store() as store:
        ways = {
            OURS: partial(_resized, store, stalls, by_hand=False),
            BY_HAND: partial(_resized, store, stalls, by_hand=True),
        }
        found = interleaved(rounds, ways, say)
        for number in range(1, rounds + 1):
            killed.append(_killed(store, stalls))
            crashed.append(_next_cell(store))
            parts = ", ".join(f"{seconds:.5g}" for seconds in killed[-1])
            line = f"rank killed {sum(killed[-1]):.5g} ({parts}), next cell {crashed[-1]:.5g}"
            say(f"round {number} of {rounds}: {line}")
    return [
        Row(
            "pause of a training that is resized between 1 and 2 ranks",
            "s",
            *found.values(),
            note=NOTE,
        ),
        Row(
            "SIGKILL of a rank to the end of the next step, 2 ranks",
            "s",
            Series("continues by itself", tuple(map(sum, killed))),
            note=NOTE,
        ),
        *(
            Row(what, "s", Series("continues by itself", seconds), note="of the row above")
            for what, seconds in zip(PARTS, zip(*killed, strict=True), strict=True)
        ),
        Row(
            "SIGKILL of a rank in one cell to the end of the next cell, 2 ranks",
            "s",
            Series("next cell", tuple(crashed)),
            limit=1.0,
            note="the next cell is an allreduce, and is asked for when the first has failed",
        ),
        Row(
            "stall of a snapshot",
            "s",
            Series("2 ranks", tuple(stalls)),
            note="100 MB; the first of each training, which is the slowest",
        ),
    ]


def _resized(store: Store, stalls: list[float], *, by_hand: bool) -> float:
    """Return the longest time between two iterations around a change of size."""
    before = store.cluster_fact(NAME).ranks
    size = Size(3 - before, None)
    with training(store, stalls) as run:
        if by_hand:
            ask_stop(store, run, NAME)
            until(lambda: store.run(run).fact.state.ended)
            ask_size(store, size, cluster=NAME, oversubscribe=True)
            ask_resume(store, run)
        else:
            ask_size(store, size, cluster=NAME, oversubscribe=True)
        return gap(store, run)


def _killed(store: Store, stalls: list[float]) -> tuple[float, ...]:
    """Return the parts of the time from the end of a rank to the next iteration."""
    ask_size(store, Size(2, None), cluster=NAME, oversubscribe=True)
    until(lambda: store.cluster_fact(NAME).ranks == 2)
    with training(store, stalls) as run:
        victim = store.ranks(NAME, store.run(run).fact.generation)[1]
        asked = time.time()
        os.kill(victim.pid, signal.SIGKILL)
        continued(store, run, 1)
        stepped = min(t for t in times(store, run) if t > asked + LAST_STEP_SECONDS)
        generation = store.run(run).fact.generation
    started = logged(log_messages.starting(generation, ("localhost", "localhost")))
    ready = logged(log_messages.ready(generation, 2))
    return started - asked, ready - started, stepped - ready


def logged(sentence: str) -> float:
    """Return when the supervisor logged a sentence last, in epoch seconds."""
    lines = (cluster_directory(NAME) / LOG_NAME).read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line.endswith(f": {sentence}")]
    if not found:
        raise BenchmarkFailed(f"The supervisor's log lacks {sentence!r}.")
    return datetime.strptime(" ".join(found[-1].split()[:2]), "%Y-%m-%d %H:%M:%S,%f").timestamp()


def _next_cell(store: Store) -> float:
    """Return the time from the end of a rank in one cell to the end of the cell after it."""
    first = _started(store, WAIT)
    until(lambda: store.run(first).fact.state is RunState.RUNNING)
    victim = store.ranks(NAME, store.run(first).fact.generation)[1]
    killed = time.time()
    os.kill(victim.pid, signal.SIGKILL)
    until(lambda: store.run(first).fact.state.ended)
    second = _started(store, ALLREDUCE)
    until(lambda: store.run(second).fact.state.ended)
    fact = store.run(second).fact
    if fact.state is not RunState.FINISHED:
        raise BenchmarkFailed(f"The cell after a crash is {fact.state}: {fact.message}")
    return fact.ended - killed


def _started(store: Store, source: str) -> str:
    return ask_run(store, kind=RunKind.CELL, source=source, cluster=NAME).id


@contextmanager
def training(store: Store, stalls: list[float]) -> Iterator[str]:
    """Have a training that has saved a snapshot; note its stall."""
    source = SOURCE.read_text(encoding="utf-8")
    run = ask_run(store, kind=RunKind.CELL, source=source, cluster=NAME).id
    try:
        until(lambda: store.attempts.newest_snapshot(run) >= 0)
        iteration = store.run(run).fact.iteration
        until(lambda: store.run(run).fact.iteration >= iteration + AFTER)
        stalls.extend(one.seconds for one in store.events.all(run, SnapshotSaved))
        yield run
    finally:
        with suppress(BenchmarkFailed):
            ask_stop(store, run, NAME)
            until(lambda: store.run(run).fact.state.ended)


def gap(store: Store, run: str) -> float:
    continued(store, run, AFTER)
    steps = [later - earlier for earlier, later in pairwise(times(store, run))]
    return max(steps) - median(steps)


def continued(store: Store, run: str, iterations: int) -> None:
    """Wait until a run has done so many iterations in its next attempt."""
    until(lambda: store.run(run).fact.resumed_at >= 0)
    resumed = store.run(run).fact.resumed_at
    until(lambda: len([t for t in _points(store, run) if t[0] > resumed]) >= iterations)


def times(store: Store, run: str) -> list[float]:
    """Return when rank 0 ended its iterations, in epoch seconds."""
    return sorted(moment for _, moment in _points(store, run))


def _points(store: Store, run: str) -> list[tuple[int, float]]:
    """Return rank 0's iterations with the time at which each ended."""
    points = store.reports.points(run)
    return [(p.iteration, p.time) for p in points if p.name == "main/loss" and p.rank == 0]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"A training did not come so far within {SECONDS:.0f} s.")
        time.sleep(0.02)
