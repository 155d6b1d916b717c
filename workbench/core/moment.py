"""Two clocks: monotonic time for what is due, wall time for what is shown.

The *wall* clock says what a person's clock says; anybody may set it. The *steady* clock counts
seconds since the machine was started, suspended or not (Linux: CLOCK_BOOTTIME), and nobody sets
it. What is due goes by the steady clock; what is stored or shown is the wall clock's.

Two things need both. What is compared with the time of another place, the fleet's books, goes by
a ``Reckoning``. What a person named by the wall clock, an end, is a ``Deadline``. A wall clock
that has run ahead of the steady one is believed once it has done so for ``BELIEF_SECONDS``: a
virtual machine that was paused was billed meanwhile, though its steady clock stood still; a clock
that was set wrongly by mistake has been put right by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

BELIEF_SECONDS = 600.0
# What the two clocks may differ by without anything having happened.
SLACK_SECONDS = 2.0
# A reckoning that is ahead is not put back: it runs slower by this part until it agrees.
SLOWING = 0.1
# So far ahead a reckoning is wrong rather than early, and is put back after all.
WRONG_SECONDS = 86_400.0


@dataclass(frozen=True)
class Moment:
    """Now, by both clocks.

    Args:
        wall: Epoch seconds.
        steady: Seconds of the steady clock.
    """

    wall: float
    steady: float


def is_due(last: float, now: float, gap: float) -> bool:
    """Whether ``gap`` seconds are over since ``last``; also where the clock was set back.

    For what is only drawn or read now and then, by the wall clock.
    """
    return not 0.0 <= now - last < gap


@dataclass(frozen=True)
class Reckoning:
    """Epoch seconds that do not go back, and go forward only as time does or the wall clock stays.

    Args:
        epoch: Epoch seconds at ``steady``.
        astray: Since when, by the steady clock, the wall clock has said something else; None
            while they agree.
    """

    epoch: float
    steady: float
    astray: float | None = None

    def at(self, now: Moment) -> Reckoning:
        """Return it as it is now."""
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
    """An end that was named by the wall clock.

    It has come when as many seconds have passed as there were when it was first looked at, so a
    clock that is set back puts nothing off; or when the wall clock has been past it for
    ``BELIEF_SECONDS``, so a clock that is set forth by mistake ends nothing at once.

    Args:
        at: Epoch seconds, as named.
        steady: The same moment by the steady clock.
        past: Since when, by the steady clock, the wall clock alone has been past it.
    """

    at: float
    steady: float
    past: float | None = None

    def seen(self, now: Moment) -> Deadline:
        """Return it after another look."""
        if now.wall < self.at:
            return replace(self, past=None)
        return self if self.past is not None else replace(self, past=now.steady)

    def has_come(self, now: Moment) -> bool:
        """Whether it is over."""
        believed = self.past is not None and now.steady - self.past >= BELIEF_SECONDS
        return now.steady >= self.steady or believed

    def left(self, now: Moment) -> float:
        """Return the seconds that it still takes, by the steady clock."""
        return max(0.0, self.steady - now.steady)


def deadline(at: float, now: Moment, most: float | None = None) -> Deadline:
    """Return the deadline that was named ``at``, as it is first looked at.

    Args:
        most: Seconds that were left of it when it was last looked at before the machine was
            started again, since when its steady clock restarts.
    """
    left = at - now.wall
    return Deadline(at, now.steady + (left if most is None else min(left, most)))


class Deadlines:
    """The deadlines of one cluster, by what each is about.

    Args:
        known: Those of a predecessor since the machine was started.
        left: Seconds that were left of each named moment (``at``) before it was started again.
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
        """Those that were asked for."""
        return dict(self._known)

    def has_come(self, about: str, at: float, now: Moment) -> bool:
        """Whether the end that is named ``at`` has come; another name begins another deadline."""
        before = self._known.get(about)
        if before is None or before.at != at:
            named, left = self._left.pop(about, (0.0, 0.0))
            before = deadline(at, now, left if named == at else None)
        self._known[about] = before = before.seen(now)
        return before.has_come(now)

    def forget(self, about: str) -> None:
        """Forget what is over."""
        self._known.pop(about, None)
        self._left.pop(about, None)
