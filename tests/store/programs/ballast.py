"""Fill the disk of the folder that a program runs in."""

from __future__ import annotations

from pathlib import Path


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return
