"""Decide whether a supervisor is alive, from its last heartbeat and the state of its process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from workbench.core.messages import decode
from workbench.core.moment import Deadline
from workbench.errors import ProtocolError

# Between two turns of the loop; a turn that takes longer announces it.
PATIENCE_SECONDS = 20.0
# If a sleeping process got no core for this long, it waits for a disk.
STILL_SECONDS = 60.0
STOPPED = "T"
WORKING = "R"
TRACED = "t"


@dataclass(frozen=True)
class Heartbeat:
    """What a supervisor writes about once a second.

    Args:
        boot: Id of the machine's boot, from which the clocks here count.
        pid: Id of its process.
        born: Start of that process, by the kernel's count; a later process with this pid differs.
        beat: When it was written, by the clock that stops while the machine is suspended.
        patience: Seconds until the next one, at most.
        steady: The same moment by the clock that counts while suspended.
        epoch: The time of the fleet's accounts then.
        ends: The deadlines, each as wall-clock time and as steady time.
        version: The workbench that the process began with.
    """

    boot: str
    pid: int
    born: int
    beat: float
    patience: float
    steady: float
    epoch: float
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)
    version: str = ""

    def deadlines(self) -> dict[str, Deadline]:
        """Return the deadlines."""
        return {about: Deadline(at, steady) for about, (at, steady) in self.ends.items()}

    def left(self) -> dict[str, tuple[float, float]]:
        """Return each deadline's wall-clock time, and the seconds that were left."""
        return {
            about: (at, max(0.0, steady - self.steady)) for about, (at, steady) in self.ends.items()
        }


@dataclass(frozen=True)
class Stirring:
    """The state of a process as the system reports it.

    Args:
        state: One letter, as in ``ps``.
        switches: How often it has been given a core.
        traced: Whether a debugger is attached.
    """

    state: str
    switches: int
    traced: bool = False


def heartbeat_text(heartbeat: Heartbeat) -> str:
    """Return the stored form of a heartbeat."""
    return msgspec.json.encode(heartbeat).decode()


def read_heartbeat(text: str) -> Heartbeat | None:
    """Return the heartbeat of a stored text; None if it is invalid."""
    with suppress(ProtocolError):
        return decode(Heartbeat, text)
    return None


def is_late(heartbeat: Heartbeat, now: float) -> bool:
    """Return whether it is overdue at ``now``, by the clock of ``beat``."""
    return now - heartbeat.beat > heartbeat.patience


def version_remark(cluster: str, heartbeat: Heartbeat, version: str) -> str:
    """Return how a supervisor of another version is replaced, as a sentence; empty if it is not.

    Args:
        version: That of this process.
    """
    if heartbeat.version == version:
        return ""
    old = f"workbench {heartbeat.version}" if heartbeat.version else "an earlier workbench"
    return (
        f"The supervisor of cluster {cluster!r} is still that of {old}, and this is {version}: "
        f"let its runs end, then delete and start it (`workbench delete --cluster {cluster}`)."
    )


def why_still(heartbeat: Heartbeat, before: Stirring, after: Stirring, now: float) -> str:
    """Return why a late supervisor does not move; empty if it moves, however slowly.

    A machine that is busy, or short of memory, rarely gives it a core: that is no reason to end it.
    A process with a debugger attached is never ended.

    Args:
        before: The state of the process.
        after: The same some seconds later.
        now: By the clock of ``beat``.
    """
    silent = now - heartbeat.beat
    if not is_late(heartbeat, now) or after.traced or after.state == TRACED:
        return ""
    if after.state == STOPPED:
        return f"was stopped for {silent:.0f} s"
    is_still = before.switches == after.switches and WORKING not in (before.state, after.state)
    if not is_still or silent < max(STILL_SECONDS, heartbeat.patience):
        return ""
    what = "hung in disk I/O" if after.state == "D" else "did not move"
    return f"{what} for {silent:.0f} s"
