"""The files of the data directory: their paths, and who may read them."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from workbench.errors import MachineError

FILE_NAME = "store.sqlite3"
OWNER_NAME = "owner"
ELSEWHERE_NAME = "elsewhere"
"""The provider that runs supervisors on another machine, and what it notes of that machine."""
KEPT_VARIABLE = "WORKBENCH_KEPT"
"""Set for commands that start no supervisor: another process of this machine keeps them awake."""
# In a cluster's folder: the private key for its rented nodes, and the host keys of these.
KEY_NAME = "key"
HOST_KEYS_NAME = "host_keys.json"
# Those that a person has confirmed.
KNOWN_HOSTS_NAME = "known_hosts"


def home_path() -> Path:
    """Return the path of the data directory, which ``WORKBENCH_HOME`` sets; it may not exist."""
    path = os.environ.get("WORKBENCH_HOME") or platformdirs.user_data_dir("workbench")
    return Path(path).absolute()


def home_directory() -> Path:
    """Return the data directory, created if necessary, with access for its owner alone.

    Raises:
        MachineError: It cannot be created, has another owner, or its permissions cannot be set.
    """
    return _close_folder(_make_folder(home_path()))


def run_directory(run: str) -> Path:
    """Return the folder of ``run``, which may not exist."""
    return home_directory() / "runs" / run


def snapshot_directory(run: str) -> Path:
    """Return the folder of the snapshots that ranks on this machine save; it may not exist."""
    return run_directory(run) / "snapshots"


def cluster_directory(cluster: str) -> Path:
    """Return the folder of ``cluster``, created if necessary, with access for its owner alone.

    Raises:
        MachineError: It cannot be created.
    """
    return _make_folder(home_directory() / "clusters" / cluster)


def owner_id() -> str:
    """Return the id that marks resources of this data directory in a shared account.

    It is random, is created once, and does not identify the person.

    Raises:
        MachineError: It cannot be written.
    """
    path = home_directory() / OWNER_NAME
    try:
        if not path.exists():
            new = path.with_name(f".{OWNER_NAME}.{os.getpid()}")
            with open(new, "w", encoding="ascii", opener=owners_only) as file:
                file.write(f"{secrets.token_hex(4)}\n")
            # Of two processes that create it at once, the first one wins.
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
            new.unlink()
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise MachineError(
            f"{path} cannot be written ({error.strerror})",
            "make room, or correct its permissions.",
        ) from error


def owners_only(path: str, flags: int) -> int:
    """Open a file with access for its owner alone; an opener for ``open``."""
    return os.open(path, flags, 0o600)


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, with access for its owner alone.

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
            f"{path} cannot be written ({error.strerror})", "make room, or correct its permissions."
        ) from error


def account_name(uid: int) -> str:
    """Return the name of a user of this machine."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _make_folder(path: Path) -> Path:
    try:
        # The parents one by one: with ``parents=True`` their mode would be that of the umask.
        for folder in (*reversed(path.parents), path):
            if not folder.exists():
                folder.mkdir(exist_ok=True, mode=0o700)
        path.mkdir(exist_ok=True)  # the path may be a file
    except OSError as error:
        raise MachineError(
            f"The data directory {path} cannot be created ({error.strerror})",
            "set WORKBENCH_HOME to a folder that you may write.",
        ) from error
    return path


def _close_folder(home: Path) -> Path:
    """Remove the access of other users to a folder: it has keys and the output of ranks."""
    found = home.stat()
    if found.st_uid != os.geteuid():
        raise MachineError(
            f"The data directory {home} belongs to {account_name(found.st_uid)}, not to "
            f"{account_name(os.geteuid())}, who could read keys and results there",
            "set WORKBENCH_HOME to a folder of your own.",
        )
    if found.st_mode & 0o077:
        with contextlib.suppress(OSError):
            home.chmod(found.st_mode & 0o7700 | 0o700)
        if home.stat().st_mode & 0o077:
            raise MachineError(
                f"The data directory {home} is open to others, and its disk keeps it so",
                "set WORKBENCH_HOME to a folder that only you may read.",
            )
    return home


def trusted_lines(cluster: str) -> tuple[str, ...]:
    """Return the confirmed lines of known_hosts for ``cluster``."""
    try:
        text = (cluster_directory(cluster) / KNOWN_HOSTS_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return tuple(filter(None, text.splitlines()))


def trust(cluster: str, lines: Iterable[str]) -> None:
    """Store confirmed lines of known_hosts; a new line replaces that of the same host.

    Raises:
        MachineError: They cannot be written.
    """
    kept = {line.split()[0]: line for line in (*trusted_lines(cluster), *lines)}
    text = "".join(f"{line}\n" for line in kept.values())
    write_private(cluster_directory(cluster) / KNOWN_HOSTS_NAME, text)
