"""The form of a run's id, which also names its folder."""

from __future__ import annotations

import re

_ID = re.compile(r"[0-9]{6}-[0-9]{6}-[a-z2-7]{4}")


def is_run_id(text: str) -> bool:
    """Return whether ``text`` has the form of a run id (and so cannot leave its folder)."""
    return bool(_ID.fullmatch(text))
