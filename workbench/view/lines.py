"""Join the output of ranks into lines, as a terminal shows them."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-9;?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


class LineReader:
    """Splits the output of one rank into lines."""

    def __init__(self) -> None:
        self._partial = ""

    def feed(self, text: str, limit: int) -> list[str]:
        """Add a piece of output and return the lines that it completes.

        Args:
            limit: Number of newest characters kept of an unfinished line.
        """
        *whole, partial = (self._partial + text).split("\n")
        self._partial = _last_stage(partial)[-limit:]
        return [render_line(line) for line in whole]

    @property
    def partial(self) -> str:
        """The unfinished line."""
        return render_line(self._partial) if self._partial else ""


def render_line(line: str) -> str:
    """Return what a terminal shows of ``line``: the last state of a progress bar, no colours."""
    return _ESCAPES.sub("", _last_stage(line))


def _last_stage(line: str) -> str:
    """Return the text after the last carriage return that has text after it."""
    end = len(line.rstrip("\r"))
    return line[line.rfind("\r", 0, end) + 1 :]
