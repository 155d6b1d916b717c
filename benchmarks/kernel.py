"""A real Jupyter kernel, and what its page receives."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from jupyter_client.manager import KernelManager

from .figures import BenchmarkFailed

CELL_SECONDS = 300.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Answer:
    """What a cell did.

    Args:
        asked: Epoch seconds at which it was sent to the kernel.
        nbytes: Header, metadata and content of all messages to the page.
    """

    asked: float
    text: str = ""
    shown: str = ""
    nbytes: int = 0
    messages: int = 0


class Kernel:
    """One kernel, with this process as its page."""

    def __enter__(self) -> Self:
        self.manager = KernelManager()
        self.manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()
        try:
            self.client.wait_for_ready(timeout=60)
        except RuntimeError as error:
            self.__exit__()
            raise BenchmarkFailed(f"The Jupyter kernel did not start ({error}).") from error
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    @property
    def pid(self) -> int:
        """The kernel's process."""
        return int(self.manager.provisioner.pid)

    def run(
        self, cell: str, *, received: Callable[[], None] = lambda: None, patience: float = 0.0
    ) -> Answer:
        """Run a cell until the kernel is idle again.

        Args:
            received: Called after each message.
            patience: Greatest silence in seconds.

        Raises:
            BenchmarkFailed: The cell raised, or was silent for too long.
        """
        socket, session = self.client.iopub_channel.socket, self.client.session
        answer = Answer(time.time())
        error = ""
        asked = self.client.execute(cell, allow_stdin=False)
        while True:
            if not socket.poll(int(1000 * (patience or CELL_SECONDS))):
                raise BenchmarkFailed(f"A cell that begins {cell[:40]!r} was silent for too long.")
            _, frames = session.feed_identities(socket.recv_multipart())
            message = session.deserialize(frames)
            kind, content = message["msg_type"], message["content"]
            answer.nbytes += sum(len(frame) for frame in frames[1:])  # the first is the signature
            answer.messages += 1
            answer.text += content["text"] if kind == "stream" else ""
            answer.shown = content.get("data", {}).get("text/plain", "") or answer.shown
            error = _sentence(content) if kind == "error" else error
            received()
            if kind == "status" and _ends(message, asked):
                break
        self.client.get_shell_msg(timeout=CELL_SECONDS)
        if error:
            raise BenchmarkFailed(f"A cell that begins {cell[:40]!r} failed: {error}.")
        return answer


def _ends(message: dict[str, Any], asked: str) -> bool:
    idle = message["content"]["execution_state"] == "idle"
    return idle and message["parent_header"].get("msg_id") == asked


def _sentence(content: dict[str, Any]) -> str:
    last = _COLOURS.sub("", content["traceback"][-1] if content["traceback"] else "")
    return f"{content['ename']}: {content['evalue'] or last}".strip().rstrip(".")
