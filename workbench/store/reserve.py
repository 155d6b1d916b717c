"""Reserve some space beside the store, to be released when the disk is full."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from workbench.errors import StoreFull

RESERVE_NAME = "reserve"
RESERVE_NBYTES = 1 << 20
# A disk with less free space than this many times the reserve gets none.
AMPLE = 8
PIECE_NBYTES = 64 << 10

_T = TypeVar("_T")


def keep_reserve(store: Path) -> None:
    """Create the reserve beside ``store`` unless it exists, or the disk has little room."""
    path = store.with_name(RESERVE_NAME)
    with contextlib.suppress(OSError):
        room = shutil.disk_usage(store.parent).free
        if not path.exists() and room >= AMPLE * RESERVE_NBYTES:
            _fill(path)


def give_up_reserve(store: Path) -> bool:
    """Delete the reserve; return whether there was one."""
    try:
        store.with_name(RESERVE_NAME).unlink()
    except OSError:
        return False
    return True


def take_back_reserve(store: Path) -> None:
    """Create the reserve again, as large as the free space allows."""
    with contextlib.suppress(OSError):
        _fill(store.with_name(RESERVE_NAME))


def with_reserve(store: Path, act: Callable[[], _T]) -> _T:
    """Call ``act``; release the reserve and call it again if the disk is full.

    Raises:
        StoreFull: The reserve was too small, or is used already.
    """
    try:
        return act()
    except StoreFull:
        if not give_up_reserve(store):
            raise
        return act()


def _fill(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "wb", buffering=0) as file:
        for _ in range(RESERVE_NBYTES // PIECE_NBYTES):
            # Zeros would take no space on a disk that compresses.
            file.write(os.urandom(PIECE_NBYTES))
