"""A folder of our own for all that is measured; what was started in it ends with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil

from workbench.core.cluster.model import ClusterState
from workbench.errors import WorkbenchError
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.store import Store

from .figures import BenchmarkFailed

DOWN_SECONDS = 20.0
READY_SECONDS = 120.0
FOLDERS = (
    "WORKBENCH_HOME",
    "IPYTHONDIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
)


class Place:
    """The folder, named by the environment of every process that is started meanwhile."""

    def __enter__(self) -> Self:
        # A short path: socket names under it have to fit into 108 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="wb-bench-"))
        self._numbers: dict[str, int] = {}
        self._before = dict(os.environ)
        os.environ.update({name: str(self.folder / name.lower()) for name in FOLDERS})
        beside = str(Path(sys.executable).parent)
        os.environ["PATH"] = os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])
        if os.geteuid() == 0:
            os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = os.environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = (
                "1"
            )
        return self

    def __exit__(self, *_: object) -> None:
        deaf = {one: signal.signal(one, signal.SIG_IGN) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            for database in self.folder.glob("*/store.sqlite3"):
                with contextlib.suppress(WorkbenchError), home(database.parent):
                    take_down()
            end(self.processes())
        finally:
            os.environ.clear()
            os.environ.update(self._before)
            shutil.rmtree(self.folder, ignore_errors=True)
            for one, handler in deaf.items():
                signal.signal(one, handler)

    def path(self, name: str) -> Path:
        """Return a path that was not given out before."""
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        stem, dot, suffix = name.partition(".")
        return self.folder / f"{stem}-{number}{dot}{suffix}"

    def processes(self) -> list[psutil.Process]:
        """Find what runs in this place, however it was started."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                named = process.environ().values()
                if process.pid != os.getpid() and any(
                    value.startswith(str(self.folder)) for value in named
                ):
                    found.append(process)
        return found


@contextlib.contextmanager
def home(path: Path) -> Iterator[None]:
    """Let ``WORKBENCH_HOME`` be ``path``, for us and for what is started meanwhile."""
    before = os.environ["WORKBENCH_HOME"]
    os.environ["WORKBENCH_HOME"] = str(path)
    try:
        yield
    finally:
        os.environ["WORKBENCH_HOME"] = before


@contextlib.contextmanager
def held(processes: list[psutil.Process]) -> Iterator[None]:
    """Stop processes for a while, so that they take nothing from what is measured."""
    try:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


@contextlib.contextmanager
def cluster(ranks: int, name: str = "default") -> Iterator[None]:
    """Have a cluster of ours that is ready, and nothing of it afterwards."""
    with Store() as store:
        ask_cluster(store, ranks, cluster=name, oversubscribe=True)
        deadline = time.monotonic() + READY_SECONDS
        while store.cluster_fact(name).state is not ClusterState.READY:
            fact = store.cluster_fact(name)
            if fact.state is ClusterState.FAILED or time.monotonic() > deadline:
                raise BenchmarkFailed(f"The cluster did not become ready: {fact.message or fact}.")
            time.sleep(0.05)
    try:
        yield
    finally:
        take_down()


def take_down(seconds: float = DOWN_SECONDS) -> None:
    """End every cluster of the current home and wait until it is gone."""
    with Store() as store:
        for wish in store.clusters():
            if store.cluster_fact(wish.name).state is not ClusterState.DOWN:
                ask_down(store, cluster=wish.name)
        deadline = time.monotonic() + seconds
        names = [wish.name for wish in store.clusters()]
        while any(store.cluster_fact(name).state is not ClusterState.DOWN for name in names):
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)


def children(pid: int, word: str) -> list[int]:
    """Find the processes below ``pid`` that have ``word`` in their command line."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(word in part for part in process.cmdline()):
                found.append(process.pid)
    return found


def end(processes: list[psutil.Process]) -> None:
    """End processes, by force if need be."""
    _, alive = psutil.wait_procs(processes, timeout=2)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=5)
