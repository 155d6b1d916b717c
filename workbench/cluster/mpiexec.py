"""A running mpiexec, here or on another host."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass
from typing import Any, Protocol

import psutil

from workbench.cluster.process_monitor import ProcessMonitor
from workbench.core.node.launch_protocol import OUTPUT, Launched


class Mpiexec(Protocol):
    """One mpiexec. No method waits."""

    def is_alive(self) -> bool:
        """Whether it goes on."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        ...

    def log(self) -> str | None:
        """Return what it wrote; None while that is on its way."""
        ...


@dataclass(frozen=True)
class LocalMpiexec:
    """One that ipyparallel's launcher started on this machine."""

    launcher: Any
    monitor: ProcessMonitor

    def is_alive(self) -> bool:
        """Whether it goes on."""
        return self.monitor.is_alive(self.launcher.pid)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless the launcher knows that it ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.launcher.signal(number)

    def log(self) -> str | None:
        """Return what it wrote."""
        return self.monitor.tail(self.launcher.output_file)


@dataclass(frozen=True)
class NodeMpiexec:
    """One that ``workbench.node.launch`` started on the first host of its world."""

    monitor: ProcessMonitor
    launched: Launched

    def is_alive(self) -> bool:
        """Whether it goes on."""
        return self.monitor.is_alive(self.launched.pid)

    def signal(self, number: signal.Signals) -> None:
        """Have its keeper end it, whichever signal: that one uses force by itself."""
        self.monitor.signal((self.launched.pid,), signal.SIGTERM)

    def log(self) -> str | None:
        """Return the end of what it wrote."""
        return self.monitor.tail(f"{self.launched.folder}/{OUTPUT}")
