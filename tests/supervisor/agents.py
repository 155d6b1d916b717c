"""A node whose agent says what a test has it say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.core.node.transfer_protocol import line
from workbench.core.world.remote import LostSession
from workbench.core.world.world import Host


class Script:
    """A process that says its lines, and then goes on without a word.

    Args:
        said: Returns what it says next, again and again; nothing for a process that is silent.
    """

    def __init__(self, said: Callable[[], Sequence[str]]) -> None:
        self._said = said
        self.heard: list[str] = []
        self.status: int | None = None
        self.errors = ""

    def write(self, text: str) -> None:
        self.heard.append(text)

    def write_bytes(self, data: bytes) -> None:
        """Take in what nobody looks at."""

    def lines(self) -> list[str]:
        return [] if self.status is not None else [*self._said()]

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
