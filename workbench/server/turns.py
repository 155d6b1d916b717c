"""Give the pages that save a notebook their turns, so that no two do so at the same moment.

A page looks at the file before it saves. Two that look and save at once would each find the other's
file changed a moment later, and ask the person about it.
"""

from __future__ import annotations

from dataclasses import dataclass

TURN_SECONDS = 30.0  # a page that is gone does not hold up others for longer


@dataclass(frozen=True)
class Turn:
    """Whose turn it is, and until when at most."""

    holder: str
    until: float


class Turns:
    """Who may save which notebook; moments are in seconds, of any clock."""

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}

    def __repr__(self) -> str:
        return f"<Turns at {len(self._turns)} notebooks>"

    def take(self, holder: str, path: str, now: float) -> bool:
        """Return whether it is ``holder``'s turn at the notebook; it is, if it is nobody else's."""
        self._turns = {path: turn for path, turn in self._turns.items() if turn.until > now}
        turn = self._turns.setdefault(path, Turn(holder, now + TURN_SECONDS))
        return turn.holder == holder

    def end(self, holder: str) -> None:
        """End all turns of ``holder``."""
        self._turns = {path: turn for path, turn in self._turns.items() if turn.holder != holder}
