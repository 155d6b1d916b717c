"""The failure table with real engines and a real, detached supervisor."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.supervisor.real import NAME, WORLD, Table, real_table
from tests.waiting import until
from workbench.cluster.leftovers import segment_folder
from workbench.cluster.mpi_installation import MpiKind, find_mpi
from workbench.core.run.model import RunState
from workbench.requests.supervisor import wake_supervisor

pytestmark = [
    pytest.mark.mpi, pytest.mark.contract, pytest.mark.either_mpi, pytest.mark.timeout(180),
]  # fmt: skip

REPORTED_WITHIN = 2.0


# As in a notebook that a batch system or another mpiexec has started.
OF_A_JOB = ("SLURM_JOBID", "SLURM_JOB_NODELIST", "PMI_RANK", "PMIX_NAMESPACE", "PBS_JOBID")


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with pytest.MonkeyPatch.context() as patch:
        for name in OF_A_JOB:
            patch.setenv(name, "nonsense")
        with real_table() as made:
            yield made


def test_ranks_start_in_a_job_and_see_nothing_of_it(table: Table) -> None:
    source = "import os\nprint([n for n, value in os.environ.items() if value == 'nonsense'])"

    assert table.written(table.do(source)) == dict.fromkeys(range(2), "[]\n")


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
    assert table.delay <= REPORTED_WITHIN
    assert after.fact.state is RunState.FINISHED
    assert table.written(after) == {0: "2\n", 1: "2\n"}


def test_a_cell_that_parses_arguments_finds_none_of_the_engine(table: Table) -> None:
    parse = "import argparse\nprint(argparse.ArgumentParser().parse_known_args()[1])\n"

    run = table.do(f"{parse}import sys\nprint(sys.argv)\nsys.argv += ['--mine']")
    after = table.do(f"{parse}sys.argv[1:] = []")

    assert table.written(run) == dict.fromkeys((0, 1), "[]\n['cell']\n")
    assert table.written(after) == dict.fromkeys((0, 1), "['--mine']\n")


def test_the_variables_of_the_caller_travel_with_each_run(
    table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "beside_nothing.py").write_text("value = 5")
    names = "MY_FLAG", "OMP_NUM_THREADS", "PYTHONPATH"
    show = f"import os\nprint([os.environ.get(name) for name in {names}])\n"
    threads = (
        "import numpy, threadpoolctl\n"
        "print(max(one['num_threads'] for one in threadpoolctl.threadpool_info()))\n"
    )
    plain = table.do(show + threads)
    monkeypatch.setenv("MY_FLAG", "8")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    run = table.do(f"{show}{threads}import beside_nothing\nprint(beside_nothing.value)")
    monkeypatch.undo()
    after = table.do(show + threads)

    assert table.written(run) == dict.fromkeys((0, 1), f"['8', '3', '{tmp_path}']\n3\n5\n")
    assert table.written(after) == table.written(plain)
    assert "'8'" not in table.written(plain)[0]


def test_variables_survive_a_failed_cell_where_mpi_can_free_its_ranks(table: Table) -> None:
    if not find_mpi().fault_tolerant:
        pytest.skip("this MPI cannot revoke a communicator; variables are lost, and said to be")
    table.do(f"{WORLD}kept = 41 + comm.size")

    table.fail("raise ValueError")

    run = table.do("print(kept)")
    assert table.written(run) == {0: "43\n", 1: "43\n"}


@pytest.mark.parametrize(
    ("made", "used", "which"),
    [
        ("pair = comm.Dup()", "pair.barrier()", "The communicator 'pair'"),
        ("class Box: pass\nbox = Box(); box.comm = comm.Dup()", "box.comm.size\nbox.comm.bcast(1)",
         "The communicator 'box'"),
        ("pair = comm.Dup()", "MPI.File.Open(pair, 'x', MPI.MODE_RDONLY)",
         "A communicator that is used here"),
    ],
    ids=["by name", "held by an object", "used by MPI itself"],
)  # fmt: skip
def test_a_communicator_of_before_a_failure_says_what_to_do_at_once(
    table: Table, made: str, used: str, which: str
) -> None:
    if not find_mpi().fault_tolerant:
        pytest.skip("this MPI cannot revoke a communicator; variables are lost, and said to be")
    table.do(f"{WORLD}import time\n{made}")
    lost = table.fail("raise ValueError").wish.name

    run = table.do(f"if MPI.COMM_WORLD.rank == 1:\n    time.sleep(15)\n{used}")

    failure = f"{which} was created before run '{lost}' failed or was stopped"
    assert run.fact.failure == f"{failure}; run the cell that creates it again"
    assert run.fact.ended - run.fact.started < 5
    assert run.fact.error.count("run the cell that creates it again") == 1
    assert ".pxi" not in run.fact.error


def test_a_name_for_the_world_continues_after_a_failure(table: Table) -> None:
    if not find_mpi().fault_tolerant:
        pytest.skip("this MPI cannot revoke a communicator; variables are lost, and said to be")
    table.do(f"{WORLD}alias = comm")
    table.fail("raise ValueError")

    run = table.do("print(alias.allreduce(alias.rank), alias is MPI.COMM_WORLD)")

    assert table.written(run) == {0: "1 True\n", 1: "1 True\n"}


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
    last = {p.rank: p.iteration for p in table.store.reports.points(run)}
    assert fact.message == f"Stopped at iteration {fact.iteration:,}."
    assert set(last.values()) == {fact.iteration}


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
        values = [p.value for p in table.store.reports.points(run) if p.rank == rank]
        assert values == [float(i) for i in range(400)]
    assert fact.state is RunState.FINISHED
    assert table.store.cluster_fact(NAME).supervisor != first


def test_a_run_that_ends_while_no_supervisor_looks_is_reported_by_the_next(table: Table) -> None:
    run = table.start(f"{WORLD}import time, workbench\ntime.sleep(1)\nworkbench.report(loss=1)")
    until(lambda: table.store.run(run).fact.state is RunState.RUNNING)
    first = table.store.cluster_fact(NAME).supervisor

    os.kill(first, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(first))
    time.sleep(1.5)  # the run ends meanwhile, unseen by any supervisor: that is the test
    wake_supervisor(NAME)

    assert table.ended(run).fact.state is RunState.FINISHED
    assert [p.value for p in table.store.reports.points(run)] == [1.0, 1.0]


def test_a_controller_that_is_killed_is_replaced_with_its_world(table: Table) -> None:
    run = table.start(f"{WORLD}import time, workbench\ntime.sleep(60)")
    until(lambda: table.store.run(run).fact.state is RunState.RUNNING)
    folder = table.store.path.parent / "clusters" / NAME / "profile" / "security"
    state = json.loads((folder / "cluster-.json").read_text(encoding="utf-8"))

    os.kill(state["controller"]["state"]["pid"], signal.SIGKILL)

    assert "controller is gone" in table.ended(run).fact.message
    assert table.do(f"{WORLD}print(comm.allreduce(1))").fact.state is RunState.FINISHED


def test_a_killed_world_leaves_no_shared_memory(table: Table) -> None:
    if find_mpi().kind is not MpiKind.OPENMPI:
        pytest.skip("MPICH names its segments itself")
    before = table.written(table.do("import os\nprint(os.environ['WORKBENCH_WORLD'])"))[0].strip()
    assert [*segment_folder(before).iterdir()]
    assert segment_folder(before).name.startswith(f"workbench-{os.geteuid()}-{NAME}-")

    table.fail("os.kill(os.getpid(), signal.SIGKILL)")

    until(lambda: not segment_folder(before).exists())


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
    secrets = [folder / "rank_router.json", *security.glob("ipcontroller-*.json")]

    assert len(secrets) == 3
    assert {oct(path.stat().st_mode & 0o077) for path in [folder, security, *secrets]} == {"0o0"}
