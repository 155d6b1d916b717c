"""Watch and signal processes of this node for the supervisor, without polling."""

from __future__ import annotations

import contextlib
import os
import select

import psutil

from workbench.core.node.agent_protocol import Gone, Signal, Unwatch, Watch, WatchProcesses
from workbench.node.stream import Bell, Call


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
