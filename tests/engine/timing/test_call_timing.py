"""What times the calls of a step does the same whether it was compiled or not."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench.engine.timing import call_timing
from workbench.engine.timing.call_timing import observe_method, stopwatch, time_call, time_exchange

PAUSE = 0.002


@pytest.fixture(params=["python", "compiled"])
def kinds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the types of activity, count and total, in Python or compiled."""
    if request.param == "python":
        monkeypatch.setattr(call_timing, "compiled", None)
        return SimpleNamespace(
            Activity=call_timing.PythonActivity,
            CallCount=call_timing.PythonCallCount,
            Total=call_timing.PythonTotal,
        )
    if call_timing.compiled is None:
        reason = "the package was built without a C compiler"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return call_timing.compiled


class Comm:
    """A communicator whose calls take a moment."""

    _meetings: Any = None

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def act(self, *args: Any, **kwargs: Any) -> str:
        self.calls.append((args, kwargs))
        time.sleep(PAUSE)
        if args and isinstance(args[0], str):
            raise KeyError(args[0])
        return "done"


def test_a_call_is_timed_and_named_while_it_lasts(kinds) -> None:
    activity, names = kinds.Activity(), []

    class Timed(Comm):
        def original(self, *args: Any, **kwargs: Any) -> str:
            """What MPI says of it."""
            names.append(activity.call)
            return Comm.act(self, *args, **kwargs)

        bcast = time_call(original, "bcast", activity)

    comm, begun = Timed(), time.perf_counter()

    assert comm.bcast(1, root=2) == "done"

    assert (names, activity.call) == (["bcast"], "")
    assert comm.calls == [((1,), {"root": 2})]
    assert PAUSE <= activity.seconds <= time.perf_counter() - begun
    assert begun <= activity.since <= time.perf_counter()
    assert activity.passed == activity.barred == 0.0
    assert Timed.bcast.__wrapped__ is Timed.original
    assert comm.bcast.__doc__ == "What MPI says of it."


@pytest.mark.parametrize("counter", ["passed", "barred"])
def test_seconds_are_counted_a_second_time_where_it_is_said(kinds, counter) -> None:
    activity = kinds.Activity()
    send = time_call(Comm.act, "send", activity, counter)

    with pytest.raises(KeyError, match="fails"):
        send(Comm(), "fails")

    assert getattr(activity, counter) == activity.seconds >= PAUSE
    assert activity.passed + activity.barred == activity.seconds
    assert activity.call == ""


def test_calls_of_other_threads_are_not_timed(kinds) -> None:
    activity = kinds.Activity()
    calls = (
        time_call(Comm.act, "bcast", activity),
        time_exchange(Comm.act, "Allreduce", activity, lambda comm: None),
    )
    comm, found = Comm(), []

    for call in calls:
        other = threading.Thread(target=lambda call=call: found.append(call(comm, 1, 2)))
        other.start()
        other.join()

    assert found == ["done", "done"]
    assert (activity.seconds, activity.exchanges, activity.nbytes) == (0.0, 0, 0)


def test_members_meet_before_the_calls_that_are_due(kinds) -> None:
    activity, count, met = kinds.Activity(), kinds.CallCount(), []
    count.due, array = 2, np.zeros(10, "f4")

    def meet(comm: Comm) -> None:
        met.append(None if comm._meetings is None else comm._meetings.calls)
        comm._meetings = count
        if count.follow(activity):
            count.due += 3

    class Timed(Comm):
        Allreduce = time_exchange(Comm.act, "Allreduce", activity, meet)

    comm = Timed()
    for _ in range(2):
        comm.Allreduce(array, array)
        comm.Allreduce(array, [array, 10, "f4"])
        comm.Allreduce(array, recvbuf=array, op="sum")
        activity.end_step(0.0)

    assert met == [None, 1, 4]
    assert (count.calls, activity.exchanges, activity.nbytes) == (6, 6, 6 * 40)
    assert (count.step, count.first, count.per_step) == (1, 3, 3)
    args, named = comm.calls[2]
    assert len(args) + len(named) == 3
    assert named["op"] == "sum"


def test_an_exchange_that_fails_is_not_counted(kinds) -> None:
    activity, count = kinds.Activity(), kinds.CallCount()

    class Timed(Comm):
        Allreduce = time_exchange(Comm.act, "Allreduce", activity, lambda comm: None)

    comm = Timed()
    comm._meetings = count
    with pytest.raises(KeyError, match="fails"):
        comm.Allreduce("fails", np.zeros(10))

    assert (count.calls, activity.exchanges, activity.nbytes, activity.call) == (0, 0, 0, "")
    assert activity.seconds >= PAUSE


def test_a_meeting_that_fails_keeps_the_call_from_being_made(kinds) -> None:
    activity = kinds.Activity()

    def meet(comm: Comm) -> None:
        raise ZeroDivisionError

    class Timed(Comm):
        Allreduce = time_exchange(Comm.act, "Allreduce", activity, meet)

    comm = Timed()
    with pytest.raises(ZeroDivisionError):
        comm.Allreduce(1, 2)

    assert (comm.calls, activity.call, activity.exchanges) == ([], "", 0)


def test_a_stopwatch_adds_up_with_and_without_the_time_in_mpi(kinds) -> None:
    activity, own, all_of_it = kinds.Activity(), kinds.Total(), kinds.Total()

    def update(seconds: float, *, fails: bool = False) -> str:
        time.sleep(PAUSE)
        activity.seconds += seconds
        if fails:
            raise ValueError("no")
        return "updated"

    timed = stopwatch(stopwatch(update, own, activity), all_of_it)
    assert timed(PAUSE / 2) == "updated"
    with pytest.raises(ValueError, match="no"):
        timed(0.0, fails=True)

    assert all_of_it.seconds >= 2 * PAUSE
    assert own.seconds + PAUSE / 2 <= all_of_it.seconds
    own.seconds = 0.0
    assert own.seconds == 0.0


def test_only_the_observed_step_is_passed_on(kinds) -> None:
    activity, seen = kinds.Activity(), []

    class Variable:
        def original(self, *args: Any) -> str:
            return f"original {args}"

        def observe(self, *args: Any) -> str:
            seen.append(activity.steps)
            return f"observed {args}"

        backward = observe_method(original, observe, activity)

    variable, found = Variable(), []
    for _ in range(3):
        found.append(variable.backward(7))
        activity.end_step(0.0)
        activity.observed = 1

    assert found == ["original (7,)", "observed (7,)", "original (7,)"]
    assert seen == [1]


def test_a_step_that_ends_has_more_to_do_when_it_was_sampled_or_it_is_time(kinds) -> None:
    activity = kinds.Activity()
    activity.next_look = 10.0
    activity.seconds, activity.passed, activity.barred, activity.spent = 4.0, 3.0, 2.0, 1.0
    activity.exchanges = 5

    assert activity.end_step(9.9) is False
    begun = (activity.begun_seconds, activity.begun_passed, activity.begun_barred)
    assert (*begun, activity.begun_spent) == (4.0, 3.0, 2.0, 1.0)
    assert (activity.steps, activity.started) == (1, 5)

    activity.seconds = 6.0
    assert activity.end_step(10.0) is True
    assert activity.begun_seconds == 4.0  # until what is to be done has been done
    activity.begin_step()
    assert activity.begun_seconds == 6.0

    activity.waited = 0.0
    assert activity.end_step(9.9) is True
    activity.waited, activity.spoilt = -1.0, True
    assert activity.end_step(9.9) is True


def test_calls_before_a_training_do_not_count_for_its_steps(kinds) -> None:
    activity, count = kinds.Activity(), kinds.CallCount()
    count.calls, activity.steps, activity.first = 4, 1, 1

    assert count.follow(activity) is False
    assert (count.per_step, count.first) == (0, 4)

    count.calls, activity.steps, count.due = 7, 2, 8
    assert count.follow(activity) is True
    assert (count.per_step, count.first, count.step) == (3, 7, 2)


def test_an_exchange_is_timed_and_counted(kinds) -> None:
    activity = kinds.Activity()

    activity.enter("exchange")
    during, since = activity.call, activity.since
    time.sleep(PAUSE)
    taken = activity.leave()
    for _ in range(2):
        activity.exchanged(100, 50.0, 0.25)

    assert (during, activity.call) == ("exchange", "")
    assert PAUSE <= taken == activity.seconds <= time.perf_counter() - since
    assert (activity.exchanges, activity.nbytes, activity.wire, activity.spent) == (
        2,
        200,
        100.0,
        0.5,
    )
