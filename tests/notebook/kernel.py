"""A real Jupyter kernel, driven as a page drives it, and what its cells send to their page."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.manager import KernelManager

LOGS = {"clusters/*/*.log": 30, "clusters/*/ranks/*.log": 10, "clusters/*/profile/log/*.log": 10}
"""Lines of each log that are shown with a cell that does not end."""


@dataclass
class Answer:
    """What a cell sent to its page."""

    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(m["content"]["text"] for m in self._of("stream"))

    @property
    def error(self) -> str:
        return "\n".join(line for m in self._of("error") for line in m["content"]["traceback"])

    @property
    def nbytes(self) -> int:
        return sum(len(json.dumps(message, default=str)) for message in self.messages)

    def all(self, kind: str) -> list[Any]:
        """Return the data of one MIME type, in the order in which it came."""
        shown = self._of("display_data", "update_display_data", "execute_result")
        return [m["content"]["data"][kind] for m in shown if kind in m["content"]["data"]]

    def _of(self, *kinds: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["msg_type"] in kinds]


class Notebook:
    """One kernel."""

    def __init__(self) -> None:
        self.manager = KernelManager()
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.run("%load_ext workbench")

    def run(self, cell: str, timeout: float = 120, then=lambda message: None) -> Answer:
        answer = Answer()

        def take(message: dict[str, Any]) -> None:
            answer.messages.append(message)
            then(message)

        with contextlib.suppress(TimeoutError):
            self.client.execute_interactive(
                cell, output_hook=take, timeout=timeout, allow_stdin=False
            )
            return answer
        raise AssertionError(
            f"the cell took longer than {timeout:g} s; it said {answer.text!r}\n"
            f"{state_of(os.environ['WORKBENCH_HOME'])}"
        )

    def close(self) -> None:
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)


def processes_of(home: str) -> set[int]:
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("WORKBENCH_HOME") == home:
                found.add(process.pid)
    return found


def state_of(home: str) -> str:
    """Return the processes with this WORKBENCH_HOME, and the last lines of their logs."""
    lines = []
    for pid in sorted(processes_of(home)):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            lines.append(f"{pid} {process.status()} {' '.join(process.cmdline())[:100]}")
    for pattern, last in LOGS.items():
        for path in sorted(Path(home).glob(pattern)):
            lines += [f"== {path.relative_to(home)}"]
            lines += path.read_text(errors="replace").splitlines()[-last:]
    return "\n".join(lines)
