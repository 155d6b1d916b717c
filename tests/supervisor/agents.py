"""A node whose agent sends the messages of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from workbench.core.node.agent_protocol import (
    AgentMessage,
    Manifest,
    Piece,
    decode_request,
    decode_to_node,
    encode_message,
)
from workbench.core.node.frames import CREDIT_BODY, GREETING, FrameKind, FrameReader, encode_frame
from workbench.core.world.remote import LostSession
from workbench.core.world.world import Host


@dataclass(frozen=True)
class Over:
    """The end of a call: its reply, or why it has failed."""

    reply: AgentMessage | None = None
    why: str = ""


Said = AgentMessage | Over | bytes
"""What an agent says in a call; bytes are the body of a message, whatever they are."""


class Script:
    """A process that stands for a node's agent.

    Args:
        answer: Returns what it says in each call, by the request.
    """

    def __init__(self, answer: Callable[[Any], Iterable[Said]]) -> None:
        self._answer = answer
        self._reader = FrameReader()
        self._hear: Callable[[bytes], None] = lambda data: None
        self._unsaid = bytearray()
        self.heard: list[Any] = []
        self.calls: dict[int, Any] = {}
        self.status: int | None = None
        self.errors = ""

    def write(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            match frame.kind:
                case FrameKind.REQUEST:
                    request = decode_request(frame.body)
                    self.heard.append(request)
                    self.calls[frame.call] = request
                    self.say(frame.call, *self._answer(request))
                case FrameKind.MESSAGE | FrameKind.BYTES:
                    self.heard.append(decode_to_node(frame.body))
                    self.send(FrameKind.CREDIT, frame.call, CREDIT_BODY.pack(1 << 40))
                case FrameKind.CANCEL:
                    self.calls.pop(frame.call, None)

    def listen(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear
        hear(GREETING)

    def lines(self) -> list[str]:
        return []

    def end(self, *, force: bool = False) -> None:
        if self.status is None:
            self.status = 0
            self._hear(b"")

    def say(self, call: int, *said: Said) -> None:
        """Say something in a call."""
        for one in said:
            if isinstance(one, Over):
                kind, body = FrameKind.REPLY, encode_message(one.reply) if one.reply else b""
                if one.why:
                    kind, body = FrameKind.FAILURE, one.why.encode()
                self.send(kind, call, body)
            elif isinstance(one, bytes):
                self.send(FrameKind.MESSAGE, call, one)
            else:
                is_large = isinstance(one, Piece | Manifest)
                kind = FrameKind.BYTES if is_large else FrameKind.MESSAGE
                self.send(kind, call, encode_message(one))

    def say_to(self, request: type, *said: Said) -> None:
        """Say something in all calls of a kind."""
        for call, one in [*self.calls.items()]:
            if isinstance(one, request):
                self.say(call, *said)

    def hear(self, data: bytes) -> None:
        """Send these bytes, whatever they are."""
        if self.status is None:
            self._hear(data)

    def send(self, kind: FrameKind, call: int, body: bytes) -> None:
        self.hear(encode_frame(kind, call, body))


class Talker(LostSession):
    """A session with a node on which the agent says this in each call, or in each of a kind."""

    is_open, is_silent = True, False

    def __init__(self, address: str, *said: Said, to: type = object) -> None:
        super().__init__(Host(address, 1))
        self._said, self._to = said, to
        self.started: list[Script] = []

    @property
    def heard(self) -> list[Any]:
        """What was said to it."""
        return [one for process in self.started for one in process.heard]

    def start(self, command: Sequence[str]) -> Script:
        self.started.append(Script(lambda one: self._said if isinstance(one, self._to) else ()))
        return self.started[-1]


def build_piece(run: str, path: str, data: bytes) -> Piece:
    """Return the message by which a node sends a small file."""
    return Piece(path.encode(), data, 0, sha256(data).hexdigest(), run)
