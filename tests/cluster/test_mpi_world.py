"""How the ranks of a world are ended, and how the cause of a rank's end is read."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from workbench.cluster import mpi_world
from workbench.cluster.mpi_cluster import MpiCluster
from workbench.cluster.mpi_world import (
    UNKNOWN,
    MpiWorld,
    WorldHandles,
    cause_of_end,
    cause_of_status,
    is_abort,
    last_words,
    lost_host,
    named_processes,
    stack_of_crash,
)
from workbench.core.cluster.generation import WorldState
from workbench.core.world.world import Host as HostOf
from workbench.core.world.world import RankFact, World


class Host:
    """Stands for a ``ProcessMonitor``: notes signals."""

    def __init__(self) -> None:
        self.lost, self.host, self.is_away = "", "node", False
        self.gone: set[int] = set()
        self.statuses: dict[int, int] = {}
        self.sent: list[tuple[int, signal.Signals]] = []

    def watch(self, pids: Sequence[int]) -> None:
        """Do nothing."""

    def is_alive(self, pid: int) -> bool:
        return pid not in self.gone and not self.lost

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        self.sent += [(pid, number) for pid in pids]

    def tail(self, path: str) -> str:
        return ""

    def remove(self, path: str) -> None:
        """Do nothing."""

    def end_rest(self, mark: str, groups: Sequence[int]) -> bool:
        return True


class Mpiexec:
    """Stands for an mpiexec that waits for a lost host."""

    def __init__(self) -> None:
        self.sent: list[signal.Signals] = []

    def is_alive(self) -> bool:
        return True

    def signal(self, number: signal.Signals) -> None:
        self.sent.append(number)

    def log(self) -> str:
        return ""


@pytest.fixture
def host() -> Host:
    return Host()


def world_on(host: Host, generation: int = 1) -> MpiWorld:
    footing: Future[WorldHandles] = Future()
    monitor: Any = host
    footing.set_result(WorldHandles(Mpiexec(), (monitor,), "crashes"))
    ranks = [RankFact(generation, rank, "node", 100 + rank, rank) for rank in range(2)]
    made = MpiWorld(generation, 2, footing)
    made.adopt(ranks)
    return made


@pytest.fixture
def world(host: Host) -> MpiWorld:
    return world_on(host)


def test_ranks_of_a_whole_world_may_end_by_themselves(world: MpiWorld, host: Host) -> None:
    """What they have left to do at their end is done."""
    world.look()

    world.end()

    assert host.sent == [(100, signal.SIGTERM), (101, signal.SIGTERM)]


def test_ranks_that_a_loss_has_left_are_killed_at_once(world: MpiWorld, host: Host) -> None:
    """They wait in MPI for the lost one, and take the cores on which the next world starts."""
    world.look()
    host.gone.add(101)
    host.statuses[101] = signal.SIGKILL
    state = world.look()

    world.end()

    assert state is WorldState.BROKEN
    assert (100, signal.SIGKILL) in host.sent


def test_a_world_waits_for_a_host_that_does_not_answer(world: MpiWorld, host: Host) -> None:
    world.look()
    host.is_away = True

    assert world.look() is None
    host.is_away = False
    assert world.look() is None


def test_what_breaks_a_world_is_the_loss_of_a_host_that_does_not_answer() -> None:
    near, far = Host(), Host()
    footing: Future[WorldHandles] = Future()
    hosts = World((HostOf("near", 1), HostOf("far", 1)), 2)
    monitors: Any = near, far
    footing.set_result(WorldHandles(Mpiexec(), monitors, "crashes", hosts))
    world = MpiWorld(1, 2, footing)
    world.adopt([RankFact(1, rank, one, 100, rank) for rank, one in enumerate(("near", "far"))])
    far.is_away = True
    assert world.look() is None

    near.gone.add(100)

    assert world.look() is WorldState.BROKEN
    assert world.is_lost
    assert world.deaths[0].cause == "node is out of reach"


def test_a_world_that_ends_waits_for_no_host(world: MpiWorld, host: Host) -> None:
    world.look()
    host.is_away = True

    world.end()

    assert world.look() is WorldState.ENDED


class Liar(Host):
    """A host whose words raise an error wherever they are read."""

    def tail(self, path: str) -> str:
        raise OverflowError("signal number out of range")

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        raise OverflowError("signal number out of range")


def test_a_host_whose_words_raise_an_error_ends_its_own_world_alone(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar, cluster = Liar(), MpiCluster(tmp_path)
    cluster._worlds = {1: world_on(liar, 1), 2: world_on(host, 2)}
    liar.gone.add(100)
    try:
        bad, good = cluster.observe()
        monkeypatch.setattr(mpi_world, "KILL_SECONDS", 0.0)
        ended, still = cluster.observe()
    finally:
        cluster._router.close()

    assert bad.state is WorldState.BROKEN
    assert bad.reason == (
        "the supervisor could not follow it: OverflowError('signal number out of range')"
    )
    assert ended.state is WorldState.ENDED
    assert good.state is still.state is WorldState.READY
    assert host.sent == []


OPEN_MPI_SIGNAL = """
--------------------------------------------------------------------------
prterun noticed that process rank 1 with PID 4242 on node box exited on
signal 9 (Killed).
--------------------------------------------------------------------------
"""
OPEN_MPI_ABORT = """
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
  Proc: [[1234,1],1]
  Errorcode: 3
--------------------------------------------------------------------------
"""
MPICH_SIGNAL = """
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 1234 RUNNING AT box
=   EXIT CODE: 139
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)
"""
MPICH_ABORT = (
    "Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - "
    "process 1\n"
)
KILLED = "ended by signal 9 (Killed), often because the machine ran out of memory"
CRASH = """Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/usr/lib/python3.12/ctypes/__init__.py", line 519 in string_at
  File "<cell of run 260714-091500-ab7z>", line 3 in fall
  File "<cell of run 260714-091500-ab7z>", line 5 in <module>
  File "/env/workbench/engine/asyncio_support.py", line 38 in evaluate
  File "/env/workbench/engine/execution.py", line 80 in _cell
  File "/env/workbench/engine/execution.py", line 50 in _attempt
  File "/env/ipykernel/kernelbase.py", line 300 in dispatch_shell

Extension modules: numpy._core._multiarray_umath, mpi4py.MPI (total: 20)
"""


@pytest.mark.parametrize(
    ("log", "rank", "cause"),
    [
        (OPEN_MPI_SIGNAL, 1, KILLED),
        (OPEN_MPI_SIGNAL, None, KILLED),
        (MPICH_SIGNAL, 1, "ended by signal 11 (Segmentation fault)"),
        (OPEN_MPI_ABORT, 1, "MPI_Abort was called on rank 1"),
        (OPEN_MPI_ABORT, None, "MPI_Abort was called on rank 1"),
        (MPICH_ABORT, 1, "MPI_Abort was called on rank 1"),
        ("", 0, UNKNOWN),
        ("", None, UNKNOWN),
        ("something else\n", 0, UNKNOWN),
    ],
)
def test_the_cause_is_one_line(log, rank, cause) -> None:
    assert cause_of_end(log, rank) == cause


@pytest.mark.parametrize(
    ("log", "aborted"),
    [(OPEN_MPI_SIGNAL, False), (OPEN_MPI_ABORT, True), (MPICH_ABORT, True), ("", False)],
)
def test_an_abort_by_the_program_is_distinguished_from_a_loss(log, aborted) -> None:
    assert is_abort(log) is aborted


def test_the_signal_of_one_rank_is_not_taken_for_that_of_another() -> None:
    two = OPEN_MPI_SIGNAL + OPEN_MPI_SIGNAL.replace("rank 1", "rank 12").replace(
        "9 (Killed)", "11 (Segmentation fault)"
    )

    assert cause_of_end(OPEN_MPI_SIGNAL, 0) == UNKNOWN
    assert cause_of_end(two, 1) == KILLED
    assert cause_of_end(two, 12) == "ended by signal 11 (Segmentation fault)"


def test_a_world_that_did_not_start_gives_the_words_of_mpiexec() -> None:
    log = "-----\n\0 There are not\nenough slots.\n\nbash: nope: command not found\n-----------\n"

    assert cause_of_end(log, None) == (
        "mpiexec ended; its words: There are not enough slots. bash: nope: command not found"
    )


def test_of_many_words_of_mpiexec_the_first_and_the_last_line_are_given() -> None:
    log = "There are not enough slots.\n" + "x y " * 200 + "\nbash: nope: command not found\n"

    cause = cause_of_end(log, None)

    assert cause.startswith("mpiexec ended; its words: There are not enough slots. x y")
    assert cause.endswith("… bash: nope: command not found")
    assert len(cause) < 600


@pytest.mark.parametrize(
    ("log", "processes"),
    [(OPEN_MPI_SIGNAL, {4242}), (MPICH_SIGNAL, {1234}), (OPEN_MPI_ABORT, set()), ("", set())],
)
def test_the_processes_that_mpi_blames_are_named(log, processes) -> None:
    assert named_processes(log) == processes


def test_last_words_are_not_endless() -> None:
    assert len(cause_of_end("x" * 10_000, None)) < 600


def test_the_stack_of_a_crash_is_the_users_with_the_innermost_call_last() -> None:
    assert stack_of_crash(CRASH).splitlines() == [
        "Fatal Python error: Segmentation fault",
        "Stack (most recent call last):",
        '  File "<cell of run 260714-091500-ab7z>", line 5 in <module>',
        '  File "<cell of run 260714-091500-ab7z>", line 3 in fall',
        '  File "/usr/lib/python3.12/ctypes/__init__.py", line 519 in string_at',
    ]


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_rank_that_did_not_crash_left_no_stack(text) -> None:
    assert stack_of_crash(text) == ""


OPEN_MPI_LOST = """
------------------------------------------------------------
A daemon failed to report back after being spawned. This could
be due to several factors.

  Local host:    node1
  Remote host:   node2
  Daemon exit status: 255
------------------------------------------------------------
"""


def test_a_host_that_mpi_has_lost_is_named() -> None:
    assert lost_host(OPEN_MPI_LOST) == "node2"
    assert cause_of_end(OPEN_MPI_LOST, None) == "node2 is out of reach of the other hosts"
    assert lost_host(OPEN_MPI_SIGNAL) == ""


def test_last_words_are_what_no_one_has_read() -> None:
    assert last_words("\0\0\0terminate called", "", "\0\nwhat(): no") == (
        "terminate called\nwhat(): no"
    )
    assert last_words("\0" * 100) == ""
    assert len(last_words("x" * 10_000)) < 5_000


@pytest.mark.parametrize(
    "log",
    [
        f"process rank {'9' * 5_000} on node x exited on signal 9 (Killed)",
        f"process rank 1 on node x exited on signal {'9' * 5_000} (Killed)",
        f"process rank 1 exited on signal 9 ({'x' * 60_000}",
        f"APPLICATION TERMINATED WITH THE EXIT STRING: x (signal {'9' * 5_000})",
        f"MPI_Abort was called on rank {'9' * 5_000}",
        f"with PID {'9' * 5_000}",
        "process rank 1 " * 4_000,
        "A daemon failed to report back" * 2_000,
        "application called MPI_Abort(" * 2_000,
    ],
    ids=lambda log: log[:24],
)
def test_a_log_with_which_no_mpi_ends_says_nothing(log: str) -> None:
    assert len(cause_of_end(log, 1)) < 600
    assert len(cause_of_end(log, None)) < 600
    assert len(lost_host(log)) < 300
    assert named_processes(log) == frozenset()


@pytest.mark.parametrize("status", [200, 4991, 65535, 2**31])
def test_a_status_with_which_no_process_ends_is_no_error(status: int) -> None:
    cause_of_status(status)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (9, "ended by signal 9 (Killed), often because the machine ran out of memory"),
        (11 | 0x80, "ended by signal 11 (Segmentation fault)"),  # with a core dump
        (3 << 8, "its process ended with exit status 3"),
        (0, ""),
    ],
)
def test_the_status_of_a_forked_rank_is_its_cause(status: int, cause: str) -> None:
    assert cause_of_status(status) == cause


def test_the_log_of_an_engine_is_not_taken_for_the_last_words_of_mpiexec() -> None:
    handles = "2026-07-14 05:58:59.123 [Engine.1.1] Handling apply_request: 5c1f\n"

    assert cause_of_end(handles, None) == UNKNOWN
    assert cause_of_end(f"no slots are left\n{handles}", None) == (
        "mpiexec ended; its words: no slots are left"
    )
