"""Each script begins as in a new process, and ends as one, with real ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, WORLD, Table, real_table
from tests.waiting import until
from workbench.cluster.mpi_installation import find_mpi
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.requests.run import ask_run, ask_stop

pytestmark = [
    pytest.mark.mpi, pytest.mark.contract, pytest.mark.timeout(180),
]  # fmt: skip


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


@pytest.fixture
def start(table: Table, tmp_path: Path):
    """Ask for a script in the test's own folder, and return its id."""

    def ask(source: str, **options: object) -> str:
        path = tmp_path / "script.py"
        path.write_text(source)
        return ask_run(
            table.store,
            kind=RunKind.SCRIPT,
            source=source,
            path=str(path),
            folder=str(tmp_path),
            cluster=NAME,
            options=RunOptions(**options),  # type: ignore[arg-type]  # of several types
        ).id

    return ask


@pytest.fixture
def perform(table: Table, start):
    """Run a script to its end."""
    return lambda source, **options: table.ended(start(source, **options))


def said(table: Table, run: Run) -> dict[int, str]:
    """Return what each rank of a run that is finished has written."""
    assert run.fact.state is RunState.FINISHED, run.fact.message + run.fact.error
    return table.written(run)


LEFT = """
import logging, os, random, signal, sys, warnings
import numpy
numpy.random.seed(0); random.seed(0); numpy.seterr(all="raise")
os.environ["LEFT_BY_A_SCRIPT"] = "1"
logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
warnings.simplefilter("error")
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
sys.path.append("/left"); os.umask(0o077)
"""
FOUND = """
import logging, os, random, signal, sys, warnings
import numpy
print(os.environ.get("LEFT_BY_A_SCRIPT"), numpy.geterr()["divide"], logging.getLogger().handlers,
      warnings.filters[0][0] == "error", signal.getsignal(signal.SIGUSR1) is
      signal.SIG_DFL, "/left" in sys.path, os.umask(0o022) == 0o077,
      signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
print("drawn", numpy.random.rand(), random.random())
"""


def test_nothing_that_a_script_sets_reaches_the_next(table: Table, perform) -> None:
    said(table, perform(LEFT))

    first, second = (said(table, perform(FOUND)) for _ in range(2))

    assert {text.splitlines()[0] for text in first.values()} == {
        "None warn [] False True False False True"
    }
    drawn = [text.partition("drawn")[2] for found in (first, second) for text in found.values()]
    assert len({*drawn}) == 4


ENDING = """
import atexit, threading, time
from mpi4py import MPI
class Held:
    def __del__(self): print("let go")
held = Held()
unflushed = open(f"unflushed-{MPI.COMM_WORLD.rank}.txt", "w"); unflushed.write("all of it")
atexit.register(lambda: print("exit", MPI.COMM_WORLD.allreduce(1)))
def work():
    time.sleep(0.3); print("thread")
threading.Thread(target=work).start()
print("main")
"""


def test_what_a_script_does_at_its_exit_belongs_to_its_run(table, perform, tmp_path) -> None:
    found = said(table, perform(ENDING))

    assert found == dict.fromkeys((0, 1), "main\nthread\nexit 2\nlet go\n")
    assert [(tmp_path / f"unflushed-{rank}.txt").read_text() for rank in (0, 1)] == [
        "all of it"
    ] * 2


def test_what_a_script_saves_at_its_exit_is_there_after_an_error(table, perform, tmp_path) -> None:
    run = perform("import atexit\natexit.register(lambda: open('saved', 'w').write('x'))\n1 / 0\n")

    assert run.fact.state is RunState.FAILED
    assert run.fact.failure == "ZeroDivisionError: division by zero"
    assert "variables" not in run.fact.message
    assert (tmp_path / "saved").read_text() == "x"


@pytest.mark.either_mpi
def test_a_script_may_end_mpi_and_the_next_run_does_not_notice(table: Table, perform) -> None:
    source = f"{WORLD}print(comm.allreduce(1))\nMPI.Finalize()\nprint(MPI.Is_finalized())\n"

    runs = [perform(source), table.do(f"{WORLD}comm.size")]

    assert [said(table, run) for run in runs] == [
        {0: "2\nTrue\n", 1: "2\nTrue\n"}, {0: "2\n", 1: "2\n"}
    ]  # fmt: skip


@pytest.mark.either_mpi
def test_a_rank_that_exits_after_mpi_leaves_the_others_their_time(table: Table, perform) -> None:
    if not find_mpi().fault_tolerant:
        pytest.skip("MPICH's mpiexec kills the others of a process that skips the C library's exit")
    source = (
        f"{WORLD}import os, time\nrank = comm.rank\nMPI.Finalize()\n"
        "time.sleep(rank)\nprint(rank)\nos._exit(0)\n"
    )

    assert said(table, perform(source)) == {0: "0\n", 1: "1\n"}


@pytest.mark.either_mpi
def test_a_call_of_mpi_after_its_end_fails_in_that_script_alone(table: Table, perform) -> None:
    failed = perform(f"{WORLD}MPI.Finalize()\ncomm.allreduce(1)\n")
    after = perform(f"{WORLD}print(comm.allreduce(1))\n")

    assert failed.fact.state is RunState.FAILED
    assert said(table, after) == {0: "2\n", 1: "2\n"}


@pytest.mark.either_mpi
def test_a_script_may_start_mpi_by_itself(table: Table, perform) -> None:
    source = (
        "import mpi4py\nmpi4py.rc.initialize = False\nfrom mpi4py import MPI\n"
        "print(MPI.Is_initialized())\nMPI.Init_thread()\nprint(MPI.Is_initialized())\n"
        "print(MPI.COMM_WORLD.allreduce(1))\nMPI.Finalize()\n"
    )

    assert said(table, perform(source)) == dict.fromkeys((0, 1), "False\nTrue\n2\n")


@pytest.mark.either_mpi
@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("MPI.COMM_SELF.Spawn('true', maxprocs=1)", "Comm.Spawn"),
        ("MPI.COMM_WORLD.Spawn_multiple(['true'])", "Comm.Spawn_multiple"),
        (
            "from mpi4py.futures import MPIPoolExecutor\n"
            "with MPIPoolExecutor() as pool: pool.submit(abs, 1).result()",
            "MPIPoolExecutor",
        ),
    ],
)
def test_a_world_beside_the_ranks_is_refused_in_a_sentence(perform, source, name) -> None:
    run = perform(f"from mpi4py import MPI\n{source}\n")

    assert run.fact.failure == (
        f"{name} cannot start processes beside the ranks of a run; use the ranks that "
        "there are (--ranks N), with mpi4py.futures.MPICommExecutor"
    )


def test_a_script_neither_sees_nor_changes_the_variables_of_cells(table: Table, perform) -> None:
    table.do("kept = [1]")

    script = perform("print('kept' in globals())\nmade = 1\n")
    cell = table.do("kept, 'made' in globals()")

    assert said(table, script) == {0: "False\n", 1: "False\n"}
    assert said(table, cell) == {0: "([1], False)\n", 1: "([1], False)\n"}
    assert cell.fact.generation < script.fact.generation
    assert not cell.fact.message


@pytest.mark.either_mpi
def test_a_script_on_some_of_the_ranks_ends_all_of_its_world(table: Table, perform) -> None:
    run = perform(f"{WORLD}print(comm.size)\n", ranks=1)

    assert said(table, run) == {0: "1\n"}
    assert said(table, perform(f"{WORLD}print(comm.size)\n")) == {0: "2\n", 1: "2\n"}


def test_the_exit_status_of_a_script_is_shown(perform) -> None:
    run = perform("import sys\nsys.exit(3)\n")

    assert (run.fact.state, run.fact.failure) == (RunState.FAILED, "SystemExit: 3")


@pytest.mark.parametrize(
    ("source", "failure"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n", "ended by signal 15"),
        ("import atexit, os\natexit.register(os._exit, 5)\n", "exit status 5"),
    ],
)
def test_a_script_that_ends_its_process_has_failed_with_its_status(
    perform, source, failure
) -> None:
    run = perform(source, retries=0)

    assert run.fact.state is RunState.FAILED
    # MPICH's mpiexec may kill a rank, for the other one, before its own end.
    known = (failure,) if find_mpi().fault_tolerant else (failure, "ended by signal 9")
    assert any(one in run.fact.failure for one in known)


@pytest.mark.either_mpi
def test_a_script_whose_process_crashes_at_its_exit_has_failed(table: Table, perform) -> None:
    source = f"{WORLD}import atexit, ctypes\nif comm.rank: atexit.register(ctypes.string_at, 0)\n"

    run = perform(source, retries=0)

    assert (run.fact.state, run.fact.failed_rank) == (RunState.FAILED, 1)
    assert "Segmentation fault" in run.fact.message


def test_a_thread_that_never_ends_keeps_a_script_until_it_is_stopped(table, start) -> None:
    run = start(
        "import atexit, threading, time\nprint('ended', flush=True)\n"
        "atexit.register(lambda: print('exit'))\n"
        "threading.Thread(target=lambda: time.sleep(1e6)).start()\n",
        grace=0.5,
    )
    until(lambda: table.written(table.store.run(run)).get(1))
    before = table.store.run(run).fact.state
    ask_stop(table.store, run, NAME)

    ended = table.ended(run)

    assert before is RunState.RUNNING
    assert ended.fact.state is RunState.STOPPED
    assert table.written(ended) == {0: "ended\nexit\n", 1: "ended\nexit\n"}
