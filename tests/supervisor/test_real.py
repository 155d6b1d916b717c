"""The failure table with real engines and a real, detached supervisor."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import psutil
import pytest

from workbench.cluster.mpi import find_mpi
from workbench.core.cluster import ClusterState
from workbench.core.run import Run, RunKind, RunState
from workbench.store import Store
from workbench.store.wishes import (
    ask_cluster,
    ask_down,
    ask_run,
    supervisor_is_awake,
    wake_supervisor,
)

pytestmark = [pytest.mark.mpi, pytest.mark.contract, pytest.mark.timeout(180)]

T = TypeVar("T")
NAME = "table"
DEADLINE = 60.0
WORLD = "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
TOLD_WITHIN = 2.0


def until(look: Callable[[], T | None], seconds: float = DEADLINE) -> T:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"nothing came of it within {seconds} s")


class Table:
    """A real cluster of two ranks."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def start(self, source: str, **options: object) -> str:
        return ask_run(
            self.store,
            kind=RunKind.CELL,
            source=source,
            cluster=NAME,
            **options,  # type: ignore[arg-type]  # options of several types
        ).id

    def ended(self, run: str) -> Run:
        until(lambda: self.store.run(run).fact.state.ended)
        return self.store.run(run)

    def do(self, source: str) -> Run:
        return self.ended(self.start(source))

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
        at = next(o.text for o in self.store.output(run.id) if o.text.startswith("at "))
        self.delay = run.fact.ended - float(at.split()[1]) - 0.3
        return run


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with Store() as store:
        ask_cluster(store, 2, cluster=NAME, oversubscribe=True)
        until(lambda: store.cluster_fact(NAME).state is ClusterState.READY)
        yield Table(store)
        ask_down(store, cluster=NAME)
        until(lambda: not supervisor_is_awake(NAME))


@pytest.mark.parametrize(
    ("how", "says", "trace"),
    [
        ("raise ValueError('broken')", "ValueError: broken", "line 9, in <module>"),
        ("sys.exit(3)", "SystemExit: 3", "line 9, in <module>"),
        ("sys.exit()", "left by sys.exit() while rank 0 waited", ""),
        ("os.kill(os.getpid(), signal.SIGKILL)", "", ""),
        ("import ctypes; ctypes.string_at(0)", "Segmentation fault", "line 9 in <module>"),
        ("comm.Abort(7)", "MPI_Abort(7)", "line 9, in <module>"),
    ],
    ids=["raises", "exits", "leaves", "killed", "segfaults", "aborts"],
)
def test_a_failing_rank_is_named_at_once_and_the_next_cell_runs(
    table: Table, how: str, says: str, trace: str
) -> None:
    failed = table.fail(how)
    after = table.do(f"{WORLD}print(comm.allreduce(1))")

    assert failed.fact.state is RunState.FAILED
    assert failed.fact.failed_rank == 1
    assert failed.fact.message.startswith(f"Rank 1 on {failed.fact.failed_host} failed: ")
    assert says in failed.fact.message
    assert trace in failed.fact.error
    assert table.delay <= TOLD_WITHIN
    assert after.fact.state is RunState.FINISHED
    assert {o.text for o in table.store.output(after.id)} == {"2\n"}


def test_variables_survive_a_failed_cell_where_mpi_can_free_its_ranks(table: Table) -> None:
    if not find_mpi().fault_tolerant:
        pytest.skip("this MPI cannot revoke a communicator; variables are lost, and said to be")
    table.do(f"{WORLD}kept = 41 + comm.size")

    table.fail("raise ValueError")

    run = table.do("print(kept)")
    assert {o.text for o in table.store.output(run.id)} == {"43\n"}


def test_a_communicator_of_before_a_failure_says_what_to_do(table: Table) -> None:
    if not find_mpi().fault_tolerant:
        pytest.skip("this MPI cannot revoke a communicator; variables are lost, and said to be")
    table.do(f"{WORLD}")
    table.fail("raise ValueError")

    run = table.do("old = comm\nold.barrier()")

    assert run.fact.state is RunState.FAILED
    assert "run the cell that creates it again" in run.fact.error


def test_a_stop_leaves_all_ranks_at_one_boundary(table: Table) -> None:
    run = table.start(
        f"{WORLD}import time, workbench\n"
        "for i in range(100_000):\n"
        "    comm.allreduce(i)\n"
        "    time.sleep(0.002)\n"
        "    workbench.report(loss=1 / (i + 1), total=100_000)\n"
    )
    until(lambda: table.store.run(run).fact.iteration > 50)

    table.store.wish_stop(run)

    fact = table.ended(run).fact
    last = {p.rank: p.iteration for p in table.store.points(run)}
    assert fact.message == f"Stopped at iteration {fact.iteration}."
    assert set(last.values()) == {fact.iteration}


def test_a_watchdog_says_who_waits_for_whom(table: Table) -> None:
    run = table.start(f"{WORLD}import time\nif comm.rank == 0:\n    comm.barrier()\ntime.sleep(60)")

    def told() -> str:
        message = table.store.run(run).fact.message
        return message if "busy" not in message else ""

    message = until(told)

    assert message.startswith("Rank 0 waits in barrier since")
    assert "rank 1 is at line 7" in message
    table.store.wish_stop(run)
    table.ended(run)


def test_a_supervisor_that_is_killed_is_followed_by_one_that_misses_nothing(
    table: Table,
) -> None:
    run = table.start(
        f"{WORLD}import time, workbench\n"
        "for i in range(400):\n"
        "    comm.allreduce(i)\n"
        "    time.sleep(0.01)\n"
        "    workbench.report(loss=i)\n"
    )
    until(lambda: table.store.run(run).fact.iteration > 20)
    first = table.store.cluster_fact(NAME).supervisor

    os.kill(first, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(first))
    wake_supervisor(NAME)

    fact = table.ended(run).fact
    for rank in (0, 1):
        values = [p.value for p in table.store.points(run) if p.rank == rank]
        assert values == [float(i) for i in range(400)]
    assert fact.state is RunState.FINISHED
    assert table.store.cluster_fact(NAME).supervisor != first


def test_a_run_that_ends_while_no_supervisor_looks_is_told_by_the_next(table: Table) -> None:
    run = table.start(f"{WORLD}import time, workbench\ntime.sleep(1)\nworkbench.report(loss=1)")
    until(lambda: table.store.run(run).fact.state is RunState.RUNNING)
    first = table.store.cluster_fact(NAME).supervisor

    os.kill(first, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(first))
    time.sleep(1.5)  # the run ends meanwhile, which nobody can tell us: that is the test
    wake_supervisor(NAME)

    assert table.ended(run).fact.state is RunState.FINISHED
    assert [p.value for p in table.store.points(run)] == [1.0, 1.0]


def test_a_controller_that_is_killed_is_replaced_with_its_world(table: Table) -> None:
    run = table.start(f"{WORLD}import time, workbench\ntime.sleep(60)")
    until(lambda: table.store.run(run).fact.state is RunState.RUNNING)
    folder = table.store.path.parent / "clusters" / NAME / "profile" / "security"
    state = json.loads((folder / "cluster-.json").read_text(encoding="utf-8"))

    os.kill(state["controller"]["state"]["pid"], signal.SIGKILL)

    assert "controller is gone" in table.ended(run).fact.message
    assert table.do(f"{WORLD}print(comm.allreduce(1))").fact.state is RunState.FINISHED


def test_a_plain_client_sees_what_a_cell_left(table: Table) -> None:
    import workbench

    table.do(f"{WORLD}left = comm.rank + 10")

    client = workbench.client(NAME)

    ranks = table.store.ranks(NAME, table.store.cluster_fact(NAME).generation)
    engines = [rank.engine for rank in ranks]
    assert client.direct_view(engines).pull("left", block=True) == [10, 11]
    client.close()


def test_the_files_that_hold_secrets_are_the_owners_alone(table: Table) -> None:
    folder = table.store.path.parent / "clusters" / NAME

    security = folder / "profile" / "security"
    secrets = [folder / "mailbox.json", *security.glob("ipcontroller-*.json")]

    assert len(secrets) == 3
    assert {oct(path.stat().st_mode & 0o077) for path in [folder, security, *secrets]} == {"0o0"}
