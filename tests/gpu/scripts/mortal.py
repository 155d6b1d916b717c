"""How the last rank of these trainings ends itself once."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def find_snapshots() -> set[Path]:
    """Return what is complete of all runs."""
    return {*Path(os.environ["WORKBENCH_HOME"]).glob("runs/*/snapshots/*/manifest.json")}


BEFORE = find_snapshots()


def end_once(files: list[str]) -> None:
    """End this process if a snapshot was saved from which the training continues.

    Args:
        files: Without one, the process lives on. So does it where the file is there, which it
            leaves.
    """
    if files and not Path(files[0]).exists() and find_snapshots() - BEFORE:
        Path(files[0]).touch()
        os.kill(os.getpid(), signal.SIGKILL)
