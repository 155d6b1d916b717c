"""What stays when a training moves to another number of ranks: the batch of all, or of each."""

from __future__ import annotations

import difflib

from workbench.errors import InputError

BATCH_VARIABLE = "WORKBENCH_BATCH"
GLOBAL = "global"
PER_RANK = "per-rank"
BATCHES = (GLOBAL, PER_RANK)


def check_batch(name: str) -> str:
    """Return ``name`` if it is valid.

    Raises:
        InputError: There is no such choice.
    """
    if name in BATCHES:
        return name
    close = difflib.get_close_matches(name, BATCHES, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(BATCHES)}."
    raise InputError(f"There is no batch {name!r} to keep", hint)


def batch_environment(name: str | None) -> tuple[tuple[str, str], ...]:
    """Return the environment variables with the choice for a run's ranks.

    Raises:
        InputError: There is no such choice.
    """
    return () if name is None else ((BATCH_VARIABLE, check_batch(name)),)
