"""Select the lines of a supervisor's log that the user should see."""

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


class LogFilter:
    """Filters the lines of a log.

    Args:
        least: The lowest level to show; ``debug`` also shows records of libraries.
    """

    def __init__(self, least: str = "info") -> None:
        self._least = LEVELS.index(least)
        self._shown = True

    def line(self, line: str) -> str | None:
        """Return a line as shown to the user; None if it is not shown.

        A line without a record's prefix belongs to the record before it.
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
    """Return the rank of a record's level; of libraries, only errors count."""
    place = min(LEVELS.index(level.lower()), 3) if level.lower() in LEVELS else 3
    return place if _is_own(name) or place == 3 else 0


def _is_own(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == OWN
