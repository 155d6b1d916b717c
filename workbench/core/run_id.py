"""The form of a run's id, which also names its folder, and of the ids of its executions."""

from __future__ import annotations

import re

_ID = re.compile(r"[0-9]{6}-[0-9]{6}-[a-z2-7]{4}")
EXECUTION_PATTERN = rf"\A{_ID.pattern}(\.([2-9]|[1-9][0-9]{{1,5}}))?\Z"
NO_RUN = "000000-000000-none"
"""In place of an id, where a rank is asked what it executes beside runs."""
_MORE = re.compile(r"\.([1-9][0-9]{0,5})")


def is_run_id(text: str) -> bool:
    """Return whether ``text`` has the form of a run id (and so cannot leave its folder)."""
    return bool(_ID.fullmatch(text))


def execution_id(run: str, attempt: int) -> str:
    """Return the id of one attempt of a run: the run's own for the first, ``RUN.2`` for the second.

    Ranks and supervisor use it in their messages, so that those of an earlier attempt are known.
    """
    return run if attempt == 1 else f"{run}.{attempt}"


def run_and_attempt(execution: str) -> tuple[str, int]:
    """Return the run's id and the number of the attempt that an execution's id names."""
    run, dot, number = execution.rpartition(".")
    return (run, int(number)) if dot and _MORE.fullmatch(dot + number) else (execution, 1)
