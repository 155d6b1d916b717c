"""The agent of this node, which serves one session; run as ``python -m workbench.node.agent``.

One process does all that the supervisor has done here: it watches processes, renews leases, listens
for notices, and moves data, output and snapshots. Requests come on standard input and answers go to
standard output, many at a time; see ``core.node.frames``. The agent ends when its input ends, and
leaves the ranks alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from workbench.core.node.agent_protocol import (
    MOST_TEXT_NBYTES,
    AskFacts,
    FileEnd,
    Gone,
    NodeFacts,
    NodeTried,
    ReadFile,
    RenewLease,
    Signal,
    TakeOver,
    TryNode,
    Unwatch,
    Watch,
    WatchNotices,
    WatchProcesses,
    decode_path,
    decode_request,
    decode_to_node,
)
from workbench.core.node.frames import GREETING
from workbench.node.description import node_facts
from workbench.node.interruption_notice import usual_place, watch_notices
from workbench.node.lease import Lease, usual_folder
from workbench.node.stream import Bell, Call, Serve, Stream, StreamLost
from workbench.node.warm_ranks import keep_forks

# Training goes first, before all that moves files.
NICE = 10
# How long work that can end in order may take when the input has ended.
END_SECONDS = 30.0
# A kernel beside this one answers at once; its sshd may be one of many busy processes.
TRY_SECONDS, GREETING_SECONDS = 0.6, 5.0
SSH = b"SSH-"
LOGIN = "login"


class ProcessWatch:
    """The processes that one call watches.

    Args:
        call: Takes what is asked, and sends which processes have ended.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._processes: dict[int, psutil.Process] = {}
        self._descriptors: dict[int, int] = {}  # of processes, by process id

    def serve(self) -> None:
        """Watch until the call is cancelled."""
        try:
            with Bell(self._call) as bell:
                while True:
                    self._look(bell)
        finally:
            for one in self._descriptors.values():
                os.close(one)

    def _look(self, bell: Bell) -> None:
        waiting = select.poll()
        for one in (bell.descriptor, *self._descriptors.values()):
            waiting.register(one, select.POLLIN)
        readable = {one for one, _ in waiting.poll()}
        if bell.descriptor in readable:
            for message in bell.take():
                self._take(message)
        self._report([pid for pid, one in self._descriptors.items() if one in readable])

    def _take(self, message: object) -> None:
        match message:
            case Watch(pids):
                self._report([pid for pid in pids if not self._begin(pid)])
            case Unwatch(pids):
                for pid in pids:
                    self._forget(pid)
            case Signal(pids, number):
                for pid in pids:
                    # psutil compares the start time: a new process with the id is another one.
                    with contextlib.suppress(psutil.Error, KeyError):
                        self._processes[pid].send_signal(number)

    def _begin(self, pid: int) -> bool:
        """Watch a process; return whether it is alive."""
        if pid in self._processes:
            return True
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                self._processes[pid], self._descriptors[pid] = process, descriptor
                return True
        except (psutil.Error, ValueError):
            pass
        os.close(descriptor)
        return False

    def _report(self, gone: list[int]) -> None:
        for pid in gone:
            self._forget(pid)
        if gone:
            self._call.post(Gone(tuple(gone)))

    def _forget(self, pid: int) -> None:
        self._processes.pop(pid, None)
        descriptor = self._descriptors.pop(pid, None)
        if descriptor is not None:
            os.close(descriptor)


def watch_processes(call: Call, request: WatchProcesses) -> None:
    """Serve one supervisor."""
    ProcessWatch(call).serve()


def take_over(call: Call, request: TakeOver) -> None:
    """End the login that served this cluster before, and note that of this agent."""
    file = Path(decode_path(request.folder)) / LOGIN
    mine = next((one for one in psutil.Process().parents() if _is_login(one)), None)
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        pid, began = json.loads(file.read_text())
        before = psutil.Process(pid)
        if before != mine and before.create_time() == began and _is_login(before):
            before.terminate()
    with contextlib.suppress(OSError, psutil.Error):
        file.unlink(missing_ok=True)
        if mine is not None:
            file.write_text(json.dumps([mine.pid, mine.create_time()]))


def _is_login(process: psutil.Process) -> bool:
    return process.name().startswith("sshd")


def try_node(call: Call, request: TryNode) -> NodeTried:
    """Return whether another node's sshd answers; a kernel alone does not suffice."""
    where = request.address, request.port
    with contextlib.suppress(OSError), socket.create_connection(where, TRY_SECONDS) as found:
        found.settimeout(GREETING_SECONDS)
        return NodeTried(found.recv(len(SSH)) == SSH)
    return NodeTried(answers=False)


FILE_SERVICES = {
    "StageData": "staging:receive_data",
    "FetchData": "staging:fetch_data",
    "GiveData": "staging:give_data",
    "SendOutputs": "output_sender:send_outputs",
    "ListSnapshots": "snapshot_service:list_snapshots",
    "SendSnapshot": "snapshot_service:send_snapshot",
    "ReceiveSnapshot": "snapshot_service:receive_snapshot",
    "StoreSnapshot": "snapshot_service:store_snapshot",
    "FetchSnapshots": "snapshot_service:fetch_snapshots",
    "RemoveSnapshots": "snapshot_service:remove_snapshots",
    "LimitSnapshots": "snapshot_service:limit_snapshots",
}
"""What answers requests about files; loaded when it is first asked for."""


class Agent:
    """What one session can ask of this node.

    Args:
        write: Writes bytes to the supervisor.
        home: The base of relative paths.
        metadata: URL of the node's metadata service, which has interruption notices.
    """

    def __init__(self, write: Callable[[bytes], None], home: Path, metadata: str) -> None:
        self._home = home
        self._metadata = metadata
        self._services: dict[str, Serve] = {
            "AskFacts": self._describe,
            "TakeOver": take_over,
            "TryNode": try_node,
            "ReadFile": self._read,
            "RenewLease": self._renew,
            "WatchNotices": self._watch_notices,
            "WatchProcesses": watch_processes,
            "KeepForks": keep_forks,
        }
        self._stream = Stream(write, decode_to_node, serve=self._find)

    def serve(self, requests: int) -> None:
        """Answer the requests from a file descriptor until it is closed."""
        while data := os.read(requests, 1 << 20):
            self._stream.feed(data)
        self._stream.close(StreamLost("the supervisor has gone"))
        self._stream.join(END_SECONDS)

    def _find(self, body: bytes) -> tuple[Any, Serve]:
        request = decode_request(body)
        name = type(request).__name__
        if name in FILE_SERVICES:
            return request, _in_the_background
        return request, self._services[name]

    def _describe(self, call: Call, request: AskFacts) -> NodeFacts:
        return node_facts()

    def _renew(self, call: Call, request: RenewLease) -> None:
        folder = Path(request.folder).expanduser() if request.folder else usual_folder()
        Lease(folder, request.cluster).renew(request.seconds)

    def _watch_notices(self, call: Call, request: WatchNotices) -> None:
        watch_notices(call, self._metadata)

    def _read(self, call: Call, request: ReadFile) -> FileEnd:
        path = self._home / decode_path(request.path)
        try:
            if not path.is_file():
                return FileEnd(b"")
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - request.most_nbytes))
                text = file.read(MOST_TEXT_NBYTES)
            if request.remove:
                path.unlink(missing_ok=True)
        except (OSError, ValueError):
            return FileEnd(b"")
        return FileEnd(text)


def _in_the_background(call: Call, request: Any) -> Any:
    """Answer a request about files on this thread, whose priority is low."""
    with contextlib.suppress(OSError):
        # Linux gives each thread a priority of its own.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    module, _, name = FILE_SERVICES[type(request).__name__].partition(":")
    return getattr(import_module(f"workbench.node.{module}"), name)(call, request)


def main() -> int:
    """Serve standard input."""
    parser = argparse.ArgumentParser(prog="python -m workbench.node.agent")
    parser.add_argument(
        "--metadata", default=usual_place(os.environ), help="URL of the node's metadata service"
    )
    options = parser.parse_args()
    os.umask(0o077)
    # What a library prints goes to standard error, and never into the stream.
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def write(data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(answers, left) :]

    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        write(GREETING)
        Agent(write, Path.home(), options.metadata).serve(sys.stdin.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
