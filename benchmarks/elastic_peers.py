"""One DDP loop grows, loses a rank and shrinks: by ours beside torchrun elastic.

torchrun gets the shortest times that it takes: it waits 1 s for further nodes, and takes a node for
lost that was silent for 3 s. With its defaults these are 30 s and 15 s. Its agents do not share
their TCP store with the workers: in torch 2.13 the first agent does not tell one that joins later
where that store is, and both give up after 60 s.
"""

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
from workbench.core.run.run_options import RunOptions
from workbench.requests.cluster import ask_size
from workbench.requests.run import ask_run, ask_stop
from workbench.store import Store

from .figures import BenchmarkFailed, Row, Series
from .place import Place, cluster, end, held

SCRIPT = Path(__file__).parent / "scripts" / "elastic_ddp.py"
NAME = "default"
SECONDS = 180.0  # on a busy machine three imports of torch take a minute
FEW, MANY = 2, 3
STEPS = 15  # before and after each change; torchrun's loop saves one of them
OURS, THEIRS = "workbench.elastic", "torchrun --nnodes 1:3"
NOTE = "DDP on gloo, 100 MB of model and momentum; torchrun with its shortest times"
KILL, GROW, SHRINK = (
    f"SIGKILL of a rank to the end of the next step, {MANY} ranks",
    f"pause of a DDP loop that grows from {FEW} to {MANY} ranks",
    f"pause of a DDP loop that shrinks from {MANY} to {FEW} ranks",
)
REPEATED = "steps done again"
SHORTEST = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"


class Loop:
    """A loop that trains, as its file tells."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def steps(self) -> list[tuple[float, int, int]]:
        """Return when each step ended, the world size, and its number."""
        with suppress(FileNotFoundError):
            return [
                (float(at), int(ranks), int(number))
                for line in self._path.read_text().splitlines(keepends=True)
                if line.endswith("\n")
                for at, ranks, number in [line.split()]
            ]
        return []

    def trains(self, ranks: int, *, after: float = 0.0) -> None:
        """Wait until it has trained for some steps on so many ranks.

        Raises:
            BenchmarkFailed: It did not in time.
        """
        deadline = time.monotonic() + SECONDS
        while sum(1 for at, size, _ in self.steps() if at > after and size == ranks) < STEPS:
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
        times = [at for at, *_ in self.steps()]
        first = next(at for at, size, _ in self.steps() if at > after and size == ranks)
        around = [(b - a, b) for a, b in pairwise(times) if b >= after and b <= first]
        usual = median(b - a for a, b in pairwise(times))
        return max(gap for gap, _ in around) - usual

    def repeated(self, after: float) -> int:
        """Return how many steps were done again since a moment."""
        steps = self.steps()
        seen = {number for at, _, number in steps if at <= after}
        again = 0
        for at, _, number in steps:
            if at > after:
                again += number in seen
                seen.add(number)
        return again


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Change the ranks of both in turn; nothing else of ours runs while torchrun trains."""
    if importlib.util.find_spec("torch") is None:
        note = "torch is not installed; make test-torch makes an environment that has it"
        return [Row(KILL, "s", None, note=note)]
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    with cluster(1), Store() as store:
        for number in range(1, rounds + 1):
            for label, changes in ((OURS, _ours(place, store)), (THEIRS, _theirs(place))):
                for what, seconds, again in changes:
                    for quantity, value in (("s", seconds), (REPEATED, float(again))):
                        ways = found.setdefault((what, quantity), {})
                        ways.setdefault(label, []).append(value)
                    say(
                        f"round {number} of {rounds}: {label}, {what}: {seconds:.2f} s, "
                        f"{again} {REPEATED}"
                    )
    return [
        Row(
            what if unit == "s" else f"{REPEATED}, {what}",
            unit if unit == "s" else "steps",
            *(Series(label, tuple(values)) for label, values in ways.items()),
            note=NOTE,
        )
        for (what, unit), ways in found.items()
    ]


Change = tuple[str, float, int]
"""What was changed, the seconds that it took, and how many steps were done again."""


def _ours(place: Place, store: Store) -> Iterator[Change]:
    """Grow a run by a rank, kill one, and shrink it again."""
    path = place.path("ours.txt")
    ask_size(store, Size(FEW, None), cluster=NAME, oversubscribe=True)
    run = ask_run(
        store,
        kind=RunKind.SCRIPT,
        source=SCRIPT.read_text(encoding="utf-8"),
        path=str(SCRIPT),
        options=RunOptions(arguments=(str(path), str(place.path("unused.pt")))),
        cluster=NAME,
    ).id
    loop = Loop(path)
    try:
        yield from _changed(
            loop,
            lambda: ask_size(store, Size(MANY, None), cluster=NAME, oversubscribe=True),
            lambda: ask_size(store, Size(FEW, None), cluster=NAME, oversubscribe=True),
        )
    finally:
        ask_stop(store, run, NAME)
        deadline = time.monotonic() + SECONDS
        while not store.run(run).fact.state.ended and time.monotonic() < deadline:
            time.sleep(0.05)


def _theirs(place: Place) -> Iterator[Change]:
    """Do the same with an agent of torchrun for each rank; the last one joins and leaves."""
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
        for _ in range(FEW):
            join()
        yield from _changed(Loop(path), join, leave)


def _changed(
    loop: Loop, grow: Callable[[], object], shrink: Callable[[], object]
) -> Iterator[Change]:
    loop.trains(FEW)
    asked = time.time()
    grow()
    loop.trains(MANY)
    yield GROW, loop.pause(asked, MANY), loop.repeated(asked)
    killed = time.time()
    loop.kill(1)
    loop.trains(MANY, after=killed + 0.2)  # a step may still end right after the kill
    next_ = min(at for at, *_ in loop.steps() if at > killed + 0.2)
    yield KILL, next_ - killed, loop.repeated(killed)
    asked = time.time()
    shrink()
    loop.trains(FEW, after=asked)
    yield SHRINK, loop.pause(asked, FEW), loop.repeated(asked)


def _agent(port: int, path: Path, snapshot: Path) -> subprocess.Popen[bytes]:
    options = ["--nnodes", f"1:{MANY}", "--nproc-per-node", "1", "--max-restarts", "10"]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "b"]
    meeting += ["--rdzv-conf", SHORTEST]
    return subprocess.Popen(
        [
            *[sys.executable, "-m", "torch.distributed.run", *options, *meeting],
            *[str(SCRIPT), str(path), str(snapshot)],
        ],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        },
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
