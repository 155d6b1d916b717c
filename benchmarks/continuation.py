"""How long a training pauses when its ranks change, and what its snapshots cost."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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

SCRIPTS = Path(__file__).with_name("scripts")
NAME = "default"
SECONDS = 120.0
AFTER = 5  # iterations on the new ranks
MOST_PAUSE, MOST_LOSS = 0.5, 1.0  # seconds
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


@dataclass(frozen=True)
class Training:
    """What is trained, as the source of a cell.

    Args:
        loss: Rank 0 reports it once a step.
    """

    what: str
    source: str
    loss: str


CHAINER = Training("a training", "continued_training.py", "main/loss")
TORCH = Training("a loop of PyTorch", "continued_torch.py", "loss")


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Resize and kill trainings, in turn, and read the times of their iterations."""
    stalls: list[float] = []
    killed: list[tuple[float, ...]] = []
    crashed: list[float] = []
    rows: list[Row] = []
    with cluster(2), Store() as store:
        if importlib.util.find_spec("torch") is not None:
            rows = _torch_rows(store, rounds, say)
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
        *rows,
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


def _torch_rows(store: Store, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Resize and kill a loop of PyTorch, as it is done with a training of Chainer."""
    resized, killed, stalls = list[float](), list[float](), list[float]()
    for number in range(1, rounds + 1):
        resized.append(_resized(store, stalls, by_hand=False, of=TORCH))
        killed.append(sum(_killed(store, stalls, of=TORCH)))
        line = f"resized {resized[-1]:.5g}, rank killed {killed[-1]:.5g}"
        say(f"round {number} of {rounds}: {TORCH.what}, {line}")
    figures = (
        (f"pause of {TORCH.what} that is resized between 1 and 2 ranks", resized, MOST_PAUSE),
        (f"SIGKILL of a rank of {TORCH.what} to the end of the next step", killed, MOST_LOSS),
        (f"stall of a snapshot of {TORCH.what}", stalls, None),
    )
    return [
        Row(what, "s", Series("workbench.elastic", tuple(values)), limit=most, note=NOTE)
        for what, values, most in figures
    ]


def _resized(store: Store, stalls: list[float], *, by_hand: bool, of: Training = CHAINER) -> float:
    """Return the longest time between two iterations around a change of size."""
    before = store.cluster_fact(NAME).ranks
    size = Size(3 - before, None)
    with training(store, stalls, of) as run:
        if by_hand:
            ask_stop(store, run, NAME)
            until(lambda: store.run(run).fact.state.ended)
            ask_size(store, size, cluster=NAME, oversubscribe=True)
            ask_resume(store, run)
        else:
            ask_size(store, size, cluster=NAME, oversubscribe=True)
        return gap(store, run, of)


def _killed(store: Store, stalls: list[float], of: Training = CHAINER) -> tuple[float, ...]:
    """Return the parts of the time from the end of a rank to the next iteration."""
    ask_size(store, Size(2, None), cluster=NAME, oversubscribe=True)
    until(lambda: store.cluster_fact(NAME).ranks == 2)
    with training(store, stalls, of) as run:
        victim = store.ranks(NAME, store.run(run).fact.generation)[1]
        asked = time.time()
        os.kill(victim.pid, signal.SIGKILL)
        continued(store, run, 1, of)
        stepped = min(t for t in times(store, run, of) if t > asked + LAST_STEP_SECONDS)
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
def training(store: Store, stalls: list[float], of: Training = CHAINER) -> Iterator[str]:
    """Have a training that has saved a snapshot; note its stall."""
    source = (SCRIPTS / of.source).read_text(encoding="utf-8")
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


def gap(store: Store, run: str, of: Training = CHAINER) -> float:
    continued(store, run, AFTER, of)
    steps = [later - earlier for earlier, later in pairwise(times(store, run, of))]
    return max(steps) - median(steps)


def continued(store: Store, run: str, iterations: int, of: Training = CHAINER) -> None:
    """Wait until a run has done so many iterations in its next attempt."""
    until(lambda: store.run(run).fact.resumed_at >= 0)
    resumed = store.run(run).fact.resumed_at
    until(lambda: len([t for t in _points(store, run, of) if t[0] > resumed]) >= iterations)


def times(store: Store, run: str, of: Training = CHAINER) -> list[float]:
    """Return when rank 0 ended its iterations, in epoch seconds."""
    return sorted(moment for _, moment in _points(store, run, of))


def _points(store: Store, run: str, of: Training) -> list[tuple[int, float]]:
    """Return rank 0's iterations with the time at which each ended."""
    points = store.reports.points(run)
    return [(p.iteration, p.time) for p in points if p.name == of.loss and p.rank == 0]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"A training did not come so far within {SECONDS:.0f} s.")
        time.sleep(0.02)
