"""A running mpiexec, on this machine or another host."""

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
        """Return whether it is running."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        ...

    def log(self) -> str | None:
        """Return its output; None while that is being fetched."""
        ...


@dataclass(frozen=True)
class LocalMpiexec:
    """An mpiexec that ipyparallel's launcher started on this machine."""

    launcher: Any
    monitor: ProcessMonitor

    def is_alive(self) -> bool:
        """Return whether it is running."""
        return self.monitor.is_alive(self.launcher.pid)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended according to the launcher."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.launcher.signal(number)

    def log(self) -> str | None:
        """Return its output."""
        return self.monitor.tail(self.launcher.output_file)


@dataclass(frozen=True)
class NodeMpiexec:
    """An mpiexec that ``workbench.node.launch`` started on the first host of its world."""

    monitor: ProcessMonitor
    launched: Launched

    def is_alive(self) -> bool:
        """Return whether it is running."""
        return self.monitor.is_alive(self.launched.pid)

    def signal(self, number: signal.Signals) -> None:
        """Make its launch process end it, for any signal: that process uses force if necessary."""
        self.monitor.signal((self.launched.pid,), signal.SIGTERM)

    def log(self) -> str | None:
        """Return the end of its output."""
        return self.monitor.tail(f"{self.launched.folder}/{OUTPUT}")
