"""Time the calls of a training step: those of MPI, and the step's parts.

Where the package was built with a C compiler, ``native/timed_calls.c`` is used in place of what is
here: between two pieces of a step's work a function in Python takes several times as long as in a
loop.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from workbench.engine.compiled_modules import require_current

try:
    from workbench.engine import timed_calls as compiled

    require_current(compiled)
except ImportError:  # built without a C compiler, for another system, or for another Python
    compiled = None  # type: ignore[assignment]  # who uses it asks first

MAIN = threading.main_thread().ident or 0
_Function = Callable[..., Any]


class PythonActivity:
    """The main thread's activity in MPI, as far as each call and each step changes it.

    Args:
        call: The name of the present call, or empty.
        since: When it was entered, by ``time.perf_counter``.
        seconds: Time in all calls.
        passed: The part of it in point-to-point messages.
        barred: The part of it in barriers.
        nbytes: Bytes reduced by allreduces.
        exchanges: The number of allreduces.
        steps: The number of completed steps.
        started: ``exchanges`` when this step began; ``begun_seconds`` and others likewise.
        first: The value of ``steps`` when this training began.
        waited: Seconds of waiting in this step's meeting; below 0 without a meeting.
        spoilt: Whether this step's meeting was not where its exchange begins.
        spent: Seconds of all exchanges, in any thread; 0 if unknown.
        wire: Bytes that this rank sent in exchanges; 0 if unknown.
        observed: The step whose backward passes are observed.
        next_look: When it is time for a look at the steps.
    """

    __slots__ = (
        "barred",
        "begun_barred",
        "begun_passed",
        "begun_seconds",
        "begun_spent",
        "call",
        "exchanges",
        "first",
        "nbytes",
        "next_look",
        "observed",
        "passed",
        "seconds",
        "since",
        "spent",
        "spoilt",
        "started",
        "steps",
        "waited",
        "wire",
    )

    def __init__(self) -> None:
        self.call = ""
        self.since = self.seconds = self.passed = self.barred = self.spent = self.next_look = 0.0
        self.begun_seconds = self.begun_passed = self.begun_barred = self.begun_spent = 0.0
        self.wire = 0.0
        self.nbytes = self.exchanges = self.steps = self.started = self.first = 0
        self.observed = -1
        self.waited = -1.0
        self.spoilt = False

    def enter(self, call: str) -> None:
        """Begin to time a call, which is not inside of another one."""
        self.call, self.since = call, time.perf_counter()

    def leave(self) -> float:
        """End the call; return its seconds."""
        taken = time.perf_counter() - self.since
        self.call = ""
        self.seconds += taken
        return taken

    def exchanged(self, nbytes: float, wire: float, seconds: float) -> None:
        """Count an exchange.

        Args:
            nbytes: Of the gradients.
            wire: That this rank sent.
            seconds: In any thread.
        """
        self.exchanges += 1
        self.nbytes += int(nbytes)
        self.wire += wire
        self.spent += seconds

    def begin_step(self) -> None:
        """Note the totals at a step's begin."""
        self.begun_seconds, self.begun_passed = self.seconds, self.passed
        self.begun_barred, self.begun_spent = self.barred, self.spent

    def end_step(self, now: float) -> bool:
        """Count a step.

        Args:
            now: By ``time.perf_counter``.

        Returns:
            Whether there is more to do, and ``begin_step`` still to be called: all ranks met in the
            step, or it is time for a look.
        """
        self.steps += 1
        self.started = self.exchanges
        if self.waited >= 0 or self.spoilt or now >= self.next_look:
            return True
        self.begin_step()
        return False


class PythonCallCount:
    """The calls of one communicator.

    Args:
        due: The number of the call before which its members meet; 0 for never.
        step: The step that it follows.
        first: The calls before this step.
        per_step: Those of the step before; 0 if unknown.
    """

    __slots__ = ("calls", "due", "first", "per_step", "step")

    def __init__(self) -> None:
        self.calls = self.due = self.step = self.first = self.per_step = 0

    def follow(self, activity: Activity) -> bool:
        """Follow the activity's steps; return whether the members meet before the next call."""
        if self.step != activity.steps:
            # Calls before the training's first step do not count for its steps.
            self.per_step = self.calls - self.first if self.step >= activity.first else 0
            self.step, self.first = activity.steps, self.calls
        return self.calls + 1 == self.due


class PythonTotal:
    """Seconds that stopwatches add up."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


if TYPE_CHECKING or compiled is None:
    Activity = PythonActivity
    CallCount = PythonCallCount
    Total = PythonTotal
else:
    Activity = compiled.Activity
    CallCount = compiled.CallCount
    Total = compiled.Total


def time_call(original: _Function, name: str, activity: Activity, counter: str = "") -> _Function:
    """Return a method of a communicator that is timed in the main thread.

    Args:
        counter: Where its seconds are counted a second time: "passed", "barred", or nowhere.
    """
    if compiled is not None:
        return compiled.TimedCall(original, name, activity, MAIN, counter)
    clock = time.perf_counter
    ident = threading.get_ident

    @functools.wraps(original)
    def call(comm: Any, *args: Any, **kwargs: Any) -> Any:
        if ident() != MAIN:
            return original(comm, *args, **kwargs)
        activity.since = start = clock()
        activity.call = name
        try:
            return original(comm, *args, **kwargs)
        finally:
            activity.call = ""
            spent = clock() - start
            activity.seconds += spent
            if counter:
                setattr(activity, counter, getattr(activity, counter) + spent)

    return call


def time_exchange(
    original: _Function, name: str, activity: Activity, meet: Callable[[Any], None]
) -> _Function:
    """Return an allreduce that is timed and counted in the main thread.

    Args:
        meet: Called with the communicator when its members are to meet, and before it has counted
            a call; gives it ``_meetings``, a ``CallCount``.
    """
    if compiled is not None:
        return compiled.TimedCall(original, name, activity, MAIN, before=meet)
    clock = time.perf_counter
    ident = threading.get_ident

    # Every gradient of a step may pass here: with names, no arguments are packed.
    @functools.wraps(original)
    def call(comm: Any, sendbuf: Any, recvbuf: Any, *op: Any, **named: Any) -> Any:
        if ident() != MAIN:
            return original(comm, sendbuf, recvbuf, *op, **named)
        activity.since = start = clock()
        activity.call = name
        try:
            if comm._meetings is None or comm._meetings.follow(activity):
                meet(comm)
            result = original(comm, sendbuf, recvbuf, *op, **named)
            comm._meetings.calls += 1
            activity.exchanges += 1
            activity.nbytes += recvbuf.nbytes if type(recvbuf) is ndarray else nbytes_of(recvbuf)
            return result
        finally:
            activity.call = ""
            activity.seconds += clock() - start

    return call


def stopwatch(original: _Function, total: Total, activity: Activity | None = None) -> _Function:
    """Return a function whose time is added to a total.

    Args:
        activity: Leave out the time in MPI.
    """
    if compiled is not None:
        return compiled.Stopwatch(original, total, *(() if activity is None else (activity,)))
    clock = time.perf_counter

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = clock() - (activity.seconds if activity is not None else 0.0)
        try:
            return original(*args, **kwargs)
        finally:
            inside = activity.seconds if activity is not None else 0.0
            total.seconds += clock() - inside - start

    return timed


def observe_method(original: _Function, observe: _Function, activity: Activity) -> _Function:
    """Return a method in whose place ``observe`` is called in the steps that are observed."""
    if compiled is not None:
        return compiled.Observed(original, observe, activity)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if activity.observed == activity.steps:
            return observe(*args, **kwargs)
        return original(*args, **kwargs)

    return call


def nbytes_of(buffer: object) -> int:
    """Return the bytes of an MPI buffer; 0 if unknown."""
    if isinstance(buffer, (list, tuple)) and buffer:
        buffer = buffer[0]
    nbytes = getattr(buffer, "nbytes", 0)
    return nbytes if isinstance(nbytes, int) else 0
