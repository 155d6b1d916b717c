"""A real cluster of two ranks, with its own detached supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from tests.waiting import until
from workbench.core.cluster.model import ClusterState
from workbench.core.run.model import Run, RunKind
from workbench.core.run.run_options import RunOptions
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.run import ask_run
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store

T = TypeVar("T")
NAME = "table"
WORLD = "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"


class Table:
    """A real cluster of two ranks."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def start(self, source: str, **options: object) -> str:
        """Ask for a run, and return its id."""
        return ask_run(
            self.store,
            kind=RunKind.CELL,
            source=source,
            cluster=NAME,
            options=RunOptions(**options),  # type: ignore[arg-type]  # of several types
        ).id

    def ended(self, run: str, seconds: float = 60.0) -> Run:
        """Return the run once it has ended."""
        until(lambda: self.store.run(run).fact.state.ended, seconds=seconds)
        return self.store.run(run)

    def written(self, run: Run) -> dict[int, str]:
        """Return what each rank wrote, however it was cut into pieces."""
        texts: dict[int, str] = {}
        for piece in self.store.reports.output(run.id):
            texts[piece.rank] = texts.get(piece.rank, "") + piece.text
        return texts

    def do(self, source: str, seconds: float = 60.0) -> Run:
        """Run a cell to its end."""
        return self.ended(self.start(source), seconds)

    def fail(self, how: str) -> Run:
        """Run a cell in which rank 1 notes the moment and then fails while rank 0 waits."""
        source = (
            f"{WORLD}import os, signal, sys, time\ncomm.barrier()\n"
            "if comm.rank == 1:\n"
            "    print('at', time.time(), flush=True)\n"
            "    time.sleep(0.3)\n"
            f"    {how}\n"
            "comm.barrier()\ntime.sleep(60)\n"
        )
        run = self.do(source)
        at = float(self.written(run)[1].split()[1])
        self.delay = run.fact.ended - at - 0.3
        return run


@contextmanager
def real_table() -> Iterator[Table]:
    """Have a cluster for as long as the body lasts."""
    with Store() as store:
        ask_cluster(store, 2, cluster=NAME, oversubscribe=True)
        until(lambda: store.cluster_fact(NAME).state is ClusterState.READY)
        yield Table(store)
        ask_down(store, cluster=NAME)
        until(lambda: not supervisor_is_awake(NAME))
