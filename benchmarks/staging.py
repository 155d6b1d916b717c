"""A folder to 1, 2 and 4 nodes by ssh, checksums and all, over ``rsync`` and ``scp`` to one.

The nodes are namespaces of this machine, so all of them share its cores: ciphers, checksums and
both ends of each session.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.rehearsal.hosts import HOME, Hosts, why_not
from workbench.cloud.hosts.ssh import SshSession, open_session
from workbench.core.fleet.model import FleetWish
from workbench.core.world.world import Host
from workbench.supervisor.data.staging import Staging

from . import place
from .figures import BenchmarkFailed, Row, Series, interleaved

NODES = (1, 2, 4)
LARGE_NBYTES = 256 << 20
SLOW_NBYTES, SLOW_MBITS = 24 << 20, 100.0
SMALL_FILES, SMALL_NBYTES = 4_000, 4_000
RSYNC, SCP = "rsync -a", "scp -r"
SECONDS = 300


def measure(here: place.Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Stage a large file, many small ones, and nothing new, in turn with what others do."""
    if reason := why_not():
        raise BenchmarkFailed(reason)
    lacking = [program for program in ("rsync", "scp") if shutil.which(program) is None]
    if lacking:
        raise BenchmarkFailed(f"There is no {lacking[0]} here; install it with apt-get.")
    rows: list[Row] = []
    with Hosts(max(NODES)) as hosts:
        sessions = [
            open_session(Host(host.address, 1, user="root"), [host.known_hosts], hosts.key)
            for host in hosts
        ]
        try:
            for what, folder in _folders(here).items():
                found = _found(hosts, sessions, folder, rounds, lambda t, w=what: say(f"{w}: {t}"))
                rows += _rows(what, found)
            rows += _slow(here, hosts, sessions, rounds, say)
        finally:
            for session in sessions:
                session.close()
    return rows


def _folders(here: place.Place) -> dict[str, Path]:
    large, small = here.path("large"), here.path("small")
    large.mkdir()
    with (large / "digits.npz").open("wb") as file:
        for _ in range(LARGE_NBYTES >> 20):
            file.write(os.urandom(1 << 20))
    small.mkdir()
    for number in range(SMALL_FILES):
        (small / f"{number}.npz").write_bytes(os.urandom(SMALL_NBYTES))
    return {
        f"a file of {LARGE_NBYTES >> 20} MiB": large,
        f"{SMALL_FILES:,} files of {SMALL_NBYTES // 1000} kB": small,
    }


def _found(
    hosts: Hosts,
    sessions: list[SshSession],
    folder: Path,
    rounds: int,
    say: Callable[[str], None],
) -> dict[str, Series]:
    ways: dict[str, Callable[[], float]] = {
        _label(count): partial(_stage, hosts, sessions[:count], folder) for count in NODES
    }
    ways["again"] = partial(_stage, hosts, sessions[:1], folder, fresh=False)
    ways[RSYNC] = partial(_copy, hosts, folder, RSYNC)
    ways["rsync again"] = partial(_copy, hosts, folder, RSYNC, fresh=False)
    ways[SCP] = partial(_copy, hosts, folder, SCP)
    return interleaved(rounds, ways, say)


def _rows(what: str, found: dict[str, Series]) -> list[Row]:
    one = found[_label(1)]
    note = "read for its checksums, sent, and checked; both ends on the same cores"
    rows = [
        Row(f"staging of {what} to 1 node", "s", one, found[RSYNC], note=note),
        Row(f"staging of {what} to 1 node", "s", one, found[SCP], note=note),
    ]
    rows += [
        Row(f"staging of {what} to {count} nodes", "s", found[_label(count)], one, note=note)
        for count in NODES[1:]
    ]
    rows.append(
        Row(f"staging of {what}, all there", "s", found["again"], found["rsync again"],
            note="the source is read for its checksums, as after a supervisor's start")
    )  # fmt: skip
    return rows


def _slow(
    here: place.Place,
    hosts: Hosts,
    sessions: list[SshSession],
    rounds: int,
    say: Callable[[str], None],
) -> list[Row]:
    """Stage over links that are slower than the processor, as they are between machines."""
    folder = here.path("slow")
    folder.mkdir()
    (folder / "digits.npz").write_bytes(os.urandom(SLOW_NBYTES))
    for host in hosts:
        host.shape(SLOW_MBITS)
    ways = {_label(count): partial(_stage, hosts, sessions[:count], folder) for count in NODES}
    what = f"a file of {SLOW_NBYTES >> 20} MiB at {SLOW_MBITS:.0f} Mbit/s"
    found = interleaved(
        rounds,
        {**ways, RSYNC: partial(_copy, hosts, folder, RSYNC)},
        lambda text: say(f"{what}: {text}"),
    )
    one, note = found[_label(1)], "each node has a link of its own"
    rows = [Row(f"staging of {what} to 1 node", "s", one, found[RSYNC], note=note)]
    return rows + [
        Row(f"staging of {what} to {count} nodes", "s", found[_label(count)], one, note=note)
        for count in NODES[1:]
    ]


def _label(count: int) -> str:
    return f"workbench, {count} node{'s' if count > 1 else ''}"


def _stage(hosts: Hosts, sessions: list[SshSession], folder: Path, *, fresh: bool = True) -> float:
    if fresh:
        _clear(hosts)
    elif not hosts[0].run("sh", "-c", f"ls {HOME}/workbench-data 2>/dev/null || true"):
        _stage(hosts, sessions, folder)
    staging, wish = Staging("bench"), FleetWish("hosts", data=str(folder))

    def prepare(session: SshSession) -> None:
        staging.prepare(session, wish, lambda sentence: None)

    began = time.monotonic()
    with ThreadPoolExecutor(len(sessions)) as pool:
        list(pool.map(prepare, sessions))
    return time.monotonic() - began


def _copy(hosts: Hosts, folder: Path, way: str, *, fresh: bool = True) -> float:
    if fresh:
        _clear(hosts)
    else:
        _copy(hosts, folder, way)  # whatever was there before
    known = hosts.folder / "known"
    known.write_text(f"{hosts[0].known_hosts}\n")
    ssh = ["-F", "none", "-i", f"{hosts.folder}/key", "-o", f"UserKnownHostsFile={known}"]
    target = f"root@{hosts[0].address}:{HOME}/copy"
    if way == SCP:
        command = ["scp", "-q", "-r", *ssh, str(folder), target]
    else:
        command = ["rsync", "-a", "-e", " ".join(["ssh", *ssh]), str(folder), target]
    began = time.monotonic()
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    seconds = time.monotonic() - began
    if done.returncode:
        raise BenchmarkFailed(f"{way} ended with {done.returncode}: {done.stderr.strip()[-200:]}")
    return seconds


def _clear(hosts: Hosts) -> None:
    staged = f"{HOME}/workbench-data"
    for host in hosts:
        host.run("sh", "-c", f"rm -rf {HOME}/copy {staged} {staged}/.[!.]*")
