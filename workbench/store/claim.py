"""Reserve a store on a shared disk for one machine.

SQLite's locks are not reliable between machines. So the first machine that opens the store writes
its name beside it, and touches that file while it uses the store. Every other machine gets an error
until the file has not been touched for a while: the next login node, or the next job of a batch
system, has another name.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from workbench.core.messages import decode
from workbench.core.node.disks import Mount
from workbench.errors import MachineError, ProtocolError, StoreTaken

CLAIM_NAME = "machine"
RENEW_SECONDS = 30.0
# Twenty renewals: a machine that is only busy, or whose file server is, keeps the store.
SILENT_SECONDS = 600.0
SETTLE_SECONDS = 0.2
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
        StoreTaken: Another machine uses the store.
        MachineError: The file cannot be written.
    """
    path = folder / CLAIM_NAME
    try:
        owner = _read_claim(path) or _write(path, machine)
        if owner.is_same(machine):
            _renew(path, owner, machine)
            return
        silence = _silence(path)
        if silence > SILENT_SECONDS and _is_taken_over(path, owner, machine):
            return
    except OSError as error:
        raise MachineError(
            f"{path} cannot be kept ({error.strerror})", "make room, or correct its permissions."
        ) from error
    raise StoreTaken(
        f"The data directory {folder} is on a disk that machines share ({mount.kind}), and "
        f"{owner.name} used it {max(0.0, silence):.0f} s ago: two machines would destroy the store",
        f"delete the clusters and close the notebooks of {owner.name}, after which it is free in "
        f"{SILENT_SECONDS / 60:.0f} minutes, or set WORKBENCH_HOME to a folder of {machine.name} "
        "itself.",
    )


def give_up(folder: Path, name: str) -> None:
    """End the claim of a machine whose processes have ended, so that the next one waits for none.

    Args:
        name: Of the machine; nothing happens to another one's claim.
    """
    path = folder / CLAIM_NAME
    with contextlib.suppress(OSError):
        if (owner := _read_claim(path)) is not None and owner.name == name:
            path.unlink()


class Tenure:
    """Keeps the claim of a store that is open; made once the store is claimed."""

    def __init__(self, folder: Path, mount: Mount, machine: ClaimingMachine) -> None:
        self._folder, self._mount, self._machine = folder, mount, machine
        self._kept = _now()

    def keep(self) -> None:
        """Renew the claim if it is due.

        Raises:
            StoreTaken: Another machine has the store, since this one was silent for too long.
        """
        now = _now()
        if now - self._kept >= RENEW_SECONDS:
            claim(self._folder, self._mount, self._machine)
            self._kept = now


def _now() -> float:
    """Return a time that also counts while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _read_claim(path: Path) -> ClaimingMachine | None:
    try:
        return decode(ClaimingMachine, path.read_bytes())
    except FileNotFoundError:
        return None
    except ProtocolError:
        return ClaimingMachine(f"a machine that left {CLAIM_NAME!r} unreadable", "", "")


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
    return _read_claim(path) or machine


def _renew(path: Path, owner: ClaimingMachine, machine: ClaimingMachine) -> None:
    with contextlib.suppress(OSError):  # a full disk; the old file is still valid
        if owner.boot == machine.boot:
            os.utime(path)
        else:
            os.replace(_new(path, machine), path)


def _silence(path: Path) -> float:
    """Return the seconds since the file was renewed, by the clock of the disk that it is on."""
    probe = _new(path, ClaimingMachine("", "", ""))
    try:
        return probe.stat().st_mtime - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0  # another machine takes it over now
    finally:
        probe.unlink(missing_ok=True)


def _is_taken_over(path: Path, owner: ClaimingMachine, machine: ClaimingMachine) -> bool:
    """Take the place of an owner that is silent; of machines that try at once, one succeeds."""
    old = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.rename(old)
    except FileNotFoundError:
        return False
    try:
        if _read_claim(old) == owner and _silence(old) > SILENT_SECONDS:
            _write(path, machine)
            # One that saw the same silence may move the new file away, and give it back, just now.
            time.sleep(SETTLE_SECONDS)
            return _read_claim(path) == machine
        with contextlib.suppress(OSError):  # it was renewed, or another machine was faster
            os.link(old, path)
        return False
    finally:
        old.unlink(missing_ok=True)


def _new(path: Path, machine: ClaimingMachine) -> Path:
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "wb") as file:
        file.write(msgspec.json.encode(machine))
    return new


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
