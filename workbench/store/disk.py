"""Return the mount, the free space and the use of a folder's disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from workbench.core.node.disks import FULL_NBYTES, Disk, Mount, mount_of

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
