"""The fork servers of a cluster's hosts: each has a keeper there, which reports over ssh.

The keeper is ``python -m workbench.cluster.node_forks FOLDER`` on the node. It starts the fork
server with the environment of its own login, and ends with its input; the fork server then ends
with its last rank.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from workbench.cluster.warm_ranks import STUB, WarmRanks
from workbench.core.node.agent_protocol import (
    Event,
    Forks,
    LogLine,
    RankEnded,
    line_of,
    read_event,
)
from workbench.core.quote import one_line
from workbench.core.world.remote import RemoteProcess, Session, python_of
from workbench.errors import MachineError

log = logging.getLogger("workbench.supervisor")

PLAIN = Forks("", "")
"""Where ranks start by themselves."""

ANSWER_SECONDS = 10.0
END_SECONDS = 3.0
LOOK_SECONDS = 0.01
IDLE_SECONDS = 1.0
MOST_LINES = 100  # a node is not trusted
MOST_STATUSES = 10_000


class RemoteForks:
    """The fork server of another host.

    Args:
        folder: Of its socket and its log.
    """

    def __init__(self, session: Session, folder: str) -> None:
        self.statuses: dict[int, int] = {}
        self.session = session
        command = [python_of(session), "-m", "workbench.cluster.node_forks", folder]
        self._process: RemoteProcess = session.start(command)
        self._place: Forks | None = None
        self._lines = 0

    @property
    def is_lost(self) -> bool:
        """Whether nothing more is heard of it."""
        return not self.session.is_open or self._process.status is not None

    def hear(self) -> set[int]:
        """Take what its keeper has reported; return the ranks that have ended since."""
        ended = set()
        for line in self._process.lines():
            match read_event(line):
                case Forks() as place:
                    self._place = place
                case RankEnded(pid, status):
                    self.statuses.pop(pid, None)  # the newest is last, and kept longest
                    self.statuses[pid] = status
                    if len(self.statuses) > MOST_STATUSES:
                        del self.statuses[next(iter(self.statuses))]
                    ended.add(pid)
                case LogLine(text) if self._lines < MOST_LINES:
                    self._lines += 1
                    log.warning("%s: %s", self.session.host.address, one_line(text))
        return ended

    def place(self) -> Forks | None:
        """Return where ranks can be forked."""
        self.hear()
        return PLAIN if self.is_lost else self._place

    def end(self) -> None:
        """End its keeper, and wait for that for a moment; ranks that are left keep the server."""
        self._process.end()
        deadline = time.monotonic() + END_SECONDS
        while not self.is_lost and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)


def started_in(folder: Path) -> WarmRanks:
    """Return this machine's own fork server in a folder, for worlds that it shares with others.

    Raises:
        MachineError: The folder belongs to another user.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = folder.parent.lstat()
    if not stat.S_ISDIR(made.st_mode) or made.st_uid != os.geteuid():
        raise MachineError(f"{folder.parent} belongs to another user", "look at it, and remove it.")
    folder.parent.chmod(0o700)
    warm = WarmRanks(folder)
    warm.start()
    return warm


def common_place(hosts: Mapping[str, Callable[[], Forks | None]]) -> Forks:
    """Return where all hosts fork ranks: mpiexec starts the same command on each of them.

    Args:
        hosts: By address, what returns the host's answer; None while there is none.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    found = {address: place() for address, place in hosts.items()}
    while None in found.values() and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        found = {address: place() for address, place in hosts.items()}
    first, *_ = found
    for address, forks in found.items():
        if forks is None or not forks.path:
            why = "has no fork server" if forks else "did not say whether it has a fork server"
        elif forks != found[first]:
            why = f"has its home folder or its environment at another path than {first}"
        else:
            continue
        log.warning("Ranks start by themselves: %s %s.", address, why)
        return PLAIN
    return found[first] or PLAIN


class _LogLines(logging.Handler):
    """Report what is logged on this node to the supervisor."""

    def emit(self, record: logging.LogRecord) -> None:
        report(LogLine(record.getMessage()))


def report(event: Event) -> None:
    """Write an event to standard output."""
    sys.stdout.write(line_of(event))
    sys.stdout.flush()


def keep(folder: Path, requests: int) -> None:
    """Keep a fork server, and report what happens, until the descriptor ``requests`` is closed."""
    warm = started_in(folder)
    report(Forks(warm.path, STUB if warm.path else ""))
    while True:
        known = [requests, *([warm.descriptor] if warm.path else [])]
        ready, _, _ = select.select(known, [], [], IDLE_SECONDS)
        if requests in ready and not os.read(requests, 1 << 12):
            break
        warm.look()
        for pid in [*warm.statuses]:
            report(RankEnded(pid, warm.statuses.pop(pid)))
    warm.leave()


def main() -> int:
    """Keep the fork server in the folder that is named."""
    os.umask(0o077)
    log.addHandler(_LogLines())
    log.propagate = False
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        keep(Path.home() / sys.argv[1], sys.stdin.fileno())
        return 0
    # The reader is gone; discard what is buffered, or Python would write it at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
