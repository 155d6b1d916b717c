"""Find the folder that holds the store, the runs and the clusters' logs."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from workbench.errors import MachineError


def home_path() -> Path:
    """Return where the data directory is, or would be; ``WORKBENCH_HOME`` moves it."""
    path = os.environ.get("WORKBENCH_HOME") or platformdirs.user_data_dir("workbench")
    return Path(path).absolute()


def home_directory() -> Path:
    """Return the data directory, made if need be.

    Raises:
        MachineError: It cannot be created or written.
    """
    return _made(home_path())


def run_directory(run: str) -> Path:
    """Return the folder of ``run``, without creating it."""
    return home_directory() / "runs" / run


def cluster_directory(cluster: str) -> Path:
    """Return the folder of ``cluster``, made if need be, readable by its owner alone.

    Raises:
        MachineError: It cannot be created.
    """
    return _made(home_directory() / "clusters" / cluster)


def _made(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise MachineError(
            f"The data directory {path} cannot be created ({error.strerror}); "
            "set WORKBENCH_HOME to a folder that you may write."
        ) from error
    return path
