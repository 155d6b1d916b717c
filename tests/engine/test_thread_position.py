"""The main thread's position, seen from another thread: line, call and duration."""

from __future__ import annotations

import functools
import linecache
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from workbench.engine.thread_position import Sampler, ThreadPosition

SOURCE = "<cell of a test>"
WITHIN = 10.0


def seen(source: str, enough: Callable[[ThreadPosition], bool], **names: object) -> ThreadPosition:
    """Execute ``source`` here, and look from a thread until ``enough``; then let it end."""
    found: list[ThreadPosition] = []
    over = threading.Event()

    def look() -> None:
        sampler, deadline = Sampler(), time.monotonic() + WITHIN
        while time.monotonic() < deadline:
            found.append(sampler.look(SOURCE, 0))
            if enough(found[-1]):
                break
            time.sleep(0.01)
        over.set()

    linecache.cache[SOURCE] = (len(source), None, source.splitlines(keepends=True), SOURCE)
    thread = threading.Thread(target=look)
    thread.start()
    exec(compile(source, SOURCE, "exec"), {"over": over, **names})
    thread.join()
    return found[-1]


@pytest.mark.parametrize(
    ("source", "line", "doing"),
    [
        ("pass\nover.wait()", 2, "over.wait"),
        ("def f():\n    over.wait(\n        9.0,\n    )\nf()", 2, "over.wait"),
        ("[over][0].wait()", 1, "[over][0].wait"),
        ("for _ in batches(over):\n    pass", 1, "batches"),
    ],
    ids=["a call", "a call on several lines", "no plain name", "data"],
)
def test_the_users_line_and_what_it_calls_are_seen(source, line, doing) -> None:
    def batches(over: threading.Event) -> Iterator[bool]:
        yield over.wait()

    place = seen(source, lambda place: place.line > 0 and bool(place.doing), batches=batches)

    assert (place.line, place.doing) == (line, doing)


def test_a_place_that_does_not_change_is_still() -> None:
    place = seen("over.wait()", lambda place: place.still > 0.1)

    assert place.still > 0.1


def test_a_thread_that_continues_is_not_still() -> None:
    source = "while not over.is_set():\n    a = [*range(9)]\n    b = sum(a)\n    c = sorted(a)"
    begun = time.monotonic()

    place = seen(source, lambda place: place.still == 0 and time.monotonic() > begun + 0.3)

    assert place.still == 0


def test_outside_of_the_users_source_file_and_line_are_said() -> None:
    place = Sampler().look("<no cell>", 0)

    assert place.line == 0
    assert place.doing.startswith("thread_position.py:")


def test_a_request_that_is_waited_for_is_a_call() -> None:
    request = SimpleNamespace(Wait=functools.partial(time.sleep, 0.5))

    place = seen("request.Wait()", lambda place: bool(place.call), request=request)

    assert (place.call, place.doing) == ("Wait", "request.Wait")
