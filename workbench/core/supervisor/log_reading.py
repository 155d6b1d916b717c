"""Select the lines of a supervisor's log that matter to a person."""

from __future__ import annotations

import re

OWN = "workbench"
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LEVELS = ("debug", "info", "warning", "error")
_RECORD = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[,.]\d+)? "
    r"(?P<level>[A-Z]+) (?P<name>[\w.]*): (?P<text>.*)"
)
_SAID = {"WARNING": "Warning: ", "ERROR": "Error: ", "CRITICAL": "Error: "}


class Telling:
    """Goes through the lines of a log.

    Args:
        least: The lowest level that is shown; ``debug`` shows what libraries logged, too.
    """

    def __init__(self, least: str = "info") -> None:
        self._least = LEVELS.index(least)
        self._shown = True

    def line(self, line: str) -> str | None:
        """Return a line as a person reads it; None for one that is not shown.

        A line that begins no record belongs to the one before.
        """
        found = _RECORD.fullmatch(line)
        if found is None:
            return f"  {line}" if self._shown else None
        level, name, text = found["level"], found["name"], found["text"]
        self._shown = _weight(level, name) >= self._least
        if not self._shown:
            return None
        library = "" if _is_own(name) else f"{name.rstrip('.')}: "
        return f"{found['at']}  {_SAID.get(level, '')}{library}{text}"


def _weight(level: str, name: str) -> int:
    """Return a record's place among the levels; what a library says counts from its errors on."""
    place = min(LEVELS.index(level.lower()), 3) if level.lower() in LEVELS else 3
    return place if _is_own(name) or place == 3 else 0


def _is_own(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == OWN
