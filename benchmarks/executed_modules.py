"""Count the modules of workbench that a first cell, a warm cell and a resize execute."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

import workbench
from workbench.core.cluster.model import ClusterState
from workbench.store import Store

from . import bare, place
from .figures import BenchmarkFailed, Row, Series
from .kernel import Kernel
from .marked_code import FOLDER_VARIABLE, MarkedCode
from .place import Place

HOOK = Path(__file__).with_name("scripts") / "marking"
PACKAGE = Path(workbench.__file__).parent
SILENT_SECONDS = 120.0  # a cell that says nothing for longer has failed
READY_SECONDS = 120.0
SETTLE_SECONDS = 3.0  # what a start or a cell leaves to do is done, and belongs to neither
IDLE_SECONDS = 4.0
ALLREDUCE = "from mpi4py import MPI\nprint(MPI.COMM_WORLD.allreduce(1))"
LIMITS = {
    "first cell, a training on 2 ranks of a new cluster": 190,
    "warm cell, an allreduce": 100,
    "resize from 2 to 3 ranks": 75,
}
FIRST, WARM, RESIZE = LIMITS
TRAINING, IDLE = "warm cell, the training again", "4 idle seconds"
NOTE = "modules with a function executed, in all processes"


def measure(here: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Run the same notebook in a new home each round.

    The file that ``WORKBENCH_MODULES_FILE`` names gets the modules of the last round.
    """
    found: dict[str, list[frozenset[str]]] = {}
    folder = here.path("marked")
    folder.mkdir()
    marked = MarkedCode(folder, PACKAGE)
    for number in range(1, rounds + 1):
        with place.home(here.path("home")), _hook(folder):
            for what, modules in _executed(here, marked):
                found.setdefault(what, []).append(modules)
            place.take_down()
        said = ", ".join(f"{what} {len(sets[-1])}" for what, sets in found.items())
        say(f"round {number} of {rounds}: {said}; of {len(marked.modules)} modules")
    if sets := os.environ.get("WORKBENCH_MODULES_FILE"):
        lines = [f"{what}: {name}" for what, of in found.items() for name in sorted(of[-1])]
        Path(sets).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [
        Row(what, "modules", Series("median", tuple(float(len(one)) for one in sets)),
            limit=LIMITS.get(what), note=NOTE)
        for what, sets in found.items()
    ]  # fmt: skip


def _executed(here: Place, marked: MarkedCode) -> Iterator[tuple[str, frozenset[str]]]:
    with Kernel() as kernel:

        def run(cell: str) -> None:
            kernel.run(cell, patience=SILENT_SECONDS)

        def resize() -> None:
            run("%dist_resize 3 --oversubscribe")
            _await_ranks(3)

        run("%load_ext workbench")
        training = _training(here)
        phases: dict[str, Callable[[], None]] = {
            FIRST: lambda: run(f"%%dist_train --ranks 2\n{training}"),
            TRAINING: lambda: run(f"%%dist_train\n{training}"),
            WARM: lambda: run(f"%%dist_train\n{ALLREDUCE}"),
            IDLE: lambda: time.sleep(IDLE_SECONDS),
            RESIZE: resize,
        }
        for what, act in phases.items():
            time.sleep(SETTLE_SECONDS)
            marked.clear()
            began = time.time()
            act()
            yield what, marked.executed().union(_scripts(here, marked, began))


def _training(here: Place) -> str:
    """Return a cell that trains ChainerMN's MLP for three iterations."""
    times, out = here.path("times.json"), here.folder / "result"
    argv = ["mlp.py", "--iterations", "3", "--times", str(times), "--out", str(out)]
    return f"import sys\nsys.argv = {argv!r}\n{bare.SCRIPT.read_text(encoding='utf-8')}"


def _scripts(here: Place, marked: MarkedCode, since: float) -> Iterator[str]:
    """Find modules that new processes run as files, without imports of ours (``python -I -S``)."""
    names = {str(path): name for name, path in marked.modules.items()}
    for process in here.processes():
        with contextlib.suppress(psutil.Error):
            if process.create_time() >= since:
                yield from (names[word] for word in process.cmdline() if word in names)


def _await_ranks(ranks: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    with Store() as store:
        while True:
            fact = store.cluster_fact("default")
            if fact.state is ClusterState.READY and fact.ranks == ranks:
                return
            if fact.state is ClusterState.FAILED or time.monotonic() > deadline:
                raise BenchmarkFailed(f"The cluster has no {ranks} ranks: {fact.message or fact}.")
            time.sleep(0.05)


@contextlib.contextmanager
def _hook(folder: Path) -> Iterator[None]:
    """Let each Python that is started meanwhile import marked modules."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", FOLDER_VARIABLE)}
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HOOK), before["PYTHONPATH"])))
    os.environ[FOLDER_VARIABLE] = str(folder)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
