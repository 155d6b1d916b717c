"""Find out whether nodes that do not answer are lost, by asking the others."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from workbench.cluster.node_agent import agent_of
from workbench.core.node.agent_protocol import NodeTried, TryNode
from workbench.core.world.absence import Absence, why_lost
from workbench.core.world.known_hosts import SSH_PORT
from workbench.core.world.remote import Session
from workbench.errors import MachineError
from workbench.node.stream import Call

AGAIN_SECONDS = 2.0


class NodeReach:
    """Follows the nodes of worlds. No method waits.

    Args:
        patience: Returns the seconds that a node's ranks wait for this computer.
    """

    def __init__(
        self, patience: Callable[[], float], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience = patience
        self._now = now
        self._absences: dict[str, Absence] = {}
        self._calls: dict[tuple[str, str], Call] = {}
        self._asked: dict[tuple[str, str], float] = {}

    def __repr__(self) -> str:
        return f"<NodeReach: {len(self._absences)} nodes do not answer>"

    def look(self, sessions: Mapping[str, Session]) -> dict[str, str]:
        """Return which nodes are lost, and why, as clauses.

        Args:
            sessions: With all nodes, by their addresses for each other.
        """
        now = self._now()
        there = {where for where, one in sessions.items() if one.is_open and not one.is_silent}
        for where in self._absences.keys() & there:
            del self._absences[where]
        self._calls = {
            (where, other): call
            for (where, other), call in self._calls.items()
            if where in self._absences and other in there
        }
        found = {}
        for where in sessions.keys() - there:
            absence = self._update(where, sessions, there, now)
            self._absences[where] = absence
            if why := why_lost(absence, self._patience(), now):
                found[where] = why
        return found

    def _update(
        self, where: str, sessions: Mapping[str, Session], there: set[str], now: float
    ) -> Absence:
        before = self._absences.get(where) or Absence(now)
        answers: dict[str, bool | None] = {}
        for other in there:
            key = where, other
            answers[other] = before.answers.get(other)
            call = self._calls.get(key)
            if call is not None and call.is_over:
                del self._calls[key]
                if isinstance(call.reply, NodeTried):
                    answers[other] = call.reply.answers
            if (
                key not in self._calls
                and now - self._asked.get(key, -AGAIN_SECONDS) >= AGAIN_SECONDS
            ):
                self._asked[key] = now
                port = sessions[where].host.port or SSH_PORT
                with contextlib.suppress(MachineError):
                    self._calls[key] = agent_of(sessions[other]).call(TryNode(where, port))
        closed = before.closed if sessions[where].is_open else min(before.closed, now)
        return replace(before, closed=closed, answers=answers)
