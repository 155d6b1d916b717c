"""A node whose agent sends the messages of a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.core.node.transfer_protocol import line
from workbench.core.world.remote import LostSession
from workbench.core.world.world import Host


class Script:
    """A process that prints its lines, and then runs without output.

    Args:
        output: Returns its next lines, each time it is called; none for a silent process.
    """

    def __init__(self, output: Callable[[], Sequence[str]]) -> None:
        self._output = output
        self.heard: list[str] = []
        self.status: int | None = None
        self.errors = ""

    def write(self, text: str) -> None:
        self.heard.append(text)

    def write_bytes(self, data: bytes) -> None:
        """Accept input that no test reads."""

    def lines(self) -> list[str]:
        return [] if self.status is not None else [*self._output()]

    def end(self, *, force: bool = False) -> None:
        self.status = 0


class Talker(LostSession):
    """A session with a node on which each command says these lines, once."""

    is_open = True

    def __init__(self, address: str, *lines: str) -> None:
        super().__init__(Host(address, 1))
        self._lines = lines
        self.started: list[Script] = []

    @property
    def heard(self) -> list[str]:
        """What was said to it."""
        return [text for process in self.started for text in process.heard]

    def start(self, command: Sequence[str]) -> Script:
        rest = [list(self._lines)]
        self.started.append(Script(lambda: rest.pop() if rest else ()))
        return self.started[-1]


def sent(run: object, path: object, piece: str, digest: str) -> list[str]:
    """Return the lines by which a node sends a file."""
    return [line("file", run, path), line("piece", piece), line("whole", run, path, digest)]
