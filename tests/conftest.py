"""Keep a test session away from the person's own data, and see that it leaves nothing running."""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

# Pure tests first: what is cheap to find out is found out first.
STAGES = ("contract", "packaging", "mpi", "kernel", "notebook", "browser")
FOLDER = pytest.StashKey[Path]()
SEED = pytest.StashKey[int]()
LEFT = pytest.StashKey[list[str]]()
GRACE_SECONDS = 5.0


def pytest_configure(config: pytest.Config) -> None:
    # A shell has what it starts in the background ignore interrupts, which tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A short path: socket names under it have to fit into 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="wb-"))
    # Registered first and so run last: IPython's history is still written at exit.
    atexit.register(_remove, folder, os.getpid())
    config.stash[FOLDER] = folder
    # What programs forget to remove is removed with it; pytest's own folders stay where they were.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    config.stash[SEED] = int(os.environ.get("WORKBENCH_TEST_SEED") or random.randrange(2**32))
    for variable in (
        "WORKBENCH_HOME",
        "IPYTHONDIR",
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_DATA_DIR",
        "JUPYTER_RUNTIME_DIR",
    ):
        os.environ[variable] = str(folder / variable.lower())
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_SESSION_TOKEN": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    # A place that somebody rehearses on is not the tests' own.
    for variable in [
        name for name in os.environ if name.startswith(("AWS_ENDPOINT_URL", "AWS_PROFILE"))
    ]:
        del os.environ[variable]


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.stash[SEED]} (WORKBENCH_TEST_SEED=… repeats it)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_stage)


def _stage(item: pytest.Item) -> int:
    marked = [i for i, stage in enumerate(STAGES, 1) if item.get_closest_marker(stage)]
    return marked[0] if marked[:1] == [1] else max(marked, default=0)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs to run as root")
    if item.get_closest_marker("mpich") and not _installed("mpich"):
        pytest.skip("needs MPICH in place of Open MPI: make test runs it in .venv-mpich")


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@pytest.fixture(autouse=True)
def seed(pytestconfig: pytest.Config) -> int:
    """Start the random numbers of every test at the session's seed, and tell it."""
    value = pytestconfig.stash[SEED]
    random.seed(value)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(value)
    return value


def processes_naming(folder: Path) -> list[psutil.Process]:
    """Find the other processes whose environment names `folder`, wherever they were started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and any(
                value.startswith(str(folder)) for value in process.environ().values()
            ):
                found.append(process)
        except psutil.Error:
            continue  # it has ended, or it is another person's
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    folder = session.config.stash[FOLDER]
    _, alive = psutil.wait_procs(processes_naming(folder), timeout=GRACE_SECONDS)
    session.config.stash[LEFT] = [_line(process) for process in alive]
    if alive:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, timeout=GRACE_SECONDS)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child runs this too
        shutil.rmtree(folder, ignore_errors=True)


def _line(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())}"
    except psutil.Error:
        return f"{process.pid} (ended meanwhile)"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if left := config.stash.get(LEFT, []):
        terminalreporter.section("processes left running by this session", red=True)
        for line in left:
            terminalreporter.line(line)
