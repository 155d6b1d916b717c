"""The agent of this node, which serves one session; run as ``python -m workbench.node.agent``.

Requests are lines on standard input, events are lines on standard output; see
``core.node.agent_protocol``. The agent ends when its input ends, and leaves the ranks alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from workbench.core.node.agent_protocol import (
    MOST_NBYTES,
    Added,
    Alive,
    AskFacts,
    Event,
    Follow,
    Gone,
    Heed,
    Read,
    Renew,
    Renewed,
    Request,
    Signal,
    Text,
    Unfollow,
    Unwatch,
    Watch,
    line_of,
    read_request,
)
from workbench.errors import WorkbenchError
from workbench.node.description import node_facts
from workbench.node.interruption_notice import Notices, usual_place
from workbench.node.lease import Lease, usual_folder

LOOK_SECONDS = 0.1
IDLE_SECONDS = 1.0
ALIVE_SECONDS = 5.0


class NodeAgent:
    """Watches processes, files and notices of this node for one session.

    Args:
        report: Called with each event.
        home: The base of relative paths.
        notices: The interruption notices of this node; sent once the supervisor asks for them.
    """

    def __init__(self, report: Callable[[Event], None], home: Path, notices: Notices) -> None:
        self._report = report
        self._home = home
        self._notices = notices
        self._watched: dict[int, psutil.Process] = {}
        self._followed: dict[str, int] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no process and no file is watched."""
        return not (self._watched or self._followed)

    def take(self, request: Request) -> None:
        """Handle one request, and send its answer as an event."""
        match request:
            case AskFacts():
                self._report(node_facts())
            case Watch(pids):
                self._watch(pids)
            case Unwatch(pids):
                for pid in pids:
                    self._watched.pop(pid, None)
            case Signal(pids, number):
                self._signal(pids, number)
            case Read():
                self._report(Text(request.path, self._read(request)))
            case Follow(path, offset):
                self._followed[path] = offset
            case Unfollow(path):
                self._followed.pop(path, None)
            case Renew():
                self._report(_renew(request))
            case Heed():
                self._notices.begin()

    def look(self) -> None:
        """Send new notices, ended processes, and what was appended to the followed files."""
        for notice in self._notices.take():
            self._report(notice)
        gone = tuple(pid for pid, process in self._watched.items() if not _is_alive(process))
        for path in self._followed:
            self._report_added(path)
        for pid in gone:
            del self._watched[pid]
        if gone:
            self._report(Gone(gone))

    def _watch(self, pids: tuple[int, ...]) -> None:
        gone = []
        for pid in pids:
            try:
                # psutil compares the start time too: a new process with the same id is another one.
                self._watched.setdefault(pid, psutil.Process(pid))
            except (psutil.NoSuchProcess, ValueError):
                gone.append(pid)
        if gone:
            self._report(Gone(tuple(gone)))

    def _signal(self, pids: tuple[int, ...], number: int) -> None:
        for pid in pids:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, KeyError):
                self._watched[pid].send_signal(number)

    def _read(self, request: Read) -> str:
        path = self._home / request.path
        if not path.is_file():
            return ""
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - max(0, min(request.most_nbytes, MOST_NBYTES))))
                text = file.read(MOST_NBYTES).decode(errors="replace")
            if request.remove:
                path.unlink(missing_ok=True)
        except OSError:
            return ""
        return text

    def _report_added(self, path: str) -> None:
        offset = self._followed[path]
        try:
            with (self._home / path).open("rb") as file:
                file.seek(offset)
                data = file.read(MOST_NBYTES)
        except OSError:
            return
        # A line is sent when it is complete, unless it is longer than one event may be.
        end = data.rfind(b"\n") + 1 if len(data) < MOST_NBYTES else len(data)
        if end:
            self._followed[path] = offset + end
            self._report(Added(path, data[:end].decode(errors="replace"), offset + end))


def _renew(request: Renew) -> Renewed:
    folder = Path(request.folder).expanduser() if request.folder else usual_folder()
    try:
        Lease(folder, request.cluster).renew(request.seconds)
    except WorkbenchError as error:
        return Renewed(request.cluster, request.seconds, str(error))
    return Renewed(request.cluster, request.seconds)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def serve(requests: int, report: Callable[[Event], None], notices: Notices) -> None:
    """Handle the requests from the file descriptor ``requests`` until it is closed."""
    agent = NodeAgent(report, Path.home(), notices)
    report(node_facts())
    rest, reported = b"", time.monotonic()
    while True:
        seconds = IDLE_SECONDS if agent.is_idle else LOOK_SECONDS
        if select.select([requests], [], [], seconds)[0]:
            data = os.read(requests, 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                request = read_request(line.decode(errors="replace"))
                if request is not None:
                    agent.take(request)
        agent.look()
        if time.monotonic() - reported >= ALIVE_SECONDS:
            reported = time.monotonic()
            report(Alive(time.time()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve standard input."""
    parser = argparse.ArgumentParser(prog="python -m workbench.node.agent")
    parser.add_argument(
        "--metadata", default=usual_place(os.environ), help="URL of the node's metadata service"
    )
    options = parser.parse_args(arguments)

    def report(event: Event) -> None:
        sys.stdout.write(line_of(event))
        sys.stdout.flush()

    try:
        serve(sys.stdin.fileno(), report, Notices(options.metadata))
    except (BrokenPipeError, KeyboardInterrupt):
        # The reader is gone; discard what is buffered, or Python would write it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
