"""Keep a test session away from the person's own data, and see that it leaves nothing running."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.lanes import SHARED, can_choose, marks_possible, modules_of_part
from tests.weekly import WEEKLY

# Pure tests first: what is cheap to find out is found out first.
STAGES = ("contract", "packaging", "mpi", "kernel", "notebook", "browser")
FOLDER = pytest.StashKey[Path]()
SEED = pytest.StashKey[int]()
PART = pytest.StashKey[tuple[int, int]]()
LEFT = pytest.StashKey[list[str]]()
GRACE_SECONDS = 5.0
SEGMENTS = ("sm_segment.*", "mpich_shm_*")
SEGMENT_SECONDS = 600.0
# Images of containers set it to stay small. Each process would then compile again what it imports,
# which takes half of the time of most programs that tests start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# jsonschema checks IRIs with it where it is there, and its grammar takes a second to load.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # as if it were not installed
# Modules that start programs or servers, wait for moments, or try very many examples.
SLOW = {
    f"tests/{name}.py"
    for name in (
        "cli/test_command", "cli/test_completion", "cli/test_nodes", "cli/test_rehearsal",
        "cloud/test_contract", "cloud/hosts/test_hostile_node", "cloud/ec2/test_userdata",
        "compat/test_children", "core/fleet/test_fleet_life", "core/run/test_rank_protocol",
        "docs/test_site", "engine/reporting/test_channel", "engine/output/test_display_capture",
        "engine/test_forked_children", "engine/reporting/test_run_log", "fuzz/test_near_misses",
        "fuzz/test_nodes", "fuzz/test_pages_and_files", "node/test_agent",
        "node/test_fork_server", "node/test_launch", "node/test_lease", "node/test_s3",
        "node/test_snapshot_place", "notebook/test_magics", "rehearsal/test_relay",
        "requests/test_cloud_queries", "requests/test_supervisor", "server/test_rest",
        "server/test_run_feed", "server/test_save_lock", "server/test_websocket",
        "store/test_database", "store/test_reports", "store/test_rows",
        "supervisor/data/test_outputs", "supervisor/data/test_snapshots",
        "supervisor/data/test_staging", "supervisor/test_early_start", "supervisor/test_edge",
        "supervisor/test_histories", "supervisor/test_replay",
        "cloud/rented/test_equipment", "supervisor/test_clocks",
        "supervisor/test_first_word", "supervisor/test_fleet_property",
        "supervisor/test_fleet_property_ec2", "supervisor/test_full_disk",
        "supervisor/test_hostile", "supervisor/test_loop", "view/test_one_verdict",
        "view/test_run_output",
    )
}  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        default="1/1",
        metavar="N/M",
        help="only the N-th of M parts of the modules (default: 1/1)",
    )


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
    given = getattr(config, "workerinput", {}).get("seed") or os.environ.get("WORKBENCH_TEST_SEED")
    part, _, parts = config.option.part.partition("/")
    config.stash[PART] = (int(part), int(parts))
    config.stash[SEED] = int(given or random.randrange(2**32))
    config.stash[LEFT] = []
    if _deals_out(config):
        config.pluginmanager.register(Lanes(config))
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
        # No test leaves this machine to ask for its public address.
        "WORKBENCH_ADDRESS_URL": "http://127.0.0.1:9",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    # An endpoint that a user has set is not the tests' own.
    for variable in [
        name for name in os.environ if name.startswith(("AWS_ENDPOINT_URL", "AWS_PROFILE"))
    ]:
        del os.environ[variable]


def _deals_out(config: pytest.Config) -> bool:
    """Whether this process only deals tests out to others (``-n 2``)."""
    return bool(config.getoption("numprocesses", 0)) and not hasattr(config, "workerinput")


class Lanes:
    """What the process that deals tests out to several has to tell them, and to hear of them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["seed"] = self._config.stash[SEED]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._config.stash[LEFT] += getattr(node, "workeroutput", {}).get("left", ())


def pytest_report_header(config: pytest.Config) -> str:
    lines = f"seed: {config.stash[SEED]} (WORKBENCH_TEST_SEED=… repeats it)"
    return lines if WEEKLY else f"{lines}; WORKBENCH_WEEKLY=1 runs the weekly tests too"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the modules that have no test for ``-m``: importing all takes 10 s."""
    expression = config.option.markexpr
    if not collection_path.match("test_*.py"):
        return None
    part, parts = config.stash[PART]
    if parts > 1:
        return None if collection_path in modules_of_part(expression, part, parts) else True
    if not expression:
        return None
    return None if can_choose(expression, marks_possible(collection_path)) else True


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _is_slow(item):
            item.add_marker("slow")
    part, parts = config.stash[PART]
    shared = [item for item in items if item.path in SHARED]
    if others := [item for n, item in enumerate(shared) if n % parts != part - 1]:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    if not WEEKLY and "weekly" not in config.option.markexpr:
        weekly = [item for item in items if item.get_closest_marker("weekly")]
        config.hook.pytest_deselected(items=weekly)
        items[:] = [item for item in items if not item.get_closest_marker("weekly")]
    items.sort(key=_stage)


def _is_slow(item: pytest.Item) -> bool:
    """Whether a test is in a slow module, or asks the rehearsal's EC2 over HTTP."""
    fixtures = getattr(item, "fixturenames", ())
    return item.nodeid.partition("::")[0] in SLOW or "one_endpoint" in fixtures


def _stage(item: pytest.Item) -> int:
    marked = [i for i, stage in enumerate(STAGES, 1) if item.get_closest_marker(stage)]
    return marked[0] if marked[:1] == [1] else max(marked, default=0)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs to run as root")


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
    config, folder = session.config, session.config.stash[FOLDER]
    if _deals_out(config):  # each lane looks for itself
        if config.stash[LEFT]:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return
    _, alive = psutil.wait_procs(processes_naming(folder), timeout=GRACE_SECONDS)
    config.stash[LEFT] = [_line(process) for process in alive]
    if (said := getattr(config, "workeroutput", None)) is not None:
        said["left"] = config.stash[LEFT]
    if alive:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended just now
            process.kill()
    psutil.wait_procs(alive, timeout=GRACE_SECONDS)
    remove_segments()


def remove_segments(folder: Path = Path("/dev/shm")) -> None:
    """Remove MPI's shared memory that its libraries left in killed ranks and that none has mapped.

    What is younger than ten minutes may belong to tests beside these.
    """
    old = time.time() - SEGMENT_SECONDS
    mapped: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # the process has ended, or is another person's
            mapped.update(line.rpartition(" ")[2] for line in maps.read_text().splitlines())
    for path in itertools.chain.from_iterable(map(folder.glob, SEGMENTS)):
        with contextlib.suppress(OSError):
            if str(path) not in mapped and path.stat().st_mtime < old:
                path.unlink()


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
