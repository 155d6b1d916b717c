"""The supervisor's side of a node's agent: one for each session, for all that is done there."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from workbench.core.node.agent_protocol import AgentRequest, decode_from_node
from workbench.core.node.frames import GREETING
from workbench.core.quote import one_line
from workbench.core.world.remote import RemoteProcess, Session, python_of
from workbench.errors import HostLost, MachineError, ProtocolError
from workbench.node.stream import Call, Stream, StreamBroken, StreamLost

log = logging.getLogger(__name__)

AGENT = ("-m", "workbench.node.agent")


class NodeAgent:
    """The agent process on one node.

    Args:
        process: The running ``workbench.node.agent`` there.

    Attributes:
        is_heard: Whether anything has come from it.
    """

    def __init__(self, session: Session, process: RemoteProcess) -> None:
        self._session, self._process = session, process
        self.is_heard = False
        self._stream = Stream(process.write, decode_from_node, GREETING)
        process.listen(self._hear)

    def __repr__(self) -> str:
        return f"<NodeAgent of {self._session.host.address}: {self.lost or 'open'}>"

    @property
    def session(self) -> Session:
        """The session with the node."""
        return self._session

    @property
    def lost(self) -> str:
        """Why nothing more is heard of it, in one sentence; empty while it answers."""
        if not self._session.is_open and not self._stream.lost:
            self._stream.close(StreamLost("the session with it was lost"))
        return self._stream.lost

    def call(self, request: AgentRequest) -> Call:
        """Open a call; see ``Call`` for what comes of it.

        Raises:
            StreamLost: The agent is gone.
        """
        return self._stream.call(request)

    def ask(self, request: AgentRequest, seconds: float) -> Any:
        """Return the reply to a request.

        Raises:
            MachineError: The agent is gone, could not do it, or took longer than ``seconds``.
        """
        call = self.call(request)
        try:
            return call.result(seconds)
        finally:
            call.cancel()

    def end(self, *, force: bool = False) -> None:
        """End the process; another is started when the node is needed."""
        self._stream.close(StreamLost("its agent was ended"))
        self._process.end(force=force)

    def _hear(self, data: bytes) -> None:
        if not data:
            why = self._process.errors.strip().rpartition("\n")[2]
            why = f"its agent ended ({why})" if why else "its agent ended"
            self._stream.close(StreamLost(why))
            return
        if self._stream.lost:
            return
        self.is_heard = True
        try:
            self._stream.feed(data)
        except ProtocolError as error:
            self._stream.close(StreamBroken(str(error).rstrip(".")))
            self._process.end(force=True)


_AGENTS: dict[Session, NodeAgent] = {}
_LOCKS: defaultdict[Session, threading.Lock] = defaultdict(threading.Lock)
_LOCK = threading.Lock()


def agent_of(session: Session) -> NodeAgent:
    """Return the agent of a session's node; starts one if there is none, or it has ended.

    Raises:
        MachineError: The session is lost.
    """
    with _LOCK:
        for closed in [one for one in _AGENTS if not one.is_open]:
            del _AGENTS[closed]
            _LOCKS.pop(closed, None)
        lock = _LOCKS[session]
    with lock:
        known = _AGENTS.get(session)
        if known is None or known.lost:
            command = [python_of(session), *AGENT]
            known = _AGENTS[session] = NodeAgent(session, session.start(command))
        return known


_PASSED_OVER: dict[tuple[str, str], str] = {}
"""What was last said of an address and a purpose."""


@contextlib.contextmanager
def pass_over(session: Session, lacking: str) -> Iterator[None]:
    """Suppress an error of a node, and log it once, unless the node is out of reach.

    Args:
        lacking: What there is without it, or will be later; a clause.
    """
    try:
        yield
    except MachineError as error:
        if isinstance(error, HostLost) or not session.is_open:
            return
        address = session.host.address
        why = one_line(str(error)).rstrip(".").removeprefix(f"{address}: ")
        if _PASSED_OVER.get((address, lacking)) != why:
            _PASSED_OVER[address, lacking] = why
            log.warning("%s: %s; %s.", address, why, lacking)


def end_agent(session: Session) -> None:
    """End the agent of a session's node, if there is one."""
    known = _AGENTS.get(session)
    if known is not None:
        known.end()
