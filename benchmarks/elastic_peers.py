"""One DDP loop through a killed rank, a larger and a smaller size: ours beside torchrun elastic."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from statistics import median

import psutil

from workbench.core.cluster.size import Size
from workbench.core.run.model import RunKind
from workbench.requests.cluster import ask_size
from workbench.requests.run import ask_run, ask_stop
from workbench.store import Store

from .figures import BenchmarkFailed, Row, Series
from .place import Place, cluster, end, held

SCRIPT = Path(__file__).parent / "scripts" / "elastic_ddp.py"
NAME = "default"
SECONDS = 400.0
STEPS = 15  # before and after each change, of which torchrun's loop saves one
OURS, THEIRS = "workbench.elastic", "torchrun --nnodes 1:2"
NOTE = "DDP on gloo, 100 MB of model and momentum; torchrun with its default settings"
KILL, GROW, SHRINK = (
    "SIGKILL of a rank to the end of the next step, 2 ranks",
    "pause of a DDP loop that grows from 1 to 2 ranks",
    "pause of a DDP loop that shrinks from 2 to 1 ranks",
)


class Loop:
    """A loop that trains, as its file tells."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def steps(self) -> list[tuple[float, int]]:
        """Return when each step ended, and the world size."""
        with suppress(FileNotFoundError):
            lines = [one.split() for one in self._path.read_text().splitlines()]
            return [(float(words[0]), int(words[1])) for words in lines if len(words) == 2]
        return []

    def trains(self, ranks: int, *, after: float = 0.0) -> None:
        """Wait until it has trained for some steps on so many ranks.

        Raises:
            BenchmarkFailed: It did not in time.
        """
        deadline = time.monotonic() + SECONDS
        while sum(1 for at, size in self.steps() if at > after and size == ranks) < STEPS:
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"The loop did not train on {ranks} ranks.")
            time.sleep(0.05)

    def kill(self, rank: int) -> None:
        """Kill one of its ranks."""
        os.kill(int(Path(f"{self._path}.{rank}").read_text()), signal.SIGKILL)

    def pause(self, after: float, ranks: int) -> float:
        """Return the time between the last step before a change and the first after it.

        Args:
            after: When the change was requested.
            ranks: World size after it.
        """
        times = [at for at, _ in self.steps()]
        first = next(at for at, size in self.steps() if at > after and size == ranks)
        around = [(b - a, b) for a, b in pairwise(times) if b >= after and b <= first]
        usual = median(b - a for a, b in pairwise(times))
        return max(gap for gap, _ in around) - usual


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Change the ranks of both in turn; nothing else of ours runs while torchrun trains."""
    if importlib.util.find_spec("torch") is None:
        note = "torch is not installed; make test-torch makes an environment that has it"
        return [Row(KILL, "s", None, note=note)]
    found: dict[str, dict[str, list[float]]] = {}
    with cluster(1), Store() as store:
        for number in range(1, rounds + 1):
            for label, changes in ((OURS, _ours(place, store)), (THEIRS, _theirs(place))):
                for what, seconds in changes:
                    found.setdefault(what, {}).setdefault(label, []).append(seconds)
                    say(f"round {number} of {rounds}: {label}, {what}: {seconds:.2f} s")
    return [
        Row(what, "s", *(Series(label, tuple(values)) for label, values in ways.items()), note=NOTE)
        for what, ways in found.items()
    ]


def _ours(place: Place, store: Store) -> Iterator[tuple[str, float]]:
    """Grow a run from one rank to two, kill one, and shrink it again."""
    path = place.path("ours.txt")
    ask_size(store, Size(1, None), cluster=NAME, oversubscribe=True)
    run = ask_run(
        store,
        kind=RunKind.SCRIPT,
        source=SCRIPT.read_text(encoding="utf-8"),
        path=str(SCRIPT),
        arguments=(str(path), str(place.path("unused.pt"))),
        cluster=NAME,
    ).id
    loop = Loop(path)
    try:
        yield from _changed(
            loop,
            lambda: ask_size(store, Size(2, None), cluster=NAME, oversubscribe=True),
            lambda: ask_size(store, Size(1, None), cluster=NAME, oversubscribe=True),
        )
    finally:
        ask_stop(store, run, NAME)
        deadline = time.monotonic() + SECONDS
        while not store.run(run).fact.state.ended and time.monotonic() < deadline:
            time.sleep(0.05)


def _theirs(place: Place) -> Iterator[tuple[str, float]]:
    """Do the same with two agents of torchrun; the second one joins and leaves."""
    path, snapshot = place.path("theirs.txt"), place.path("theirs.pt")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agents: list[subprocess.Popen[bytes]] = []

    def join() -> None:
        agents.append(_agent(port, path, snapshot))

    def leave() -> None:
        agents[-1].send_signal(signal.SIGTERM)

    with held(place.processes()), _ended(agents):
        join()
        yield from _changed(Loop(path), join, leave)


def _changed(
    loop: Loop, grow: Callable[[], object], shrink: Callable[[], object]
) -> Iterator[tuple[str, float]]:
    loop.trains(1)
    asked = time.time()
    grow()
    loop.trains(2)
    yield GROW, loop.pause(asked, 2)
    killed = time.time()
    loop.kill(1)
    loop.trains(2, after=killed + 0.2)  # a step may still end right after the kill
    yield KILL, min(at for at, _ in loop.steps() if at > killed + 0.2) - killed
    asked = time.time()
    shrink()
    loop.trains(1, after=asked)
    yield SHRINK, loop.pause(asked, 1)


def _agent(port: int, path: Path, snapshot: Path) -> subprocess.Popen[bytes]:
    options = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "10"]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "b"]
    return subprocess.Popen(
        [
            *[sys.executable, "-m", "torch.distributed.run", *options, *meeting],
            *[str(SCRIPT), str(path), str(snapshot)],
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextmanager
def _ended(agents: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    try:
        yield
    finally:
        for agent in agents:
            with suppress(psutil.NoSuchProcess):
                below = psutil.Process(agent.pid).children(recursive=True)
                agent.kill()
                for process in below:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                end(below)
            agent.wait()
