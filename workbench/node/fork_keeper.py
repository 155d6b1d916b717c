"""Keep the fork server of this node's ranks, and report their ends to the supervisor."""

from __future__ import annotations

import logging
import os
import select
import stat
from pathlib import Path

from workbench.core.node.agent_protocol import (
    AllSent,
    Forks,
    KeepForks,
    LogLine,
    RankEnded,
    decode_path,
)
from workbench.core.quote import one_line
from workbench.errors import MachineError
from workbench.node.stream import Bell, Call
from workbench.node.warm_ranks import STUB, WarmRanks

log = logging.getLogger("workbench.supervisor")

# The fork server's end is noticed by its descriptor; another version of a module is looked for.
LOOK_SECONDS = 1.0


class ForkLogHandler(logging.Handler):
    """Sends what is logged on this node to the supervisor."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        self._call.post(LogLine(one_line(record.getMessage())))


def keep_forks(call: Call, request: KeepForks) -> None:
    """Keep a fork server until the supervisor has had enough of it; ranks that are left keep it."""
    report = ForkLogHandler(call)
    log.addHandler(report)
    warm = start_forks(Path.home() / decode_path(request.folder))
    try:
        call.post(Forks(warm.path, STUB if warm.path else ""))
        with Bell(call) as bell:
            while not _is_finished(bell, warm):
                warm.look()
                for pid in [*warm.statuses]:
                    call.post(RankEnded(pid, warm.statuses.pop(pid)))
    finally:
        log.removeHandler(report)
        warm.leave()


def start_forks(folder: Path) -> WarmRanks:
    """Start a fork server in a folder of this machine, or take up the one that is there.

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


def _is_finished(bell: Bell, warm: WarmRanks) -> bool:
    """Wait for the call, or the fork server; return whether the call is to end."""
    known = [bell.descriptor, *([warm.descriptor] if warm.path else [])]
    ready, _, _ = select.select(known, [], [], LOOK_SECONDS)
    return bell.descriptor in ready and any(isinstance(one, AllSent) for one in bell.take())
