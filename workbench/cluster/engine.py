"""Run ipyparallel's engine with its output captured from the start.

ipyparallel puts other streams in the place of ``sys.stdout`` and ``sys.stderr`` when an engine has
registered. Whatever bound them before, at import, would write past every run from then on.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from typing import Any

import_module("workbench.engine.output_capture").route_output()  # before anything can bind a stream

from ipyparallel.engine.app import IPEngine  # noqa: E402  # only after that


class Engine(IPEngine):
    """An engine that tells our streams where text goes outside of a run."""

    def redirect_output(self, iopub_socket: Any) -> None:
        """Send standard output and error to clients, through the streams that there are."""
        ours: Any = sys.stdout, sys.stderr
        _keep_log_apart(self.log)
        super().redirect_output(iopub_socket)
        for stream, theirs in zip(ours, (sys.stdout, sys.stderr), strict=True):
            if stream is not theirs:
                stream.lead_to(theirs)
        sys.stdout, sys.stderr = ours


def _keep_log_apart(log: logging.Logger) -> None:
    """Let the engine's own log go on to mpiexec's: it is not for the reader of a run."""
    file = open(os.dup(2), "w", buffering=1, errors="replace")  # noqa: SIM115  # stays open
    for handler in log.handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
            handler.setStream(file)


if __name__ == "__main__":
    Engine.launch_instance()
