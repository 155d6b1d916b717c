"""End this node when its lease has expired; run as ``python -m workbench.node.lease``.

A lease is a process of its own that outlives every session. It needs no right but that of running
its command. Started again for the same cluster it replaces the one before, so that a deadline or a
command can be changed. Times are of a monotonic clock that counts on while the node is suspended,
so setting the wall clock ends no node and postpones no end. The seconds until ``--expires``, which
is wall-clock time, are counted once, when the lease starts; where the wall clock was wrong then,
the supervisor still renews the lease only until its own deadline.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from workbench.core.cluster.model import check_cluster_name
from workbench.errors import InputError, MachineError, WorkbenchError

SHUTDOWN = "shutdown -h now"
LOOK_SECONDS = 1.0
# A command that failed, or that did not end the node, is repeated.
AGAIN_SECONDS = 30.0
END_SECONDS = 0.5


@dataclass(frozen=True)
class LeaseHolder:
    """The process that holds the lease; written only by one that starts.

    Args:
        token: Identifies the process; empty once the lease was released.
        boot: The boot that its times count from.
        command: What ends the node; empty where only processes are to end.
        expires: Epoch seconds at which it ends the node even if it is renewed; 0 for never.
    """

    token: str
    boot: str
    command: str
    expires: float


@dataclass(frozen=True)
class Lease:
    """The files of one cluster's lease on this node."""

    folder: Path
    cluster: str

    @property
    def holder_file(self) -> Path:
        """The file that has the process that holds the lease, and its command."""
        return self.folder / f"lease-{check_cluster_name(self.cluster)}.json"

    @property
    def until_file(self) -> Path:
        """The file that has the moment of expiry; renewing writes this file alone."""
        return self.holder_file.with_suffix(".until")

    def renew(self, seconds: float) -> None:
        """Let the lease run ``seconds`` from now.

        Raises:
            MachineError: There is no lease, or its file cannot be written.
        """
        try:
            holder = self.holder()
            if holder is None or not holder.token or holder.boot != _boot():
                raise MachineError(
                    f"No lease of the cluster {self.cluster} is in {self.folder}",
                    "start one there with `python -m workbench.node.lease`.",
                )
            _write(self.until_file, json.dumps([_boot(), _steady() + seconds]))
        except OSError as error:
            raise MachineError(
                f"The lease in {self.folder} cannot be renewed ({error.strerror})",
                "give the folder to the user who logs in.",
            ) from error

    def release(self) -> None:
        """End the lease; the node keeps running."""
        if self.folder.is_dir():
            _write(self.holder_file, json.dumps(asdict(LeaseHolder("", _boot(), "", 0.0))))

    def holder(self) -> LeaseHolder | None:
        """Return which process holds the lease; None if the file cannot be read."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            return LeaseHolder(**json.loads(self.holder_file.read_text()))
        return None

    def until(self) -> float | None:
        """Return the moment of expiry; None if the file cannot be read."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            boot, moment = json.loads(self.until_file.read_text())
            return float(moment) if boot == _boot() else None
        return None


def take(lease: Lease, seconds: float, command: str | None, expires: float) -> LeaseHolder:
    """Become the holder of the lease; the previous process notices it and ends.

    Args:
        command: What ends the node; None where only processes are to end.

    Raises:
        InputError: The command is empty.
        MachineError: The files cannot be written.
    """
    if command is not None and not shlex.split(command):
        raise InputError("A lease's command must not be empty", "leave it out for a shutdown.")
    holder = LeaseHolder(secrets.token_hex(8), _boot(), command or "", expires)
    try:
        lease.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(lease.until_file, json.dumps([_boot(), _steady() + seconds]))
        _write(lease.holder_file, json.dumps(asdict(holder)))
    except OSError as error:
        raise MachineError(
            f"A lease cannot be kept in {lease.folder} ({error.strerror})", "name another folder."
        ) from error
    return holder


def hold(lease: Lease, mine: LeaseHolder, until: float, last: float) -> None:
    """Wait until the lease expires, then run its command until the node ends.

    Losing its files does not stop it: a paid node must end rather than stay.

    Args:
        until: The moment of expiry if its file is lost.
        last: The moment at which it expires even if it is renewed.
    """
    while (lease.holder() or mine).token == mine.token:
        until = lease.until() or until
        left = min(until, last) - _steady()
        if left <= 0 and not mine.command:
            end_processes()
            return
        if left <= 0:
            _run(mine.command)
            time.sleep(AGAIN_SECONDS)
        else:
            time.sleep(min(left, LOOK_SECONDS))


def end_processes() -> None:
    """End all other processes of this environment, with those below them, and return then."""
    own = f"{Path(sys.executable).parent}/"
    above = {process.pid for process in psutil.Process().parents()}
    first = True
    while found := [one for one in _list_processes(own) if one.pid not in (os.getpid(), *above)]:
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGTERM if first else signal.SIGKILL)
        first = False
        time.sleep(END_SECONDS)


def _list_processes(own: str) -> set[psutil.Process]:
    """Return the living processes of a folder's programs, and those below them."""
    found = set[psutil.Process]()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(word.startswith(own) for word in process.cmdline()):
                found |= {process, *process.children(recursive=True)}
    return {one for one in found if one.is_running()}


def main() -> int:
    """Start the lease in a process of its own, and return once it is held."""
    parser = argparse.ArgumentParser(prog="python -m workbench.node.lease", description=__doc__)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--seconds", type=float, default=600.0, help="until it is first renewed")
    parser.add_argument("--command", default=SHUTDOWN, help=f"what ends the node ({SHUTDOWN})")
    parser.add_argument("--expires", type=float, default=0.0, help="epoch seconds; 0 for never")
    parser.add_argument("--folder", type=Path, default=usual_folder())
    parser.add_argument("--spare-machine", action="store_true",
                        help="end the processes of this environment, not the node")  # fmt: skip
    parser.add_argument("--end", action="store_true", help="end these processes now")
    parser.add_argument("--release", action="store_true", help="end the lease, not the node")
    options = parser.parse_args()
    try:
        lease = Lease(options.folder.expanduser().absolute(), check_cluster_name(options.cluster))
        if options.release or options.end:
            lease.release()
            if options.end:
                end_processes()
            return 0
        command = None if options.spare_machine else options.command
        holder = take(lease, options.seconds, command, options.expires)
    except WorkbenchError as error:
        print(error, file=sys.stderr)
        return 1
    # Read before the forks, after which the wall clock may be set.
    last = _steady() + holder.expires - time.time() if holder.expires else math.inf
    _detach(lease, holder, _steady() + options.seconds, last)
    return 0


def usual_folder() -> Path:
    """Return the default folder for the state of leases."""
    return Path.home() / ".local" / "state" / "workbench"


def _detach(lease: Lease, holder: LeaseHolder, until: float, last: float) -> None:
    """Hold the lease in a daemon process, which the end of the session does not reach."""
    log = os.open(
        lease.holder_file.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
    )
    sys.stdout.flush()
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, number)
    os.closerange(3, max(log, nothing) + 1)
    with contextlib.suppress(KeyboardInterrupt):
        hold(lease, holder, until, last)
    os._exit(0)


def _run(command: str) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{stamp} not renewed: {command}", flush=True)
    try:
        subprocess.run(shlex.split(command), stdin=subprocess.DEVNULL, check=False)
    except (OSError, ValueError) as error:
        print(f"{stamp} {error}", flush=True)


def _steady() -> float:
    """Return seconds since the node was booted, including those in suspension."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _boot() -> str:
    """Return the id of this boot; monotonic clocks count from it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _write(path: Path, text: str) -> None:
    """Write a file atomically, readable by the folder's owner alone."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    os.replace(new, path)


if __name__ == "__main__":
    sys.exit(main())
