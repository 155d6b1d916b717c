"""Fixtures: a run in this process for parts of the engine, and worlds of several ranks."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from IPython.core.events import EventManager, available_events
from IPython.core.formatters import DisplayFormatter
from IPython.core.inputtransformer2 import TransformerManager

from workbench.cluster.mpi_installation import (
    find_mpi,
    hostfile_text,
    mpiexec_arguments,
    rank_environment,
)
from workbench.core.run.model import Assignment, RunKind, RunWish
from workbench.core.run.origin import Origin
from workbench.core.run.rank_protocol import Batch, Ending, decode_message
from workbench.core.run.run_options import RunOptions
from workbench.core.world.world import Host, plan_world
from workbench.engine.execution import execute
from workbench.engine.output.output_capture import OutputStream
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current

WORLD_SECONDS = 200
ROOT = Path(__file__).parents[2]
SERVE = Path(__file__).parent / "programs" / "serve.py"


class StartedWorld:
    """Ranks that run a program; its first arguments are a folder and whether MPI has ULFM."""

    def __init__(
        self, folder: Path, program: Path, size: int, *arguments: str, link: float = 0.0
    ) -> None:
        mpi = find_mpi()
        world = plan_world((Host("localhost", os.cpu_count() or 1),), size, oversubscribe=True)
        world = replace(world, link=link)
        hosts = folder / "hosts"
        hosts.write_text(hostfile_text(mpi, world))
        variables = rank_environment(mpi, world) | {"PYTHONPATH": str(ROOT)}
        options = mpiexec_arguments(mpi, world, str(hosts), tuple(variables))
        # A program's folder stays off the path: its neighbours would hide modules of their names.
        ranks = ["-n", str(size), sys.executable, "-P", str(program)]
        parameters = [str(folder), str(int(mpi.fault_tolerant)), *arguments]
        self.folder, self.size = folder, size
        with (folder / "output").open("w") as output:
            self.process = subprocess.Popen(
                [mpi.mpiexec, *options, *ranks, *parameters],
                env=os.environ | variables,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        """What the ranks and mpiexec wrote."""
        return (self.folder / "output").read_text(errors="replace")

    def end(self) -> int:
        """Wait for the ranks to end by themselves, and return what mpiexec does."""
        return self.process.wait(WORLD_SECONDS)

    def found(self) -> list[dict[str, Any]]:
        """Return what each rank found; all must have ended well."""
        assert self.end() == 0, self.said
        return [json.loads((self.folder / f"{n}.json").read_text()) for n in range(self.size)]

    def close(self) -> None:
        """End what has not ended; Open MPI with ULFM leaves the ranks beside one that aborts."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.folder) in process.cmdline():
                    process.kill()
        self.process.wait(WORLD_SECONDS)


Started = Callable[..., StartedWorld]
OnRanks = Callable[..., list[dict[str, Any]]]


class SharedWorld:
    """Ranks that run one program after another; to be closed after one that fails."""

    def __init__(self, start: Started, size: int) -> None:
        self.world = start(SERVE, size, str(os.getpid()))
        self._programs = itertools.count(1)

    def run(self, program: Path, *arguments: str) -> list[dict[str, Any]]:
        """Return what each rank found; fails where a rank does, or leaves something behind."""
        place = self.world.folder / str(next(self._programs))
        place.mkdir()
        (place / "part").write_text(json.dumps([str(program), str(place), *arguments]))
        (place / "part").rename(place / "arguments.json")
        deadline = time.monotonic() + WORLD_SECONDS
        while len([*place.glob("*.done")]) < self.world.size:
            failed = [f"{path.name}: {path.read_text()}" for path in place.glob("*.failed")]
            assert not failed, "\n".join([*failed, self.world.said])
            assert self.world.process.poll() is None, self.world.said
            assert time.monotonic() < deadline, f"not in {WORLD_SECONDS} s; {self.world.said}"
            time.sleep(0.005)
        return [json.loads((place / f"{n}.json").read_text()) for n in range(self.world.size)]


@pytest.fixture(scope="session")
def start_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Start a Python program as one MPI world, as the launcher does."""
    with contextlib.ExitStack() as worlds:

        def start(program: Path, size: int, *arguments: str, **options: Any) -> StartedWorld:
            folder = tmp_path_factory.mktemp("world")
            world = StartedWorld(folder, program, size, *arguments, **options)
            return worlds.enter_context(contextlib.closing(world))

        yield start


@pytest.fixture(scope="session")
def on_ranks(start_ranks: Started) -> OnRanks:
    """Run a program with ``worlds`` and ``found`` at hand; return what each rank found."""
    return lambda program, size, *arguments, **options: start_ranks(
        program, size, *arguments, **options
    ).found()


known: dict[tuple[Path, int, tuple[str, ...]], str] = {}
"""What programs of the present module found, by program, ranks and arguments."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test that is run again because it failed run its programs again."""
    if getattr(item, "execution_count", 1) > 1:
        known.clear()


@pytest.fixture(scope="module")
def on_shared_ranks(start_ranks: Started) -> Iterator[OnRanks]:
    """Like ``on_ranks``, for programs that leave their ranks as they were: a world runs many.

    The same program is run once, and the one after a failure on new ranks.
    """
    worlds: dict[int, SharedWorld] = {}

    def run(program: Path, size: int, *arguments: str) -> list[dict[str, Any]]:
        if (key := (program, size, arguments)) not in known:
            world = worlds.get(size) or worlds.setdefault(size, SharedWorld(start_ranks, size))
            try:
                known[key] = json.dumps(world.run(program, *arguments))
            except BaseException:
                worlds.pop(size).world.close()
                raise
        return json.loads(known[key])

    yield run
    known.clear()
    for one in worlds.values():
        one.world.close()


@pytest.fixture
def snapshots(tmp_path: Path) -> Path:
    """Give the folder of a run's snapshots."""
    return tmp_path / "snapshots"


@pytest.fixture
def train(request: pytest.FixtureRequest, on_shared_ranks: OnRanks, snapshots: Path) -> OnRanks:
    """Train on some ranks with the module's ``PROGRAM``, its ``OPTIONS`` and those of a call."""
    usual = {"folder": str(snapshots), **getattr(request.module, "OPTIONS", {})}
    return lambda size, **options: on_shared_ranks(
        request.module.PROGRAM, size, json.dumps({**usual, **options})
    )


@pytest.fixture(scope="session")
def ulfm() -> None:
    """Skip where MPI cannot free a rank that is blocked."""
    if not find_mpi().fault_tolerant:
        pytest.skip("this MPI cannot revoke a communicator (ULFM); its world is started again")


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    return RunLog("260101-000000-arun", 0, tmp_path / "runs" / "rank-0.log")


@pytest.fixture
def current_run(log: RunLog) -> Iterator[RunContext]:
    """Be inside a run for as long as the test lasts."""
    run = RunContext(log)
    set_current(run)
    yield run
    set_current(None)


@pytest.fixture
def taken(log: RunLog) -> Callable[[], Batch]:
    """Take what has gathered in the log, as the channel does."""

    def take() -> Batch:
        line = log.take()
        batch = decode_message(line) if line else Batch("260101-000000-arun", 0, 0)
        assert isinstance(batch, Batch)
        return batch

    return take


# -- cells and scripts


class OneRank:
    """A rank without MPI and without a supervisor."""

    def __init__(self, run: RunContext) -> None:
        self.run = run

    def enter(self, assignment: Assignment) -> RunContext:
        set_current(self.run)
        return self.run

    def leave(self, run: RunContext, ending: Ending) -> None:
        run.log.finish(ending)
        set_current(None)

    def wind_up(self, run: RunContext, ending: Ending) -> Ending:
        return ending

    def end(self, run: RunContext, ending: Ending) -> None:
        """Do nothing: the process is that of the tests."""

    def stale(self, error: BaseException) -> str:
        return ""

    def interruptible(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


@pytest.fixture
def shell() -> SimpleNamespace:
    """As much of IPython's shell as a run needs."""
    shell = SimpleNamespace(
        user_ns={"__name__": "__main__"},
        transform_cell=TransformerManager().transform_cell,
        display_formatter=DisplayFormatter(),
        run_cell=None,
    )
    shell.events = EventManager(shell, available_events)
    return shell


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[str]:
    """Where the run happens; the test's own folder comes back."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "work"
    path.mkdir()
    return str(path)


@pytest.fixture
def perform(log, shell, folder, monkeypatch) -> Callable[..., Ending]:
    """Run a cell, or a script that is given by its path; return how it ended."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])

    def perform(source: str, **changes: object) -> Ending:
        chosen = {
            name: changes.pop(name) for name in ("arguments", "parameters") if name in changes
        }
        path = changes.pop("path", "")
        wish = RunWish(
            "260101-000000-arun",
            changes.pop("name", ""),
            RunKind.SCRIPT if path else RunKind.CELL,
            source,
            path=path,
            folder=changes.pop("folder", folder),
            options=RunOptions(**chosen),
            origin=Origin(module=changes.pop("module", "")),
        )
        assignment = Assignment(wish, **{"ranks": 1, **changes})
        log.ending = None  # one log has what all the runs of a test write
        with contextlib.redirect_stdout(OutputStream("stdout", io.StringIO())):
            execute(OneRank(RunContext(log)), assignment, shell)
        assert log.ending is not None
        return log.ending

    return perform


@pytest.fixture
def printed(taken) -> Callable[[], str]:
    return lambda: "".join(chunk.text for chunk in taken().chunks)


@pytest.fixture
def script(tmp_path) -> str:
    """The path of a script; what is run is the text that the test gives."""
    return str(tmp_path / "scripts" / "train.py")
