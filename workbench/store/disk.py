"""The disk of a folder: its mount, its space, and what is reserved of it for the store."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from workbench.core.node.disks import FULL_NBYTES, Disk, Mount, mount_of
from workbench.errors import StoreFull

RESERVE_NAME = "reserve"
RESERVE_NBYTES = 1 << 20
# A disk with less free space than this many times the reserve gets none.
AMPLE = 8
PIECE_NBYTES = 64 << 10

_T = TypeVar("_T")

MOUNTS = Path("/proc/self/mountinfo")


def mount_under(path: Path) -> Mount:
    """Return the mount of ``path``, which need not exist; an unknown mount if there is none."""
    try:
        text = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # another system than Linux
        text = ""
    return mount_of(str(path.resolve()), text)


def disk_under(path: Path) -> Disk:
    """Return the disk that ``path``, which need not exist, lies on."""
    existing = next(place for place in (path, *path.parents) if place.exists())
    usage = shutil.disk_usage(existing)
    return Disk(mount_under(existing), usage.total, usage.free)


def full_disk(path: Path) -> str:
    """Return a sentence if the disk of ``path`` is full, else an empty text."""
    try:
        if shutil.disk_usage(path.parent).free >= FULL_NBYTES:
            return ""
        disk = disk_under(path)
    except OSError:
        return ""
    return (
        f"The disk of {path.parent} is full: {disk}. Nothing new is stored until there is room; "
        "ranks continue, and keep what they have to report."
    )


def used_nbytes(folder: Path) -> int:
    """Return the total size of a folder's files in bytes, without following links."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except OSError:
                continue  # it was deleted meanwhile
    return total


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
