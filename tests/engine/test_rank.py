"""Two real ranks execute cells for a supervisor that is only a router."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from workbench.cluster.mpi_world import stack_of_crash
from workbench.cluster.rank_router import RankRouter
from workbench.core.run.cell_names import CellEffects
from workbench.core.run.rank_protocol import (
    Acknowledge,
    AskPulse,
    Batch,
    Ending,
    Hello,
    Interrupt,
    Message,
    Pulse,
    SnapshotSaved,
    StopAt,
)

pytestmark = [pytest.mark.contract, pytest.mark.mpi, pytest.mark.either_mpi]

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_SECONDS = 20.0


class Supervisor:
    """Hears the ranks, confirms what they tell, and sends what the test says."""

    def __init__(self, router: RankRouter) -> None:
        self.router = router
        self.heard: list[Message] = []

    def listen(self, enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not enough():
            assert time.monotonic() < deadline, self.heard
            for one in self.router.receive(0.02):
                message = one.message
                self.heard.append(message)
                if isinstance(message, Batch):
                    answer = Acknowledge(message.run, message.sequence)
                    self.router.send(3, (message.rank,), answer)

    def send(self, command, ranks=(0, 1)) -> None:
        self.router.send(3, ranks, command)

    def batches(self, run: str, rank: int) -> list[Batch]:
        """Return a rank's batches of a run, in order, each once though it may be sent again."""
        heard = [b for b in self.heard if isinstance(b, Batch) and (b.run, b.rank) == (run, rank)]
        each = {batch.sequence: batch for batch in heard}
        return [each[sequence] for sequence in sorted(each)]

    def text(self, run: str, rank: int) -> str:
        """Return what a rank wrote, joined from its chunks."""
        return "".join(chunk.text for batch in self.batches(run, rank) for chunk in batch.chunks)

    def endings(self, run: str) -> dict[int, Ending]:
        return {
            batch.rank: batch.ending
            for batch in self.heard
            if isinstance(batch, Batch) and batch.run == run and batch.ending
        }

    def see(self, run: str, enough: Callable[[Pulse], bool], ranks=(0, 1)) -> dict[int, Pulse]:
        """Ask ranks where they are until it is enough for each; return their last pulses."""
        pulses: dict[int, Pulse] = {}

        def seen() -> bool:
            pulses.update({p.rank: p for p in self.heard if isinstance(p, Pulse) and p.run == run})
            self.send(AskPulse(run))
            return all(rank in pulses and enough(pulses[rank]) for rank in ranks)

        self.listen(seen)
        return pulses


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    router = RankRouter(tmp_path / "rank_router.json")
    router.open()
    with contextlib.closing(router):
        yield Supervisor(router)


@pytest.fixture
def start(start_ranks, supervisor) -> Iterator[Callable]:
    """Start a program of two ranks that join and then execute cells."""
    address = supervisor.router.endpoint, supervisor.router.server_key
    with contextlib.ExitStack() as worlds:
        yield lambda program, *arguments: worlds.enter_context(
            contextlib.closing(start_ranks(PROGRAMS / program, 2, *address, *arguments))
        )


@pytest.fixture
def execute(start) -> Callable:
    """Start two ranks that execute cells, each given as its run and source, and stay."""
    return lambda *cells, program="cells.py": start(program, json.dumps(cells))


def test_ranks_join_run_report_and_describe_themselves(execute, supervisor) -> None:
    run = "260101-000000-summ"
    cell = "import workbench\nworkbench.report(loss=1.0)\nMPI.COMM_WORLD.allreduce(1)"
    world = execute(("260101-000000-frst", "from mpi4py import MPI"), (run, cell))

    supervisor.listen(lambda: len(supervisor.endings(run)) == 2)

    effects = CellEffects(modules=("workbench",))
    assert supervisor.endings(run) == {n: Ending("finished", 1, effects=effects) for n in range(2)}
    for rank in range(2):
        samples = [s for batch in supervisor.batches(run, rank) for s in batch.samples]
        assert [s.value for s in samples if s.name == "loss"] == [1.0]
        assert supervisor.text(run, rank) == "2\n"
    assert {m.rank for m in supervisor.heard if isinstance(m, Hello)} == {0, 1}
    facts = [mine["fact"] for mine in world.found()]
    assert [(f["generation"], f["rank"], f["engine"]) for f in facts] == [(3, 0, 5), (3, 1, 5)]
    assert {"chainer", "numpy", "mpi4py"} <= dict(facts[0]["versions"]).keys()
    assert facts[0]["blas_threads"] >= 1


def test_ranks_that_share_a_gpu_both_take_it(execute, supervisor, monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a")
    run, cell = (
        "260101-000000-gpus",
        "import os\nprint(os.environ['RANK'], os.environ['LOCAL_RANK'])",
    )
    execute((run, cell))

    supervisor.listen(lambda: len(supervisor.endings(run)) == 2)

    assert [supervisor.text(run, rank) for rank in range(2)] == ["0 0\n", "1 0\n"]


def test_a_training_of_a_run_is_saved_and_resumed(start, supervisor) -> None:
    run = "260101-000000-save"
    world = start("saved_cells.py", run, (PROGRAMS / "small_training.py").read_text())

    def saved() -> set[int]:
        batches = [one for one in supervisor.heard if isinstance(one, Batch)]
        events = [one.event for batch in batches for one in batch.events]
        return {one.iteration for one in events if isinstance(one, SnapshotSaved)}

    supervisor.listen(lambda: {7, 9} <= saved())
    supervisor.listen(lambda: world.process.poll() is not None)

    for mine in world.found():
        assert mine["first"] == [1, 2, 3, 4, 5, 6, 7]
        assert mine["second"] == [8, 9]


def test_a_rank_that_waits_for_one_that_failed_is_freed_and_runs_the_next_cell(
    execute, supervisor, ulfm
) -> None:
    cell = (
        "from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 1:\n    raise ValueError('boom')\n"
        "MPI.COMM_WORLD.Barrier()"
    )
    following = "260101-000000-next", "print(MPI.COMM_WORLD.allreduce(1))"
    world = execute(("260101-000000-badd", cell), following, program="recovered_cells.py")
    supervisor.listen(lambda: 1 in supervisor.endings("260101-000000-badd"))
    assert supervisor.endings("260101-000000-badd")[1].error == "ValueError: boom"
    supervisor.see("260101-000000-badd", lambda pulse: pulse.call == "Barrier", ranks=(0,))

    supervisor.send(Interrupt("260101-000000-badd"), (0,))
    supervisor.listen(lambda: 0 in supervisor.endings("260101-000000-badd"))
    (world.folder / "word").touch()
    supervisor.listen(lambda: len(supervisor.endings("260101-000000-next")) == 2)

    freed = supervisor.endings("260101-000000-badd")[0]
    assert freed.secondary or freed.error == "interrupted"
    assert all(one.state == "finished" for one in supervisor.endings("260101-000000-next").values())
    assert all(mine["recovered"] for mine in world.found())


def test_the_supervisor_can_see_who_waits_where(execute, supervisor, ulfm) -> None:
    cell = (
        "from mpi4py import MPI\nimport time\n"
        "if MPI.COMM_WORLD.rank == 1:\n    MPI.COMM_WORLD.Barrier()\n"
        "else:\n    time.sleep(60)"
    )
    world = execute(("260101-000000-stck", cell), program="recovered_cells.py")

    pulses = supervisor.see(
        "260101-000000-stck",
        lambda pulse: pulse.seconds > 0.3 if pulse.rank else pulse.line == 7,
    )

    # The magic is line 1 of the cell.
    assert (pulses[0].call, pulses[0].line, pulses[0].doing) == ("", 7, "time.sleep")
    assert (pulses[1].call, pulses[1].line) == ("Barrier", 5)
    supervisor.send(Interrupt("260101-000000-stck"))
    supervisor.listen(lambda: len(supervisor.endings("260101-000000-stck")) == 2)
    (world.folder / "word").touch()
    world.found()


def test_ranks_stop_together_at_the_boundary_that_is_named(execute, supervisor) -> None:
    cell = (
        "import time, workbench\nfrom mpi4py import MPI\n"
        "from workbench.engine.run_context import current\n"
        "while True:\n"
        "    MPI.COMM_WORLD.Barrier()\n"
        "    workbench.report()\n"
        # No rank passes the boundary before it knows of it, however long the message takes.
        "    while current().boundaries.stop_boundary is None:\n"
        "        time.sleep(0.01)\n"
    )
    world = execute(("260101-000000-long", cell))
    supervisor.see("260101-000000-long", lambda pulse: pulse.boundary == 1)

    supervisor.send(StopAt("260101-000000-long", 4))
    supervisor.listen(lambda: len(supervisor.endings("260101-000000-long")) == 2)

    left = supervisor.endings("260101-000000-long").values()
    assert [(one.state, one.iteration) for one in left] == [("stopped", 4)] * 2
    world.found()


def test_a_rank_in_python_is_interrupted_at_the_users_own_line(execute, supervisor) -> None:
    world = execute(("260101-000000-busy", "x = 0\nwhile True:\n    x += 1"))
    supervisor.see("260101-000000-busy", lambda pulse: pulse.line in (3, 4))

    supervisor.send(Interrupt("260101-000000-busy"))
    supervisor.listen(lambda: len(supervisor.endings("260101-000000-busy")) == 2)

    for ending in supervisor.endings("260101-000000-busy").values():
        assert (ending.state, ending.error) == ("stopped", "interrupted")
        assert ending.traceback.splitlines()[1].startswith(
            '  File "<cell of run 260101-000000-busy>", line '
        )
    world.found()


def package(folder: Path, *, installed: bool) -> Path:
    """Write a package that takes a while, and that no process can import twice, as torch is."""
    place = folder / ("site-packages" if installed else "own")
    place.mkdir()
    (place / "imported_slowly.py").write_text(
        "import sys, time\n"
        "if hasattr(sys, 'imported_slowly'):\n"
        "    raise ImportError('its types exist already')\n"
        "sys.imported_slowly = True\n"
        "import workbench\nworkbench.report()\n"
        "until = time.monotonic() + 1.5\n"
        "while time.monotonic() < until:\n"
        "    time.sleep(0.001)\n"
    )
    return place


@pytest.mark.parametrize("installed", [True, False], ids=["installed", "the user's own"])
def test_an_interrupted_import_of_a_package_ends_first_and_is_complete(
    execute, supervisor, tmp_path, installed
) -> None:
    place = package(tmp_path, installed=installed)
    importing = f"import sys\nsys.path.insert(0, {str(place)!r})\nimport imported_slowly"
    first, then = "260101-000000-long", "260101-000000-next"
    world = execute(
        (first, f"{importing}\nwhile True:\n    pass"), (then, "import imported_slowly")
    )
    supervisor.see(first, lambda pulse: pulse.boundary == 1)

    supervisor.send(Interrupt(first))
    supervisor.listen(lambda: len(supervisor.endings(then)) == 2)

    for ending in supervisor.endings(first).values():
        assert (ending.state, ending.error) == ("stopped", "interrupted")
    ends = {ending.state for ending in supervisor.endings(then).values()}
    assert ends == {"finished" if installed else "failed"}
    world.found()


def test_a_rank_says_that_it_aborts_before_all_ends(execute, supervisor) -> None:
    cell = (
        "from mpi4py import MPI\nimport time\n"
        "if MPI.COMM_WORLD.rank == 1:\n    MPI.COMM_WORLD.Abort(3)\ntime.sleep(60)"
    )
    world = execute(("260101-000000-abrt", cell))

    supervisor.listen(lambda: 1 in supervisor.endings("260101-000000-abrt"))

    ending = supervisor.endings("260101-000000-abrt")[1]
    assert (ending.state, ending.error) == ("failed", "MPI_Abort(3)")
    assert ending.traceback.splitlines()[:3] == [
        "Traceback (most recent call last):",
        '  File "<cell of run 260101-000000-abrt>", line 5, in <module>',
        "    MPI.COMM_WORLD.Abort(3)",
    ]
    assert world.end() != 0


def test_a_rank_that_leaves_by_itself_says_with_which_exit_status(execute, supervisor) -> None:
    cell = (
        "from mpi4py import MPI\nimport os, time\n"
        "if MPI.COMM_WORLD.rank == 1:\n    print('last words')\n    os._exit(3)\ntime.sleep(60)"
    )
    world = execute(("260101-000000-exts", cell))

    supervisor.listen(lambda: 1 in supervisor.endings("260101-000000-exts"))

    ending = supervisor.endings("260101-000000-exts")[1]
    assert (ending.state, ending.error) == ("failed", "it exited by itself with exit status 3")
    assert (
        ending.traceback.splitlines()[1]
        == '  File "<cell of run 260101-000000-exts>", line 6, in <module>'
    )
    assert supervisor.text("260101-000000-exts", 1) == "last words\n"
    assert world.end() != 0


def test_a_crash_leaves_the_users_stack(start) -> None:
    cell = "import ctypes\ndef fall():\n    ctypes.string_at(0)\nfall()"
    # The other rank stays out of MPI, whose end may wait for the one that is gone.
    sources = ["import time; time.sleep(60)", cell]
    world = start("own_cells.py", "260101-000000-crsh", json.dumps(sources))
    trace = world.folder / "crash-3-1.txt"

    until(lambda: trace.exists() and "in <module>" in trace.read_text(), seconds=PATIENCE_SECONDS)

    stack = stack_of_crash(trace.read_text()).splitlines()
    assert stack[0] == "Fatal Python error: Segmentation fault"
    assert stack[2].startswith('  File "<cell of run 260101-000000-crsh>", line 5 in <module>')
    assert stack[3].startswith('  File "<cell of run 260101-000000-crsh>", line 4 in fall')
