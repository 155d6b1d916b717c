"""Process 1 of a rehearsal host: sets up its own file system and name, and keeps them.

Reads one JSON object from standard input, says ``up``, and ends, and the host with it, when
standard input closes or a process of the host asks for the power to be switched off.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

OFF = ("shutdown", "poweroff", "halt", "reboot")
# A host that asks its service manager to end must never reach this machine's.
MANAGERS = ("/run/systemd", "/run/dbus")
ROOT = "root:*:20000:0:99999:7:::"  # sshd refuses logins to locked entries, with "!"


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def make_private(paths: list[str], shared: list[str], folder: Path) -> None:
    """Put an empty folder in the place of each path, in which only ``shared`` is seen again."""
    kept = []
    for number, path in enumerate(shared):
        stage = folder / f"stage{number}"
        stage.mkdir()
        mount("--rbind", path, str(stage))
        kept.append((stage, path))
    for path in paths:
        if Path(path).is_dir():
            mode = f"mode={Path(path).stat().st_mode & 0o7777:o}"
            mount("-t", "tmpfs", "-o", mode, "rehearsal", path)
    for stage, path in kept:
        Path(path).mkdir(parents=True, exist_ok=True)
        mount("--move", str(stage), path)


def lay_over(paths: list[str], layers: Path) -> None:
    """Let the host write over each path without a change to this machine's files."""
    for number, path in enumerate(paths):
        upper, work = layers / f"upper{number}", layers / f"work{number}"
        upper.mkdir()
        work.mkdir()
        options = f"lowerdir={path},upperdir={upper},workdir={work}"
        mount("-t", "overlay", "-o", options, "rehearsal", path)


def write_etc(name: str, hosts: str) -> None:
    """Say in ``/etc`` who this is; ``hosts`` stays outside, where more names may come to it."""
    shadow = Path("/etc/shadow").read_text().splitlines()
    kept = [line for line in shadow if not line.startswith("root:")]
    Path("/etc/shadow").write_text("\n".join([ROOT, *kept, ""]))
    Path("/etc/hostname").write_text(f"{name}\n")
    Path("/etc/hosts").touch()
    mount("--bind", hosts, "/etc/hosts")
    Path("/proc/sys/kernel/hostname").write_text(name)


def write_power_switches() -> None:
    """Have ``shutdown`` and its kin end this host; the real ones would end the machine."""
    for name in OFF:
        path = Path("/usr/sbin", name)
        path.unlink(missing_ok=True)
        path.write_text("#!/bin/sh\nkill -USR1 1\n")
        path.chmod(0o755)


def main() -> None:
    """Set the host up, and wait for its end."""
    wanted = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    folder = Path(wanted["folder"])
    layers = folder / "layers"
    layers.mkdir()
    mount("-t", "tmpfs", "rehearsal", str(layers))
    make_private([*wanted["private"], *MANAGERS], wanted["shared"], folder)
    lay_over(["/etc", "/usr/sbin", *wanted["layered"]], layers)
    write_etc(wanted["name"], wanted["hosts"])
    write_power_switches()
    # No process waits for the children that the host's processes leave.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("up", flush=True)
    while sys.stdin.read(4096):
        pass


if __name__ == "__main__":
    main()
