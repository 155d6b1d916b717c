"""Find the folder that holds the store, the runs and the clusters' logs."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

import platformdirs

from workbench.errors import MachineError

OWNER_NAME = "owner"
# In a cluster's folder: the private key that opens its rented nodes, and the keys that they show.
KEY_NAME = "key"
HOST_KEYS_NAME = "host_keys.json"


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


def owner_id() -> str:
    """Return what tells this data directory's clusters from those of others in one account.

    Random, and made once: it says nothing of the person.

    Raises:
        MachineError: It cannot be kept.
    """
    path = home_directory() / OWNER_NAME
    try:
        if not path.exists():
            new = path.with_name(f".{OWNER_NAME}.{os.getpid()}")
            new.write_text(f"{secrets.token_hex(4)}\n", encoding="ascii")
            # Of two that make it at once, the first one counts.
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
            new.unlink()
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise MachineError(
            f"{path} cannot be kept ({error.strerror}); make room, or mend its permissions."
        ) from error


def write_private(path: Path, text: str) -> None:
    """Put a file in place whole, for its owner alone.

    Raises:
        MachineError: It cannot be written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, path)
    except OSError as error:
        raise MachineError(
            f"{path} cannot be written ({error.strerror}); make room, or mend its permissions."
        ) from error


def _made(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise MachineError(
            f"The data directory {path} cannot be created ({error.strerror}); "
            "set WORKBENCH_HOME to a folder that you may write."
        ) from error
    return path
