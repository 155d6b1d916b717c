"""The supervisor's side of the agent that sends a node's output files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.core.node.output_protocol import (
    KEPT,
    KEY,
    TAKEN,
    Claim,
    Ended,
    File,
    FilePiece,
    Flushed,
    Said,
    Trouble,
    Whole,
    read_said,
)
from workbench.core.node.transfer_protocol import line
from workbench.core.world.remote import RemoteProcess, Session
from workbench.errors import MachineError
from workbench.supervisor.data.receiving import Receiving
from workbench.supervisor.data.safe_paths import Below

# What a login there prints beside what the agent says, such as a warning of Python's.
MOST_STRAY = 1_000

PlaceOf = Callable[[str, str], tuple[Below, str]]
KeyOf = Callable[[str, str], str]


@dataclass
class OutputAgent:
    """The agent on one node.

    Args:
        runs: That it knows, and has not ended.
        over: Those of them that it knows to be over.
        flushed: The last number of a request that it has done all of.
        nbytes: That it has said, and nobody has counted yet.
    """

    address: str
    session: Session
    process: RemoteProcess
    destination: str
    receiving: Receiving | None = None
    runs: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)
    trouble: str = ""
    flushed: int = 0
    asked: int = 0
    stray: int = 0
    nbytes: int = 0
    is_dropped: bool = False

    def say(self, kind: str, *values: Any) -> None:
        """Say something to it."""
        self.process.write(line(kind, *values))

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, or nobody reaches it."""
        return self.is_dropped or self.process.status is not None or not self.session.is_open

    def receive(self, place_of: PlaceOf) -> None:
        """Have it send the files here, and not to a bucket."""
        self.receiving = Receiving(
            lambda run, path: place_of(self.known(run), path),
            lambda nbytes: self.say(TAKEN, nbytes),
            lambda run, path, why: self.say(KEPT, run, path, why),
        )

    def known(self, run: str) -> str:
        """Return a run that it named, and knows.

        Raises:
            MachineError: It knows no such run.
        """
        if run not in self.runs:
            raise MachineError(f"it named run {run}, which it has nothing of")
        return run

    def hear(self, key_of: KeyOf) -> tuple[bool, list[str]]:
        """Take in what it has said.

        Returns:
            Whether that was anything, and the runs of which it has sent all.

        Raises:
            MachineError: It said what no agent says; nothing more of it can be understood.
        """
        lines = self.process.lines()
        self.nbytes += sum(len(text) + 1 for text in lines)
        ended = []
        for text in lines:
            said = read_said(text)
            if said is None:
                self._note_stray()
            elif isinstance(said, Ended):
                ended.append(self._end(said.run))
            else:
                self._take(said, key_of)
        return bool(lines), ended

    def _take(self, said: Said, key_of: KeyOf) -> None:
        match said:
            case Claim(run, path):
                self.say(KEY, run, path, key_of(self.known(run), path))
            case Trouble(why):
                self.trouble = why
            case Flushed(number):
                self.flushed = min(number, self.asked)
            case File(run, path):
                self._files().begin(run, path)
            case FilePiece(data):
                self._files().add(data)
            case Whole(run, path, digest):
                self._files().end(self.known(run), path, digest)

    def _files(self) -> Receiving:
        if self.receiving is None:
            raise MachineError("it sent a file that is to go to the bucket")
        return self.receiving

    def _end(self, run: str) -> str:
        if run not in self.over:
            raise MachineError(f"it ended run {run}, which is not over")
        self.runs.discard(run)
        self.over.discard(run)
        return run

    def _note_stray(self) -> None:
        self.stray += 1
        if self.stray > MOST_STRAY:
            raise MachineError(f"it said more than {MOST_STRAY} lines that mean nothing")
