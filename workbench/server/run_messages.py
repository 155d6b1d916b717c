"""Rate-limited messages about a run's state."""

from __future__ import annotations

import json
import math
from typing import Any

from workbench.server.run_reader import RunUpdate

RUN_SECONDS = 0.25
STEPS_SECONDS = 1.0
BEAT_SECONDS = 5.0  # a page that receives nothing for longer considers the connection dead

# Fields that change continually without news.
_PASSING = frozenset({"now", "seconds_left", "seconds_taken", "rate"})


class Told:
    """The latest messages about a run, sent or waiting until a connection is clear.

    ``run`` and ``steps`` count the messages; a page with another number lacks the latest.
    """

    def __init__(self) -> None:
        self.ended = False
        self.is_behind = False  # whether a message is held back
        self.run_now: dict[str, Any] = {}
        self.run = self.steps = 0
        self.run_text = self.steps_text = ""
        self._lasting: dict[str, Any] = {}
        self._steps: dict[str, Any] | None = None
        self._run_at = self._steps_at = -math.inf

    def note(self, look: RunUpdate, now: float) -> None:
        """Update with the run's state.

        Args:
            now: Seconds of any clock.
        """
        new_run, new_steps = self._note_run(look, now), self._note_steps(look, now)
        self.is_behind = new_run or new_steps
        self.run_now, self.ended = look.run, look.ended

    def _note_run(self, look: RunUpdate, now: float) -> bool:
        """Return whether a message is held back."""
        lasting = {name: value for name, value in look.run.items() if name not in _PASSING}
        quiet, news = now - self._run_at, lasting != self._lasting
        over = look.run["is_ended"] and not self._lasting.get("is_ended")
        beat = quiet >= BEAT_SECONDS and not look.ended
        if not (over or beat or (news and quiet >= RUN_SECONDS)):
            return news
        self._lasting, self._run_at = lasting, now
        self.run += 1
        self.run_text = as_json({"type": "run", "run": look.run})
        return False

    def _note_steps(self, look: RunUpdate, now: float) -> bool:
        """Return whether a message is held back."""
        if not look.steps or look.steps == self._steps:
            return False
        if now - self._steps_at < STEPS_SECONDS and not look.ended:
            return True
        self._steps, self._steps_at = look.steps, now
        self.steps += 1
        self.steps_text = as_json({"type": "steps", **look.steps})
        return False


def as_json(message: dict[str, Any]) -> str:
    """Return a message as JSON, without ``nan``."""
    return json.dumps(message, allow_nan=False, separators=(",", ":"))
