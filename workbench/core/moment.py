"""Two clocks: monotonic time for what is due, wall time for what is shown.

The *wall* clock shows the time of day; users and NTP may set it. The *steady* clock counts seconds
since the machine was booted, also while suspended (Linux: CLOCK_BOOTTIME), and is never set. What
is due is compared with the steady clock; what is stored or shown is wall-clock time.

Two values need both. The fleet's accounts, which are compared with a provider's times, use a
``Reckoning``. An end that was given as wall-clock time is a ``Deadline``. A wall clock that is
ahead of the steady one is trusted after ``BELIEF_SECONDS``: a virtual machine that was paused was
billed meanwhile, though its steady clock did not count; a clock that was set wrongly is usually
corrected by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

BELIEF_SECONDS = 600.0
# The normal difference between the two clocks.
SLACK_SECONDS = 2.0
# A reckoning that is ahead is not set back: it runs slower by this factor until both agree.
SLOWING = 0.1
# A reckoning that is further ahead is wrong rather than early, and is set back.
WRONG_SECONDS = 86_400.0


@dataclass(frozen=True)
class Moment:
    """The present moment by both clocks.

    Args:
        wall: Epoch seconds.
        steady: Seconds of the steady clock.
    """

    wall: float
    steady: float


def is_due(last: float, now: float, gap: float) -> bool:
    """Return whether ``gap`` seconds have passed since ``last``, or the clock was set back.

    For periodic drawing and reading, by the wall clock.
    """
    return not 0.0 <= now - last < gap


@dataclass(frozen=True)
class Reckoning:
    """Epoch seconds that never go back, and jump forward only after ``BELIEF_SECONDS``.

    Args:
        epoch: Epoch seconds at ``steady``.
        astray: Since when, by the steady clock, the wall clock has differed; None while both
            agree.
    """

    epoch: float
    steady: float
    astray: float | None = None

    def at(self, now: Moment) -> Reckoning:
        """Return the reckoning at this moment."""
        passed = max(0.0, now.steady - self.steady)
        epoch = self.epoch + passed
        ahead = now.wall - epoch
        if abs(ahead) <= SLACK_SECONDS:
            return Reckoning(max(self.epoch, now.wall), now.steady)
        astray = now.steady if self.astray is None else self.astray
        if now.steady - astray >= BELIEF_SECONDS and (ahead > 0 or ahead < -WRONG_SECONDS):
            return Reckoning(now.wall, now.steady)
        if ahead < 0:
            epoch -= SLOWING * passed
        return Reckoning(epoch, now.steady, astray)


@dataclass(frozen=True)
class Deadline:
    """An end that was given as wall-clock time.

    It has come when as many seconds have passed as were left when it was first seen, so a clock
    that is set back postpones nothing; or when the wall clock has been past it for
    ``BELIEF_SECONDS``, so a clock that is set forward by mistake ends nothing at once.

    Args:
        at: Epoch seconds, as given.
        steady: The same moment by the steady clock.
        past: Since when, by the steady clock, only the wall clock has been past it.
    """

    at: float
    steady: float
    past: float | None = None

    def seen(self, now: Moment) -> Deadline:
        """Return it after another look at the clocks."""
        if now.wall < self.at:
            return replace(self, past=None)
        return self if self.past is not None else replace(self, past=now.steady)

    def has_come(self, now: Moment) -> bool:
        """Return whether the deadline has passed."""
        believed = self.past is not None and now.steady - self.past >= BELIEF_SECONDS
        return now.steady >= self.steady or believed

    def left(self, now: Moment) -> float:
        """Return the seconds that are left by the steady clock."""
        return max(0.0, self.steady - now.steady)


def deadline(at: float, now: Moment, most: float | None = None) -> Deadline:
    """Return the deadline ``at`` when it is seen for the first time.

    Args:
        most: Seconds that were left when it was last seen before the machine was booted again,
            which restarts the steady clock.
    """
    left = at - now.wall
    return Deadline(at, now.steady + (left if most is None else min(left, most)))


class Deadlines:
    """The deadlines of one cluster by subject.

    Args:
        known: Deadlines of a predecessor since the machine was booted.
        left: Seconds that were left of each given moment (``at``) before the boot.
    """

    def __init__(
        self,
        known: dict[str, Deadline] | None = None,
        left: dict[str, tuple[float, float]] | None = None,
    ) -> None:
        self._known = dict(known or {})
        self._left = dict(left or {})

    def __repr__(self) -> str:
        return f"<Deadlines {', '.join(self._known)}>"

    @property
    def all(self) -> dict[str, Deadline]:
        """The deadlines that were looked at."""
        return dict(self._known)

    def has_come(self, about: str, at: float, now: Moment) -> bool:
        """Return whether the end ``at`` has come; another moment is a new deadline."""
        before = self._known.get(about)
        if before is None or before.at != at:
            named, left = self._left.pop(about, (0.0, 0.0))
            before = deadline(at, now, left if named == at else None)
        self._known[about] = before = before.seen(now)
        return before.has_come(now)

    def forget(self, about: str) -> None:
        """Drop a deadline."""
        self._known.pop(about, None)
        self._left.pop(about, None)
