"""Let one machine alone use a store on a shared disk.

SQLite's locks cannot be relied on between machines, so the first one that comes writes its name
beside the store, and every other is refused.
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
    """What tells one machine from another.

    Args:
        id: Of its installation; copies of a virtual machine may share it.
        boot: Of the kernel that runs; containers on one machine share it.
    """

    name: str
    id: str
    boot: str

    def is_same(self, other: ClaimingMachine) -> bool:
        """Whether locks of the one are seen by the other."""
        if self.boot and self.boot == other.boot:
            return True
        return bool(self.id) and (self.id, self.name) == (other.id, other.name)


def this_machine() -> ClaimingMachine:
    """Return this machine."""
    return ClaimingMachine(socket.gethostname(), _first_line(_MACHINE_ID), _first_line(_BOOT_ID))


def claim(folder: Path, mount: Mount, machine: ClaimingMachine) -> None:
    """Take ``folder`` for ``machine``, or see that it is its own already.

    Args:
        folder: Where the store is.
        mount: What that lies on.
        machine: The one that asks.

    Raises:
        MachineError: Another machine has it.
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
        pass  # of two that come at once, the first one has it
    except OSError:  # a file system without links
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
    return _written(path) or machine


def _renew(path: Path, machine: ClaimingMachine) -> None:
    with contextlib.suppress(OSError):  # a full disk; the old one will do
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
