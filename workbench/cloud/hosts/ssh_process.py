"""A command that runs on a node, and the thread that runs all ssh sessions."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import re
import shlex
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import asyncssh

from workbench.core.quote import quote_value

ERRORS_NBYTES = 1 << 16
# A node's shell may print so much before it starts the command.
GREETING_NBYTES = 1 << 16
# No line of our own programs is nearly as long, and no output of a command that ends.
LINE_NBYTES = 1 << 20
ANSWER_NBYTES = 16 << 20
FORCE_SECONDS = 5.0
# sshd forwards no signal to processes of root, so each process first prints its id; what the user's
# shell prints before that, as some do, is discarded.
PID_MARK = b"workbench-process "
PID = re.compile(rb"[1-9][0-9]{0,9}")
START = 'echo "workbench-process $$"; exec "$@"'

Answer = TypeVar("Answer")


class Loop:
    """The thread that runs all sessions of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the event loop, which the first caller starts."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="workbench-ssh", daemon=True
                ).start()
            return self._loop

    def wait(self, work: Coroutine[Any, Any, Answer], seconds: float) -> Answer:
        """Run ``work`` in the thread, and wait for it.

        Raises:
            TimeoutError: It took longer than ``seconds``, and was cancelled.
        """
        answer = asyncio.run_coroutine_threadsafe(work, self.get())
        try:
            return answer.result(seconds)
        except concurrent.futures.TimeoutError:
            answer.cancel()
            raise TimeoutError from None


LOOP = Loop()


class ProcessSession(Protocol):
    """The session of a process; see ``SshSession``."""

    @property
    def is_open(self) -> bool:
        """Whether it is open."""

    def forget(self, process: SshProcess) -> None:
        """Drop a process that has ended."""

    async def execute(self, command: str) -> None:
        """Run a command for the session itself."""


class SshProcess:
    """A running command on a node; see ``core.world.remote.RemoteProcess``.

    Args:
        unread_nbytes: The limit on unread output; beyond it, the process waits. 0 for a command
            that ends by itself, and may print at most ``ANSWER_NBYTES``.
    """

    def __init__(self, session: ProcessSession, unread_nbytes: int) -> None:
        self.trouble = ""
        self._session = session
        self._unread = unread_nbytes
        self._lock = threading.Lock()
        self._output = bytearray()
        self._errors = bytearray()
        self._pid = 0
        self._hear: Callable[[bytes], None] | None = None
        self._status: int | None = None
        self.ended = threading.Event()

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs. -1 if the session was lost."""
        return self._status

    @property
    def errors(self) -> str:
        """The end of its standard error, or why its output is no longer read."""
        with self._lock:
            if self.trouble:
                return self.trouble
            return self._errors.decode(errors="replace")

    def write(self, data: bytes) -> None:
        """Write to its standard input; what comes after the input was closed is lost."""
        LOOP.get().call_soon_threadsafe(self._write, data)

    def listen(self, hear: Callable[[bytes], None]) -> None:
        """Pass its standard output on as it comes, on the sessions' thread; no bytes at the end."""
        with self._lock:
            self._hear = hear
            self._pass_on()
        if self.ended.is_set():
            hear(b"")

    def close_input(self) -> None:
        """Close its standard input."""
        LOOP.get().call_soon_threadsafe(self._write, b"")

    def lines(self) -> list[str]:
        """Return the lines of standard output so far, without waiting."""
        with self._lock:
            # A last line without a newline is complete once the process has ended.
            end = len(self._output) if self.ended.is_set() else self._output.rfind(b"\n") + 1
            taken = bytes(self._output[:end]) if self._pid else b""
            del self._output[: len(taken)]
        return taken.decode(errors="replace").splitlines()

    def output(self) -> str:
        """Return all unread standard output."""
        with self._lock:
            return self._output.decode(errors="replace")

    def end(self, *, force: bool = False) -> None:
        """Close its standard input, and send SIGTERM or SIGKILL to it and its children."""
        self.close_input()
        if self._status is None:
            work = self._force() if force else self._signal("TERM")
            asyncio.run_coroutine_threadsafe(work, LOOP.get())

    # -- in the sessions' thread

    async def open(self, connection: asyncssh.SSHClientConnection, command: str) -> None:
        """Start the command."""
        self._process = await connection.create_process(command, encoding=None)
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        await asyncio.gather(
            self._gather(self._process.stdout, self._output, self._unread),
            self._gather(self._process.stderr, self._errors, 0),
        )
        with contextlib.suppress(asyncssh.Error, OSError):
            await self._process.wait_closed()
        status = self._process.returncode
        self._status = -1 if status is None else status
        self._session.forget(self)
        self.ended.set()
        if self._hear is not None:
            self._hear(b"")

    def _pass_on(self) -> None:
        """Pass output on to what listens; it never waits."""
        if self._hear is not None and self._pid and self._output:
            data = bytes(self._output)
            self._output.clear()
            self._hear(data)

    async def _gather(self, stream: Any, into: bytearray, unread_nbytes: int) -> None:
        with contextlib.suppress(asyncssh.Error, OSError):
            while data := await stream.read(1 << 16):
                with self._lock:
                    into += data
                    if into is self._errors:
                        del into[:-ERRORS_NBYTES]
                    else:
                        self._take_pid()
                        self._pass_on()
                        self._check(unread_nbytes)
                    if self.trouble:
                        self._process.close()
                        return
                while unread_nbytes and len(into) > unread_nbytes:
                    await asyncio.sleep(0.05)

    def _take_pid(self) -> None:
        """Remove the line with the process's id, and all before it, from the output."""
        start = self._output.find(PID_MARK)
        end = self._output.find(b"\n", start)
        if not self._pid and start >= 0 and end >= 0:
            text = bytes(self._output[start + len(PID_MARK) : end]).strip()
            if PID.fullmatch(text):
                self._pid = int(text)
                del self._output[: end + 1]
            else:
                self.trouble = f"invalid process id {quote_value(text.decode(errors='replace'))}"

    def _check(self, unread_nbytes: int) -> None:
        """Stop reading from a process whose output is not of our own programs."""
        nbytes = len(self._output)
        if not self._pid and nbytes > GREETING_NBYTES:
            self.trouble = f"more than {GREETING_NBYTES >> 10} kB of output before its process id"
        elif not unread_nbytes and nbytes > ANSWER_NBYTES:
            self.trouble = f"more than {ANSWER_NBYTES >> 20} MB of output"
        elif unread_nbytes and nbytes - 1 - self._output.rfind(b"\n") > LINE_NBYTES:
            self.trouble = f"more than {LINE_NBYTES >> 20} MB of output without a line break"
        if self.trouble:
            self._output.clear()

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            if data:
                self._process.stdin.write(data)
            else:
                self._process.stdin.write_eof()

    async def _force(self) -> None:
        """Kill it; without an answer even then, close its channel in the session."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._signal("KILL"), FORCE_SECONDS)
        await asyncio.wait([self._reading], timeout=FORCE_SECONDS)
        if self._status is None:
            self._process.close()

    async def _signal(self, name: str) -> None:
        while not self._pid and self._status is None and not self.trouble:
            await asyncio.sleep(0.02)  # its id has not arrived yet
        if self._pid and self._status is None and self._session.is_open:
            kill = f"kill -s {name} -- -{self._pid} 2>/dev/null || kill -s {name} {self._pid}"
            with contextlib.suppress(asyncssh.Error, OSError):
                await self._session.execute(f"sh -c {shlex.quote(kill)}")
