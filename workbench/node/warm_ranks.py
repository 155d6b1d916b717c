"""The fork server of this machine: starts it, keeps it, and makes mpiexec's ranks use it.

Without it, or where it refuses, a rank starts as it would without workbench, only slower.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from workbench.core.node.agent_protocol import (
    AllSent,
    Forks,
    KeepForks,
    LogLine,
    RankEnded,
    decode_path,
)
from workbench.core.node.forking import END, KEEP, PAD_VARIABLE, RANK_ENDED, SOCKET
from workbench.core.quote import one_line
from workbench.core.world.world import WORLD_VARIABLE, blas_environment, is_foreign
from workbench.errors import MachineError
from workbench.node.fork_stub import connect
from workbench.node.stream import Bell, Call

log = logging.getLogger("workbench.supervisor")

# For debugging, and where forking after imports is not safe.
VARIABLE = "WORKBENCH_WARM_RANKS"
PRELOADED = (
    "workbench.engine.output.output_capture:route_output",
    "workbench.engine.mpi_start:defer",
    "ipyparallel.engine.app",
    "workbench.cluster.engine",
    "workbench.cluster.leftovers",
    "workbench.engine.entrypoints",
    "workbench.engine.framework:preload",
)
"""What every rank needs; the first comes before anything can bind a stream."""

LATER = (
    "workbench.cluster.engine_calls:import_kernel",
    "workbench.cluster.engine_calls",
    "workbench.engine.framework:preload_later",
)
"""What the ranks of the first world import while that world starts, and others find imported."""

STUB = str(Path(__file__).with_name("fork_stub.py"))
"""The program that stands for a forked rank."""

PAD_NBYTES = 100_000  # <linux/binfmts.h> allows 131,072 in one variable
END_SECONDS = 3.0
SHORT_SECONDS = 10.0
MOST_FAILURES = 3
_ENDED = re.compile(rf"{RANK_ENDED} (?P<rank>[0-9]+) (?P<status>[0-9]+)", re.ASCII)


def are_wanted() -> bool:
    """Whether ranks are to be forked where they can be."""
    return os.environ.get(VARIABLE, "").lower() not in ("0", "off", "no")


class WarmRanks:
    """The fork server for a cluster's ranks on this machine.

    Args:
        folder: Of its socket and its log.
        names: What it imports at its start.
        later: What it imports when its first ranks have started.

    Attributes:
        statuses: The wait status of each rank that has ended, by process id.
    """

    def __init__(
        self, folder: Path, names: Sequence[str] = PRELOADED, later: Sequence[str] = LATER
    ) -> None:
        self._folder = folder
        self._names, self._later = (*names,), (*later,)
        self._path = folder / SOCKET
        self._keeper: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._older: list[subprocess.Popen[bytes]] = []
        self.statuses: dict[int, int] = {}
        self._began = 0.0
        self._failures = 0

    @property
    def path(self) -> str:
        """Path of its socket; empty where ranks start by themselves."""
        return str(self._path) if self._keeper is not None else ""

    @property
    def process(self) -> int:
        """The process id of a server that was started here; 0 for another."""
        return self._process.pid if self._process else 0

    @property
    def descriptor(self) -> int:
        """Becomes readable when there is something for ``look`` to see; -1 without a server."""
        return self._keeper.fileno() if self._keeper is not None else -1

    def start(self) -> None:
        """Take up the one that is there, or begin to start one; does not wait for its imports."""
        if self._keeper is not None or self._failures == MOST_FAILURES or not are_wanted():
            return
        try:
            self._folder.mkdir(exist_ok=True, mode=0o700)
            self._keeper = connect(str(self._path))
        except OSError:
            try:
                self._launch()
                self._keeper = connect(str(self._path))
            except OSError as error:
                self._failures = MOST_FAILURES
                log.warning("Ranks start without the fork server: %s.", error)
                return
        self._keeper.sendall(KEEP)
        self._keeper.setblocking(False)

    def look(self) -> None:
        """Log what it reports, and start another if it has ended or its modules have changed."""
        self._older = [process for process in self._older if process.poll() is None]
        if self._keeper is None:
            return
        try:
            text = self._keeper.recv(1 << 16)
        except BlockingIOError:
            text = b" "
        except OSError:
            text = b""
        for line in text.decode(errors="replace").splitlines():
            if ended := _ENDED.fullmatch(line):
                self.statuses[int(ended["rank"])] = int(ended["status"])
            elif line.strip():
                log.warning("Fork server: %s", one_line(line))
        if text and self._path.exists():
            return
        self.leave()
        is_short = time.monotonic() - self._began < SHORT_SECONDS
        self._failures = self._failures + 1 if is_short else 0
        if self._failures == MOST_FAILURES:
            log.warning("The fork server ends as soon as it starts; see %s.", self._log)
        self.start()

    def replace(self) -> None:
        """Start another in its place: it may hang. Ranks that it has forked stay."""
        if self._process is not None:
            self._process.kill()
        if self._keeper is not None:
            self.leave()
            self._path.unlink(missing_ok=True)
            self.start()

    def close(self) -> None:
        """End it, and return when it has ended; ranks that are left keep it."""
        if self._keeper is not None:
            with contextlib.suppress(OSError):
                self._keeper.sendall(END)
        self.leave()
        for process in self._older:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()  # it still imports, or hangs
                with contextlib.suppress(subprocess.TimeoutExpired):  # where a disk holds it
                    process.wait(END_SECONDS)
        self._older.clear()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def leave(self) -> None:
        """Keep it no longer; with ranks or another keeper it stays."""
        if self._keeper is not None:
            self._keeper.close()
        if self._process is not None:
            self._older.append(self._process)
        self._keeper = self._process = None

    @property
    def _log(self) -> Path:
        return self._folder / "fork-server.log"

    def _launch(self) -> None:
        self._began = time.monotonic()
        listener = _listen(self._path)
        command = server_command(self._folder, self._names, self._later)
        descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(
                [*command, "--listener", str(listener.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env=server_environment(),
                cwd="/",
                start_new_session=True,
                pass_fds=[listener.fileno()],
            )
        finally:
            os.close(descriptor)
            listener.close()


def forks_of(folder: Path) -> WarmRanks:
    """Return the fork server of the cluster with this folder, which is not started."""
    return WarmRanks(folder / "ranks")


def server_command(folder: Path, names: Sequence[str], later: Sequence[str] = ()) -> list[str]:
    """Return the command of a fork server."""
    command = [sys.executable, "-m", "workbench.node.fork_server", str(folder), *names]
    for one in later:
        command += ["--later", one]
    # Ranks show their own command line in the memory of this one.
    return [*command, "--pad", "." * 1_000]


def server_environment() -> dict[str, str]:
    """Return what a fork server starts with: the ranks' own environment, and room for theirs."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not is_foreign(name) and name != WORLD_VARIABLE
    }
    pads = {f"{PAD_VARIABLE}{number}": "." * PAD_NBYTES for number in range(2)}
    return {**kept, **blas_environment(1), **pads}


def _listen(path: Path) -> socket.socket:
    """Return a socket that stubs can connect to from now on, however long its path is."""
    found = socket.socket(socket.AF_UNIX)
    path.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        found.bind(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
    found.listen(128)
    return found


# The fork server's end is noticed by its descriptor; another version of a module is looked for.
LOOK_SECONDS = 1.0


class ForkLogHandler(logging.Handler):
    """Sends what is logged on this node to the supervisor."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        self._call.post(LogLine(one_line(record.getMessage())))


def keep_forks(call: Call, request: KeepForks) -> None:
    """Keep a fork server until the supervisor has had enough of it; ranks that are left keep it."""
    report = ForkLogHandler(call)
    log.addHandler(report)
    warm = start_forks(Path.home() / decode_path(request.folder))
    try:
        call.post(Forks(warm.path, STUB if warm.path else ""))
        with Bell(call) as bell:
            while not _is_finished(bell, warm):
                warm.look()
                for pid in [*warm.statuses]:
                    call.post(RankEnded(pid, warm.statuses.pop(pid)))
    finally:
        log.removeHandler(report)
        warm.leave()


def start_forks(folder: Path) -> WarmRanks:
    """Start a fork server in a folder of this machine, or take up the one that is there.

    Raises:
        MachineError: The folder belongs to another user.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = folder.parent.lstat()
    if not stat.S_ISDIR(made.st_mode) or made.st_uid != os.geteuid():
        raise MachineError(f"{folder.parent} belongs to another user", "look at it, and remove it.")
    folder.parent.chmod(0o700)
    warm = WarmRanks(folder)
    warm.start()
    return warm


def _is_finished(bell: Bell, warm: WarmRanks) -> bool:
    """Wait for the call, or the fork server; return whether the call is to end."""
    known = [bell.descriptor, *([warm.descriptor] if warm.path else [])]
    ready, _, _ = select.select(known, [], [], LOOK_SECONDS)
    return bell.descriptor in ready and any(isinstance(one, AllSent) for one in bell.take())
