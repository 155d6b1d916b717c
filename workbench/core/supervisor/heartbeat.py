"""Decide whether a supervisor is alive, from its last heartbeat and the state of its process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from workbench.core.moment import Deadline

# Between two turns of the loop; what takes longer says so beforehand.
PATIENCE_SECONDS = 20.0
# Sleeping, and not even once on a core: for so long that is a wait for a disk.
STILL_SECONDS = 60.0
STOPPED = "T"
WORKING = "R"
TRACED = "t"


@dataclass(frozen=True)
class Heartbeat:
    """What a supervisor writes about once a second.

    Args:
        boot: The start of the machine that the clocks here count from.
        pid: Its process.
        born: When that process began, in the kernel's own count: tells it from a later one.
        beat: When it wrote this, by the clock that stands still while the machine is suspended.
        patience: Seconds until the next one, at most.
        steady: The same moment by the clock that goes on.
        epoch: The time of the fleet's books then.
        ends: The deadlines, each with its name by the wall clock and by the steady one.
    """

    boot: str
    pid: int
    born: int
    beat: float
    patience: float
    steady: float
    epoch: float
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)

    def deadlines(self) -> dict[str, Deadline]:
        """Return the deadlines."""
        return {about: Deadline(at, steady) for about, (at, steady) in self.ends.items()}

    def left(self) -> dict[str, tuple[float, float]]:
        """Return of each deadline its name, and the seconds that were left of it."""
        return {
            about: (at, max(0.0, steady - self.steady)) for about, (at, steady) in self.ends.items()
        }


@dataclass(frozen=True)
class Stirring:
    """What the system says of a process.

    Args:
        state: One letter, as ``ps`` shows it.
        switches: How often it has been given a core.
        traced: Whether a debugger holds it.
    """

    state: str
    switches: int
    traced: bool = False


def heartbeat_text(heartbeat: Heartbeat) -> str:
    """Return it as it is written."""
    return json.dumps(asdict(heartbeat))


def read_heartbeat(text: str) -> Heartbeat | None:
    """Return what was written; None where it is no heartbeat."""
    try:
        values = json.loads(text)
        ends = {str(k): (float(a), float(s)) for k, (a, s) in values["ends"].items()}
        return Heartbeat(
            boot=str(values["boot"]),
            pid=int(values["pid"]),
            born=int(values["born"]),
            beat=float(values["beat"]),
            patience=float(values["patience"]),
            steady=float(values["steady"]),
            epoch=float(values["epoch"]),
            ends=ends,
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None


def is_late(heartbeat: Heartbeat, now: float) -> bool:
    """Whether it should have written again by ``now``, of the clock of ``beat``."""
    return now - heartbeat.beat > heartbeat.patience


def why_still(heartbeat: Heartbeat, before: Stirring, after: Stirring, now: float) -> str:
    """Return why a late supervisor does not move; empty while it does, however slowly.

    A machine that is busy, or short of memory, gives it a core rarely: that is no reason to end
    it. What a debugger holds is somebody's own.

    Args:
        before: What the system said of it.
        after: The same some seconds later.
        now: Of the clock of ``beat``.
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
