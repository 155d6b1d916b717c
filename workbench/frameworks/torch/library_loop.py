"""Loops that a library brings, such as Hugging Face's Trainer, and their own checkpoints."""

from __future__ import annotations

import sys
from pathlib import Path


def remark_ranks(folder: str, files: str, ranks: int) -> None:
    """Say that a checkpoint of a library's own is of another number of ranks.

    Args:
        files: Pattern of the files that it has for each rank.
        ranks: Those that load it.
    """
    path = Path(folder)
    if (saved := len([*path.glob(files)])) in (0, ranks):
        return
    print(
        f"workbench: {path.name} was saved on {_count(saved)} and is loaded on {ranks}. The place "
        "in the epoch is counted in steps of all ranks, so examples may be visited twice or not at "
        f"all: continue on {_count(saved)}, or keep the batch of all ranks.",
        file=sys.stderr,
        flush=True,
    )


def _count(ranks: int) -> str:
    return f"{ranks} rank{'s' * (ranks != 1)}"
