"""This process as one rank of one generation: joined once, told what to run many times."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.metadata
import importlib.util
import os
import platform
import random
import signal
import socket
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any, TextIO

from mpi4py import MPI

from workbench.core.cluster import RankFact
from workbench.core.report import Ending, Pulse
from workbench.core.run import Assignment
from workbench.core.world import torch_environment
from workbench.engine.channel import Address, Channel
from workbench.engine.communicator import Worlds, watch
from workbench.engine.current import Current, current, set_current
from workbench.engine.log import RunLog
from workbench.engine.pretending import host_name, node_of, slow_links

PORTS = 32
PORT_RANGE = (12_000, 32_000)
_TOLD = ("chainer", "numpy", "mpi4py", "ipyparallel", "torch", "cupy-cuda12x", "workbench")


class Rank:
    """One rank of one generation.

    Args:
        generation: Its number.
        address: Where the supervisor listens.
        fault_tolerant: Whether the launcher asked MPI for ULFM.
        crash_folder: Where a crash leaves its Python stack; relative to this host's home.
    """

    def __init__(
        self, generation: int, address: Address, *, fault_tolerant: bool, crash_folder: str
    ) -> None:
        self.generation = generation
        self.number = MPI.COMM_WORLD.Get_rank()
        self.worlds = Worlds(fault_tolerant=fault_tolerant, on_abort=self._aborting)
        self._interruptible = self._interrupt_wanted = False
        slow_links(MPI.COMM_WORLD)
        self._local_rank, self._leader, self._master = _place(MPI.COMM_WORLD)
        self._ports = _free_ports(MPI.COMM_WORLD) if _head() else ()
        folder = Path.home() / crash_folder
        self._crash_file = _watch_for_crashes(folder, generation, self.number)
        self._channel = Channel(
            address,
            generation,
            self.number,
            pulse=self._pulse,
            stop_at=self._stop_at,
            interrupt=self._interrupt,
        )
        self._channel.open()

    def fact(self, engine: int) -> RankFact:
        """Describe this rank."""
        return RankFact(
            generation=self.generation,
            rank=self.number,
            host=host_name(),
            pid=os.getpid(),
            engine=engine,
            python=platform.python_version(),
            mpi=MPI.Get_library_version().split(",")[0].split("\n")[0].strip("\x00"),
            blas_threads=int(os.environ.get("OPENBLAS_NUM_THREADS", "0") or 0),
            versions=_versions(),
        )

    def is_cancelled(self, run: str) -> bool:
        """Whether the run was called off before it began here."""
        return self._channel.is_cancelled(run)

    def enter(self, assignment: Assignment) -> Current:
        """Begin a run: its world, its log, its place as the current one."""
        self._interrupt_wanted = False
        path = Path(assignment.directory) / f"rank-{self.number}.log"
        run = Current(RunLog(assignment.run, self.number, path), leader=self._leader)
        set_current(run)
        self._channel.carry(run.log)
        world = self.worlds.offer(assignment.ranks)
        watch.seconds = 0.0
        # As torchrun does, so that init_process_group() needs no argument.
        port = self._master_port(assignment)
        os.environ.update(
            torch_environment(self.number, world.size, self._local_rank, self._master, port)
        )
        return run

    def _master_port(self, assignment: Assignment) -> int:
        """Return the port that all ranks of a run take, without asking each other."""
        if not self._ports:
            return assignment.master_port
        return self._ports[zlib.crc32(assignment.run.encode()) % len(self._ports)]

    def leave(self, run: Current, ending: Ending) -> None:
        """End a run; its log goes on being carried until the supervisor has all of it."""
        run.log.finish(ending)
        set_current(None)
        self._channel.ring()

    @contextlib.contextmanager
    def interruptible(self) -> Any:
        """Let an interrupt raise KeyboardInterrupt in the body, and nowhere else."""
        before = signal.signal(signal.SIGINT, self._on_signal)
        self._interruptible = True
        try:
            if self._interrupt_wanted:  # it came between the run's first message and here
                raise KeyboardInterrupt
            yield
        finally:
            self._interruptible = False
            signal.signal(signal.SIGINT, before)

    def recover(self) -> bool:
        """Make fresh communicators after a failure; collective over the generation."""
        return self.worlds.recover()

    def _on_signal(self, *_: object) -> None:
        if self._interruptible:
            self._interruptible = False
            raise KeyboardInterrupt

    def _interrupt(self) -> None:
        """Free the main thread, whether it is in MPI or in Python; called from the channel."""
        self._interrupt_wanted = True
        self.worlds.revoke()
        if self._interruptible:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _stop_at(self, boundary: int) -> None:
        if run := current():
            run.boundaries.stop_at(boundary)

    def _aborting(self, code: int, stack: str) -> None:
        """Let the supervisor know who aborts before everything ends."""
        if (run := current()) is None:
            return
        run.log.finish(
            Ending("failed", run.iteration, f"MPI_Abort({code})", _from_user(stack, run))
        )
        self._channel.ring()
        deadline = time.monotonic() + 1.0
        while not run.log.settled and time.monotonic() < deadline:
            time.sleep(0.01)

    def _pulse(self, name: str) -> Pulse:
        run = current()
        if run is None or run.log.run != name:
            return Pulse(name, self.number, 0)
        call, since = watch.call, watch.since
        return Pulse(
            name,
            self.number,
            run.boundaries.count,
            run.boundaries.measure(),
            call,
            time.perf_counter() - since if call else 0.0,
            _where(run.source_name),
        )


def _place(world: MPI.Intracomm) -> tuple[int, int, str]:
    """Return local rank, the node's lowest rank, and rank 0's host; collective over ``world``.

    Pretended nodes share their machine's devices, and so its local ranks.
    """
    machine, node = world.Split_type(MPI.COMM_TYPE_SHARED), node_of(world)
    local_rank, alone = machine.rank, machine.size == world.size
    leader = node.bcast(world.rank)
    machine.Free()
    node.Free()
    host = world.bcast(_head() or socket.gethostname())
    return local_rank, leader, "127.0.0.1" if alone else str(host)


def _head() -> str:
    """Return the address of rank 0's host as the others reach it; empty on one machine."""
    return os.environ.get("WORKBENCH_HEAD", "")


def _free_ports(world: MPI.Intracomm) -> tuple[int, ...]:
    """Choose ports of rank 0's host that nobody listens on; collective over ``world``.

    They lie below those that the system gives to connections, so they stay free.
    """
    found: list[int] = []
    while world.rank == 0 and len(found) < PORTS:
        port = random.SystemRandom().randrange(*PORT_RANGE)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            found.append(port)
    return tuple(world.bcast(found))


def _where(source_name: str) -> str:
    """Return ``file:line`` of the main thread's innermost frame in the user's source."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    innermost = frame
    while frame is not None:
        if frame.f_code.co_filename == source_name:
            return f"line {frame.f_lineno}"
        frame = frame.f_back
    if innermost is None:
        return ""
    return f"{Path(innermost.f_code.co_filename).name}:{innermost.f_lineno}"


def _from_user(stack: str, run: Current) -> str:
    """Drop the frames above the user's source from a formatted stack."""
    marker = f'  File "{run.source_name}"'
    start = stack.find(marker)
    return "Traceback (most recent call last):\n" + (stack[start:] if start >= 0 else stack)


def _watch_for_crashes(folder: Path, generation: int, rank: int) -> TextIO:
    """Let a segmentation fault leave its Python stack in a file of this rank."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / f"crash-{generation}-{rank}.txt").open("w", encoding="utf-8")
    faulthandler.enable(file, all_threads=False)
    return file


def _versions() -> tuple[tuple[str, str], ...]:
    found = []
    for name in _TOLD:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append((name, importlib.metadata.version(name)))
    return tuple(found)
