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
    NodeMessage,
    Trouble,
    Whole,
    read_message,
)
from workbench.core.node.transfer_protocol import line
from workbench.core.world.remote import RemoteProcess, Session
from workbench.errors import ProtocolError
from workbench.supervisor.data.receiving import Receiving
from workbench.supervisor.data.safe_paths import Below

# Lines that a login prints beside the agent's, such as a warning of Python.
MOST_STRAY = 1_000

PlaceOf = Callable[[str, str], tuple[Below, str]]
KeyOf = Callable[[str, str], str]


@dataclass
class OutputAgent:
    """The output agent on one node.

    Args:
        runs: The runs that it knows, and that have not ended.
        over: Those of them that it knows to be over.
        flushed: The number of the last flush request that it has completed.
        nbytes: Bytes received from it that are not counted yet.
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

    def send(self, kind: str, *values: Any) -> None:
        """Send a message to the agent."""
        self.process.write(line(kind, *values))

    @property
    def is_gone(self) -> bool:
        """Return whether it has ended, or its node is unreachable."""
        return self.is_dropped or self.process.status is not None or not self.session.is_open

    def receive(self, place_of: PlaceOf) -> None:
        """Ask the agent to send the files here, and not to a bucket."""
        self.receiving = Receiving(
            lambda run, path: place_of(self.known(run), path),
            lambda nbytes: self.send(TAKEN, nbytes),
            lambda run, path, why: self.send(KEPT, run, path, why),
        )

    def known(self, run: str) -> str:
        """Return a run that the agent named, if it knows that run.

        Raises:
            MachineError: It does not know the run.
        """
        if run not in self.runs:
            raise ProtocolError(f"it named run {run}, which it has nothing of")
        return run

    def hear(self, key_of: KeyOf) -> tuple[bool, list[str]]:
        """Process the agent's messages.

        Returns:
            Whether there were any, and the runs of which all has been sent.

        Raises:
            MachineError: A message breaks the protocol; its later ones cannot be understood.
        """
        lines = self.process.lines()
        self.nbytes += sum(len(text) + 1 for text in lines)
        ended = []
        for text in lines:
            message = read_message(text)
            if message is None:
                self._note_stray()
            elif isinstance(message, Ended):
                ended.append(self._end(message.run))
            else:
                self._take(message, key_of)
        return bool(lines), ended

    def _take(self, message: NodeMessage, key_of: KeyOf) -> None:
        match message:
            case Claim(run, path):
                self.send(KEY, run, path, key_of(self.known(run), path))
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
            raise ProtocolError("it sent a file that is to go to the bucket")
        return self.receiving

    def _end(self, run: str) -> str:
        if run not in self.over:
            raise ProtocolError(f"it ended run {run}, which is not over")
        self.runs.discard(run)
        self.over.discard(run)
        return run

    def _note_stray(self) -> None:
        self.stray += 1
        if self.stray > MOST_STRAY:
            raise ProtocolError(f"it sent more than {MOST_STRAY} lines that mean nothing")
