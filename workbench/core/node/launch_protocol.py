"""Describe a process for a node to start, as text for its standard input."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from workbench.core.messages import Path, Pid, decode
from workbench.errors import ProtocolError

FOLDER = "@FOLDER@"
"""A placeholder for the folder's absolute path in the files, the command and the environment."""

OUTPUT = "output.log"
"""The file of that folder with the command's output."""

PID = "pid"
"""The file of that folder with the process id of the command's keeper."""


@dataclass(frozen=True)
class Launch:
    """A command that outlives the session that started it.

    Args:
        folder: For the files and the output; absolute, or relative to the home of the user who
            logs in there.
        files: Name and text of each; only the owner may read them.
        environment: Added to the environment of a login there.
    """

    folder: str
    files: tuple[tuple[str, str], ...]
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    def at(self, home: str) -> Launch:
        """Return it with the placeholders replaced by absolute paths."""
        folder = str(PurePosixPath(home) / self.folder)

        def put(text: str) -> str:
            return text.replace(FOLDER, folder)

        return Launch(
            folder,
            tuple((name, put(text)) for name, text in self.files),
            tuple(put(word) for word in self.command),
            tuple((name, put(text)) for name, text in self.environment),
        )

    def __repr__(self) -> str:
        return f"<Launch {self.command[:1]} in {self.folder}>"


@dataclass(frozen=True)
class Launched:
    """A command that was started.

    Args:
        pid: Process id of its keeper on the node; the keeper obeys SIGTERM, and ends when no
            process of the command is left.
        folder: Absolute.
    """

    pid: int
    folder: str


def launch_text(launch: Launch) -> str:
    """Return ``launch`` as one line."""
    values = [launch.folder, launch.files, launch.command, launch.environment]
    return json.dumps(values) + "\n"


def read_launch(text: str) -> Launch:
    """Return the launch that ``launch_text`` encoded."""
    folder, files, command, environment = json.loads(text)
    return Launch(folder, _pairs(files), tuple(command), _pairs(environment))


def launched_text(launched: Launched) -> str:
    """Return ``launched`` as one line."""
    return json.dumps([launched.pid, launched.folder]) + "\n"


def read_launched(text: str) -> Launched:
    """Return what ``launched_text`` encoded, without the output of a login shell before it.

    Raises:
        ProtocolError: The text is invalid.
    """
    last = text.strip().rpartition("\n")[2]
    pid, folder = decode(tuple[Pid, Path], last)
    if pid == 1:
        raise ProtocolError("it reported that process 1 was started")
    return Launched(pid, folder)


def _pairs(values: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, text) for name, text in values)
