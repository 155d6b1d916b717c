"""Run ipyparallel's engine with its output captured from the start.

ipyparallel replaces ``sys.stdout`` and ``sys.stderr`` when an engine has registered. A library that
bound them earlier, at import, would then write past every run.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import_module(
    "workbench.engine.output.output_capture"
).route_output()  # before anything can bind a stream

from ipyparallel.engine.app import IPEngine  # noqa: E402  # only after that
from traitlets import default  # noqa: E402  # likewise

from workbench.cluster.leftovers import segment_settings  # noqa: E402  # likewise
from workbench.core.world.world import CONNECTION_VARIABLE, WORLD_VARIABLE  # noqa: E402  # likewise

DEVICES = (Path("/sys/class/infiniband"), Path("/sys/class/cxi"))


class Engine(IPEngine):
    """An engine that forwards text outside of a run to our streams' original targets."""

    @default("work_dir")
    def _default_work_dir(self) -> str:
        return str(Path.cwd())  # ipyparallel's is that of the import: of the fork server

    @default("connection_info_env")
    def _default_connection(self) -> str:
        """Return the controller's addresses and keys; on several hosts they are in a file."""
        if path := os.environ.get(CONNECTION_VARIABLE):
            return (Path.home() / path).read_text(encoding="utf-8")
        return os.environ.get("IPP_CONNECTION_INFO", "")

    def start(self) -> None:
        """Run the engine; one without a supervisor closes MPI's daemons itself."""
        rank = self.id  # MPI has started then, which all ranks do together: all are connected
        if self.use_mpi and not os.environ.get(WORLD_VARIABLE):
            close_above = import_module("workbench.cluster.daemon_sockets").close_above
            if warning := close_above():
                self.log.warning("Rank %s: %s", rank or 0, warning)
        super().start()

    def redirect_output(self, iopub_socket: Any) -> None:
        """Send standard output and error to clients, through our present streams."""
        ours: Any = sys.stdout, sys.stderr
        _keep_log_apart(self.log)
        super().redirect_output(iopub_socket)
        for stream, theirs in zip(ours, (sys.stdout, sys.stderr), strict=True):
            if stream is not theirs:
                stream.lead_to(theirs)
        sys.stdout, sys.stderr = ours


def _keep_log_apart(log: logging.Logger) -> None:
    """Write the engine's own log to mpiexec's output: it is not part of a run's output."""
    file = open(os.dup(2), "w", buffering=1, errors="replace")  # noqa: SIM115  # stays open
    for handler in log.handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
            handler.setStream(file)


def _set_open_mpi_up() -> None:
    """Set the variables that Open MPI reads on this host, before mpi4py starts it."""
    if not has_fabric():
        os.environ.update(without_search(os.environ))
    if mark := os.environ.get(WORLD_VARIABLE):
        os.environ.update(segment_settings(mark))


def has_fabric(devices: tuple[Path, ...] = DEVICES) -> bool:
    """Return whether this host has a device for which libfabric has a provider of its own."""
    return any(folder.is_dir() and any(folder.iterdir()) for folder in devices)


def without_search(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that leave libfabric out, besides what ``environment`` leaves out.

    A list of components to use, which does not begin with ``^``, stays as it is.
    """
    added = {}
    for name in ("OMPI_MCA_btl", "OMPI_MCA_mtl"):
        value = environment.get(name, "^")
        if value.startswith("^"):
            names = [*filter(None, value[1:].split(","))]
            added[name] = f"^{','.join(dict.fromkeys([*names, 'ofi']))}"
    return added


if __name__ == "__main__":
    _set_open_mpi_up()
    import_module("workbench.engine.mpi_start").begin()
    import_module("workbench.engine.script_process").note_exits()
    Engine.launch_instance()
