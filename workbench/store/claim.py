"""Reserve a store on a shared disk for one machine.

SQLite's locks are not reliable between machines. So the first machine that opens the store writes
its name beside it, and every other machine gets an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from workbench.core.node.disks import Mount
from workbench.errors import MachineError

CLAIM_NAME = "machine"
_MACHINE_ID = Path("/etc/machine-id")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class ClaimingMachine:
    """The identity of a machine that uses a store.

    Args:
        id: Id of the installation; copies of a virtual machine may have the same.
        boot: Id of the kernel's boot; containers on one machine have the same.
    """

    name: str
    id: str
    boot: str

    def is_same(self, other: ClaimingMachine) -> bool:
        """Return whether both machines see each other's file locks."""
        if self.boot and self.boot == other.boot:
            return True
        return bool(self.id) and (self.id, self.name) == (other.id, other.name)


def this_machine() -> ClaimingMachine:
    """Return this machine."""
    return ClaimingMachine(socket.gethostname(), _first_line(_MACHINE_ID), _first_line(_BOOT_ID))


def claim(folder: Path, mount: Mount, machine: ClaimingMachine) -> None:
    """Reserve ``folder`` for ``machine``, or check that it has it already.

    Args:
        folder: The folder of the store.
        mount: The mount that the folder is on.
        machine: The machine that opens the store.

    Raises:
        MachineError: Another machine uses the store.
    """
    path = folder / CLAIM_NAME
    try:
        owner = _written(path) or _write(path, machine)
    except OSError as error:
        raise MachineError(
            f"{path} cannot be kept ({error.strerror})", "make room, or correct its permissions."
        ) from error
    if owner.is_same(machine):
        if owner.boot != machine.boot:
            _renew(path, machine)
        return
    raise MachineError(
        f"The data directory {folder} is on a disk that machines share ({mount.kind}), and "
        f"{owner.name} uses it: two machines would destroy the store",
        f"set WORKBENCH_HOME to a "
        f"folder of {machine.name} itself, or remove {path} if {owner.name} uses it no longer.",
    )


def _written(path: Path) -> ClaimingMachine | None:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return ClaimingMachine(*(str(values[name]) for name in ("name", "id", "boot")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        return ClaimingMachine(f"a machine that left {path.name!r} unreadable", "", "")


def _write(path: Path, machine: ClaimingMachine) -> ClaimingMachine:
    new = _new(path, machine)
    try:
        os.link(new, path)
    except FileExistsError:
        pass  # if two machines do this at once, the first one wins
    except OSError:  # a file system without hard links
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
    return _written(path) or machine


def _renew(path: Path, machine: ClaimingMachine) -> None:
    with contextlib.suppress(OSError):  # a full disk; the old file is still valid
        os.replace(_new(path, machine), path)


def _new(path: Path, machine: ClaimingMachine) -> Path:
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(asdict(machine), file)
    return new


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
