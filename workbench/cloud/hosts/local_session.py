"""A session with this machine: commands are its own processes, files its own files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from workbench.core.world.remote import Completed, RemoteProcess
from workbench.core.world.world import Host
from workbench.errors import HostLost, MachineError

LOST = -1
LINE_NBYTES = 1 << 20
# Unread output beyond this makes the process wait, as a full pipe would.
UNREAD_NBYTES = 8 << 20


class LocalProcess:
    """A running command on this machine, in a process group of its own."""

    def __init__(self, process: subprocess.Popen[bytes], is_open: Callable[[], bool]) -> None:
        self.errors = ""
        self._process = process
        self._is_open = is_open
        self._lock = threading.Lock()
        self._output = bytearray()
        self._hear: Callable[[bytes], None] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs. -1 if the session was lost."""
        if not self._is_open():
            return LOST
        # A status is reported once all output can be read.
        return None if self._reader.is_alive() else self._process.poll()

    def write(self, data: bytes) -> None:
        """Write to its standard input."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def listen(self, hear: Callable[[bytes], None]) -> None:
        """Pass its standard output on as it comes, on a thread of its own; no bytes at the end."""
        with self._lock:
            self._hear = hear
            self._pass_on()
        if not self._reader.is_alive():
            hear(b"")

    def lines(self) -> list[str]:
        """Return the lines of standard output so far, without waiting."""
        with self._lock:
            end = self._output.rfind(b"\n") + 1 if self._reader.is_alive() else len(self._output)
            text = self._output[:end].decode(errors="replace")
            del self._output[:end]
        return text.splitlines()

    def end(self, *, force: bool = False) -> None:
        """End it: closes its standard input and sends a signal."""
        assert self._process.stdin is not None
        if force:  # closing could wait for a thread that writes to a process which does not read
            _signal(self._process, signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        _signal(self._process, signal.SIGKILL if force else signal.SIGTERM)

    def wait(self) -> None:
        """Wait for its end, after a forced ``end``."""
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while data := os.read(output.fileno(), 1 << 18):
                with self._lock:
                    self._output += data
                    self._pass_on()
                    line = len(self._output) - 1 - self._output.rfind(b"\n")
                if line > LINE_NBYTES:
                    self.errors = f"more than {LINE_NBYTES >> 20} MB of output without a line break"
                    self._output.clear()
                    _signal(self._process, signal.SIGKILL)
                    break
                while len(self._output) > UNREAD_NBYTES and self._process.poll() is None:
                    time.sleep(0.05)  # then the process waits too, as before a full pipe
        self._process.wait()
        if self._hear is not None:
            self._hear(b"")

    def _pass_on(self) -> None:
        """Pass output on to what listens; it never waits."""
        if self._hear is not None and self._output:
            data = bytes(self._output)
            self._output.clear()
            self._hear(data)


class LocalSession:
    """Implements ``Session`` without ssh.

    Args:
        folder: The working directory of commands, and the base of relative paths.
        environment: Variables for commands beside this process's own.
        is_up: Whether the node is still up.
        begins: Called before each command.
    """

    def __init__(
        self,
        host: Host,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        is_up: Callable[[], bool] = lambda: True,
        begins: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._folder = folder
        self._environment = dict(environment or {})
        self._is_up = is_up
        self._begins = begins
        self._closed = False
        self._started: list[LocalProcess] = []

    @property
    def host(self) -> Host:
        """The node."""
        return self._host

    def mark(self) -> str:
        """Return the NAME=value of the node's processes, for a process that starts without it."""
        self._begins()
        return next((f"{name}={value}" for name, value in self._environment.items()), "")

    @property
    def is_open(self) -> bool:
        """Whether it is open; a lost session does not recover."""
        self._closed = self._closed or not self._is_up()
        return not self._closed

    @property
    def is_silent(self) -> bool:
        """Whether the node is gone: nothing lies between."""
        return not self.is_open

    def run(self, command: Sequence[str], *, input: str = "", seconds: float = 60.0) -> Completed:
        """Run a command and wait for its end.

        Raises:
            MachineError: The session is lost, or the command took longer than ``seconds``.
        """
        process = self._spawn(command, stderr=subprocess.PIPE)
        try:
            output, errors = process.communicate(input.encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.communicate()
            raise MachineError(
                f"{command[0]} took longer than {seconds:g} s on {self._host.address} and was "
                "ended",
                "give it more time, or check what it waits for.",
            ) from None
        if not self.is_open:
            raise self._lost()
        return Completed(
            process.returncode, output.decode(errors="replace"), errors.decode(errors="replace")
        )

    def start(self, command: Sequence[str]) -> RemoteProcess:
        """Start a command, and return it without waiting for its end."""
        process = LocalProcess(self._spawn(command, stderr=subprocess.DEVNULL), self._is_open)
        self._started.append(process)
        return process

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Write a file atomically; missing folders are created, for the owner alone."""
        if not self.is_open:
            raise self._lost()
        where = self._folder / path
        try:
            # ``parents=True`` would give the mode to the last of them alone.
            for folder in reversed(where.parents):
                folder.mkdir(exist_ok=True, mode=0o700)
            temporary = where.with_name(f".{where.name}.{os.getpid()}.{threading.get_ident()}")
            with open(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb"
            ) as file:
                os.fchmod(file.fileno(), mode)
                file.write(data)
            os.replace(temporary, where)
        except OSError as error:
            raise MachineError(
                f"{where} cannot be written on {self._host.address} ({error.strerror})",
                "correct its folder's permissions, or free some space.",
            ) from error

    def bring(self, ports: Sequence[int]) -> None:
        """Do nothing: the node's loopback is this machine's."""
        if not self.is_open:
            raise self._lost()

    def close(self) -> None:
        """Close it, and end the processes that were started through it."""
        self._closed = True
        while self._started:
            process = self._started.pop()
            process.end(force=True)
            process.wait()

    # -- inside

    def _is_open(self) -> bool:
        return self.is_open

    def _spawn(self, command: Sequence[str], stderr: int) -> subprocess.Popen[bytes]:
        if not self.is_open:
            raise self._lost()
        self._begins()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=self._folder,
                env=os.environ | self._environment,
                start_new_session=True,
            )
        except OSError as error:
            raise MachineError(
                f"{command[0]} cannot be started on {self._host.address} ({error.strerror})",
                "install it there, or correct its path.",
            ) from error

    def _lost(self) -> HostLost:
        return HostLost(
            f"The session with {self._host.address} is lost", "check whether the node still runs."
        )


def end_processes(variable: str, values: set[str]) -> None:
    """End this machine's processes that have ``variable`` set to one of ``values``."""
    ended = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it has ended, or belongs to another user
            if process.environ().get(variable) in values:
                process.kill()
                ended.append(process)
    psutil.wait_procs(ended, timeout=5.0)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the whole group, even if its first process has ended before the others."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
