"""What goes wrong on one machine: ranks, mpiexec, the supervisor, sizes, snapshots, the store."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import psutil

from workbench.core.cluster.size import Size
from workbench.core.world.world import WORLD_VARIABLE, RankFact
from workbench.requests.cluster import ask_size
from workbench.store import Store
from workbench.store.paths import home_directory, snapshot_directory

SIZES = (1, 2, 4)
PART_SECONDS = 3.0
BETWEEN_SECONDS = 120.0  # two worlds
FORK_SERVER = "workbench.node.fork_server"


def marks() -> set[str]:
    """Return the marks of the worlds that are up."""
    found = set()
    for process in ours():
        with contextlib.suppress(psutil.Error):
            found.add(process.environ().get(WORLD_VARIABLE, ""))
    return found - {""}


class Faults:
    """The faults of one run, chosen by ``chance``.

    Args:
        run: The run's id.
    """

    def __init__(self, store: Store, cluster: str, run: str, chance: Random) -> None:
        self._store = store
        self._cluster = cluster
        self._run = run
        self._chance = chance
        self.all: tuple[Callable[[], None], ...] = (
            self.kill_rank, self.kill_rank, self.kill_mpiexec, self.stop_rank, self.kill_supervisor,
            self.resize, self.resize_during_resize, self.loss_during_a_hand_over,
            self.loss_during_a_snapshot, self.torn_snapshot, self.locked_store,
            self.kill_supervisor_and_rank, self.supervisor_dies_in_a_hand_over, self.two_losses,
            self.kill_fork_server, self.no_snapshot_is_whole,
        )  # fmt: skip

    def kill_rank(self) -> None:
        self._signal(self._chance.choice(self._ranks()), signal.SIGKILL)

    def kill_mpiexec(self) -> None:
        for process in ours("prterun", "mpiexec", "hydra_pmi_proxy"):
            with contextlib.suppress(psutil.Error):
                process.kill()

    def stop_rank(self) -> None:
        """A rank pauses for a while, as when its machine is short of memory."""
        rank = self._chance.choice(self._ranks())
        self._signal(rank, signal.SIGSTOP)
        time.sleep(self._chance.choice([0.2, 1.0, 4.0]))
        self._signal(rank, signal.SIGCONT)

    def kill_supervisor(self) -> None:
        time.sleep(self._chance.random() * 0.5)
        if pid := self._store.cluster_fact(self._cluster).supervisor:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def resize(self) -> None:
        size = Size(self._chance.choice(SIZES), None)
        ask_size(self._store, size, cluster=self._cluster, oversubscribe=True)

    def resize_during_resize(self) -> None:
        self.resize()
        time.sleep(self._chance.random() * 2.0)
        self.resize()

    def loss_during_a_hand_over(self) -> None:
        self.resize()
        time.sleep(self._chance.random() * 2.5)
        self.kill_rank()

    def loss_during_a_snapshot(self) -> None:
        """A rank is killed while a file of a snapshot is written, or soon after a resume."""
        self.kill_rank()
        deadline = time.monotonic() + PART_SECONDS
        folder = snapshot_directory(self._run)
        while time.monotonic() < deadline and not any(folder.glob(".*.part")):
            time.sleep(0.002)
        self.kill_rank()

    def torn_snapshot(self) -> None:
        """Half of the newest snapshot is missing when it is needed."""
        found = sorted(snapshot_directory(self._run).glob("attempt-*"), key=_age)
        if len(found) > 1:
            largest = max(found[-1].iterdir(), key=lambda path: path.stat().st_size)
            os.truncate(largest, largest.stat().st_size // 2)
        self.kill_rank()

    def no_snapshot_is_whole(self) -> None:
        """Half of every snapshot is missing, and the rank of the next world is killed early."""
        self.kill_rank()
        for folder in snapshot_directory(self._run).glob("attempt-*"):
            for path in folder.glob("*.npz"):
                with contextlib.suppress(OSError):  # it is removed just now
                    os.truncate(path, path.stat().st_size // 2)
        deadline = time.monotonic() + PART_SECONDS
        while time.monotonic() < deadline and self._store.run(self._run).fact.resumed_at != 0:
            time.sleep(0.002)
        self.kill_rank()

    def locked_store(self) -> None:
        with contextlib.closing(sqlite3.connect(self._store.path, timeout=5.0)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(self._chance.choice([0.5, 2.0]))
            connection.rollback()

    def kill_supervisor_and_rank(self) -> None:
        self.kill_supervisor()
        self.kill_rank()

    def supervisor_dies_in_a_hand_over(self) -> None:
        self.resize()
        time.sleep(self._chance.random() * 2.0)
        self.kill_supervisor()

    def two_losses(self) -> None:
        self.kill_rank()
        time.sleep(self._chance.random() * 3.0)
        self.kill_rank()

    def kill_fork_server(self) -> None:
        """The fork server is killed, and then a rank: the next ones are to be forked as well."""
        for process in ours():
            with contextlib.suppress(psutil.Error):
                if FORK_SERVER in process.cmdline():
                    process.kill()
        self.kill_rank()

    def _ranks(self) -> list[RankFact]:
        """Return the ranks of the newest world, as soon as one has ranks."""
        deadline = time.monotonic() + BETWEEN_SECONDS
        while not (found := self._known()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert found, f"no world has ranks: {self._store.cluster_fact(self._cluster)}"
        return found

    def _known(self) -> list[RankFact]:
        generation = self._store.cluster_fact(self._cluster).generation
        newer = self._store.ranks(self._cluster, generation + 1)
        return newer or self._store.ranks(self._cluster, generation)

    def _signal(self, rank: RankFact, number: signal.Signals) -> None:
        if rank.pid and any(process.pid == rank.pid for process in ours()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank.pid, number)


def _age(path: Path) -> tuple[int, ...]:
    return tuple(int(word) for word in path.name.split("-") if word.isdecimal())


def ours(*names: str) -> list[psutil.Process]:
    """Return the processes of this home, those with one of ``names`` if there are any."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            is_ours = process.environ().get("WORKBENCH_HOME") == str(home_directory())
            if is_ours and process.pid != os.getpid() and (not names or process.name() in names):
                found.append(process)
    return found
