"""A command that runs on a node, and the thread that runs all ssh sessions."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import re
import shlex
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import asyncssh

from workbench.core.quote import shown

if TYPE_CHECKING:
    from workbench.cloud.ssh import SshSession

ERRORS_NBYTES = 1 << 16
# A node's shell may greet with so much before it starts what was asked.
GREETING_NBYTES = 1 << 16
# No line of ours is nearly as long, and no answer of a command that ends.
LINE_NBYTES = 1 << 20
ANSWER_NBYTES = 16 << 20
FORCE_SECONDS = 5.0
# sshd passes no signal on to what root started, so each process first says who it is; what the
# person's own shell says before it, as some do, is nobody's output.
SAYS = b"workbench-process "
PID = re.compile(rb"[1-9][0-9]{0,9}")
START = 'echo "workbench-process $$"; exec "$@"'

Answer = TypeVar("Answer")


class Loop:
    """The thread in which all sessions of this process live."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """Return its event loop, started by the first caller."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="workbench-ssh", daemon=True
                ).start()
            return self._loop

    def wait(self, work: Coroutine[Any, Any, Answer], seconds: float) -> Answer:
        """Have the thread do ``work``, and wait for it.

        Raises:
            TimeoutError: It takes longer than ``seconds``, and was called off.
        """
        answer = asyncio.run_coroutine_threadsafe(work, self.get())
        try:
            return answer.result(seconds)
        except concurrent.futures.TimeoutError:
            answer.cancel()
            raise TimeoutError from None


LOOP = Loop()


class SshProcess:
    """A command that goes on at a node; see ``core.world.remote.RemoteProcess``.

    Args:
        unread_nbytes: Of what nobody has read yet; beyond, it waits. 0 where it has to end by
            itself, and may say no more than ``ANSWER_NBYTES``.
    """

    def __init__(self, session: SshSession, unread_nbytes: int) -> None:
        self.trouble = ""
        self._session = session
        self._unread = unread_nbytes
        self._lock = threading.Lock()
        self._output = bytearray()
        self._errors = bytearray()
        self._pid = 0
        self._status: int | None = None
        self.ended = threading.Event()

    @property
    def status(self) -> int | None:
        """Its exit status; None while it goes on. -1 when the session was lost."""
        return self._status

    @property
    def errors(self) -> str:
        """The last of what it wrote to standard error, or why nothing more is taken from it."""
        with self._lock:
            if self.trouble:
                return self.trouble
            return self._errors.decode(errors="replace")

    def write(self, text: str) -> None:
        """Write to its standard input; what it no longer reads is lost."""
        self.write_bytes(text.encode())

    def write_bytes(self, data: bytes) -> None:
        """Write to its standard input."""
        LOOP.get().call_soon_threadsafe(self._write, data)

    def close_input(self) -> None:
        """Close its standard input."""
        LOOP.get().call_soon_threadsafe(self._write, b"")

    def lines(self) -> list[str]:
        """Return the lines of standard output that have come, without waiting."""
        with self._lock:
            # A last line without its end is whole once nothing more can come.
            end = len(self._output) if self.ended.is_set() else self._output.rfind(b"\n") + 1
            taken = bytes(self._output[:end]) if self._pid else b""
            del self._output[: len(taken)]
        return taken.decode(errors="replace").splitlines()

    def output(self) -> str:
        """Return all of standard output that nobody has read."""
        with self._lock:
            return self._output.decode(errors="replace")

    def end(self, *, force: bool = False) -> None:
        """Close its standard input, and send SIGTERM, or SIGKILL, to it and what it started."""
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

    async def _gather(self, stream: Any, into: bytearray, unread_nbytes: int) -> None:
        with contextlib.suppress(asyncssh.Error, OSError):
            while data := await stream.read(1 << 16):
                with self._lock:
                    into += data
                    if into is self._errors:
                        del into[:-ERRORS_NBYTES]
                    else:
                        self._take_pid()
                        self._check(unread_nbytes)
                    if self.trouble:
                        self._process.close()
                        return
                while unread_nbytes and len(into) > unread_nbytes:
                    await asyncio.sleep(0.05)

    def _take_pid(self) -> None:
        """Take the line that tells the process's id off what has come, and all before it."""
        start = self._output.find(SAYS)
        end = self._output.find(b"\n", start)
        if not self._pid and start >= 0 and end >= 0:
            said = bytes(self._output[start + len(SAYS) : end]).strip()
            if PID.fullmatch(said):
                self._pid = int(said)
                del self._output[: end + 1]
            else:
                self.trouble = f"it says that its process is {shown(said.decode(errors='replace'))}"

    def _check(self, unread_nbytes: int) -> None:
        """Take no more from a process that nothing of ours speaks like."""
        nbytes = len(self._output)
        if not self._pid and nbytes > GREETING_NBYTES:
            self.trouble = f"it says {GREETING_NBYTES >> 10} kB before it says which process it is"
        elif not unread_nbytes and nbytes > ANSWER_NBYTES:
            self.trouble = f"it says more than {ANSWER_NBYTES >> 20} MB"
        elif unread_nbytes and nbytes - 1 - self._output.rfind(b"\n") > LINE_NBYTES:
            self.trouble = f"it says {LINE_NBYTES >> 20} MB without the end of a line"
        if self.trouble:
            self._output.clear()

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            if data:
                self._process.stdin.write(data)
            else:
                self._process.stdin.write_eof()

    async def _force(self) -> None:
        """End it; where even that has no answer, give up the place that it has in the session."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._signal("KILL"), FORCE_SECONDS)
        await asyncio.wait([self._reading], timeout=FORCE_SECONDS)
        if self._status is None:
            self._process.close()

    async def _signal(self, name: str) -> None:
        while not self._pid and self._status is None and not self.trouble:
            await asyncio.sleep(0.02)  # it has not yet said who it is
        if self._pid and self._status is None and self._session.is_open:
            kill = f"kill -s {name} -- -{self._pid} 2>/dev/null || kill -s {name} {self._pid}"
            with contextlib.suppress(asyncssh.Error, OSError):
                await self._session.execute(f"sh -c {shlex.quote(kill)}")
