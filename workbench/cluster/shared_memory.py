"""A folder in this host's shared memory for the segments of one world.

Open MPI leaves its segments behind when a rank is killed. In a folder of the world they can be
removed once its processes have ended.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_SETTINGS = ("btl_sm", "osc_sm", "osc_rdma")


def segment_folder(mark: str) -> Path:
    """Return the folder of the world with this mark, which may not exist."""
    return SHARED_MEMORY / f"workbench-{os.geteuid()}-{mark}"


def left_marks(cluster: str) -> list[str]:
    """Return the marks of a cluster's worlds that have a folder.

    Args:
        cluster: The part of a mark that names the cluster.
    """
    paths = SHARED_MEMORY.glob(f"{segment_folder(cluster).name}.*")
    return sorted(path.name.removeprefix(segment_folder("").name) for path in paths)


def segment_settings(mark: str) -> dict[str, str]:
    """Create a world's folder, and return the variables that make Open MPI use it.

    Empty where there is no shared memory, or where another user has made a folder of this name.
    """
    folder = segment_folder(mark)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return {}
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        return {}
    return {f"OMPI_MCA_{name}_backing_directory": str(folder) for name in _SETTINGS}


def remove_segments(mark: str) -> None:
    """Remove a world's folder, if it exists, after the world's processes have ended."""
    if mark:
        shutil.rmtree(segment_folder(mark), ignore_errors=True)
