"""The main thread's position, seen from another thread: line, call and duration."""

from __future__ import annotations

import builtins
import functools
import linecache
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from workbench.engine.timing import thread_position
from workbench.engine.timing.thread_position import Sampler, ThreadPosition

SOURCE = "<cell of a test>"
WITHIN = 10.0


def seen(
    source: str, enough: Callable[[ThreadPosition], bool], *, step: float = 0.0, **names: object
) -> ThreadPosition:
    """Execute ``source`` here, and look from a thread until ``enough``; then let it end."""
    found: list[ThreadPosition] = []
    over = threading.Event()

    def look() -> None:
        sampler, deadline = Sampler(), time.monotonic() + WITHIN
        while time.monotonic() < deadline:
            found.append(sampler.look(SOURCE, 0, step))
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
        ("pass\nimport slow.one as two", 2, "import slow.one"),
        ("from slow.one import Net", 1, "import slow.one"),
    ],
    ids=["a call", "a call on several lines", "no plain name", "data", "an import", "its names"],
)
def test_the_users_line_and_what_it_calls_are_seen(source, line, doing) -> None:
    def batches(over: threading.Event) -> Iterator[bool]:
        yield over.wait()

    def find(_: str, space: dict[str, threading.Event], *__: object) -> SimpleNamespace:
        space["over"].wait()
        return SimpleNamespace(one=None, Net=None)

    builtin = {**vars(builtins), "__import__": find}
    place = seen(
        source,
        lambda place: place.line > 0 and bool(place.doing),
        batches=batches,
        __builtins__=builtin,
    )

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


@pytest.mark.parametrize("call", ["Wait", "wait", "Fence"])
@pytest.mark.parametrize(
    "source", ["one.{}()", "def swap(one):\n    one.{}()\nswap(one)"], ids=["here", "in a function"]
)
def test_a_request_that_is_waited_for_is_a_call(source, call) -> None:
    request = SimpleNamespace(**{call: functools.partial(time.sleep, 0.5)})

    place = seen(source.format(call), lambda place: bool(place.call), one=request)

    assert (place.call, place.doing) == (call, f"one.{call}")


REPLICA = "/torch/nn/parallel/distributed.py"
FRAMEWORK = """
def forward(waits):
    waits()

def backward(waits):
    forward(waits)
"""


@pytest.mark.parametrize(
    ("path", "source", "call"),
    [
        ("/lib/torch/nn/functional.py", "forward(waits)", "forward"),
        ("/lib/torch/autograd/graph.py", "backward(waits)", "backward"),
        (f"/lib{REPLICA}", "forward(waits)", "DistributedDataParallel.forward"),
        ("/lib/torch/serialization.py", "forward(waits)", ""),
        ("/lib/other/functional.py", "forward(waits)", ""),
        ("/lib/torch/nn/functional.py", "forward(computes)", ""),
    ],
    ids=["a framework", "backward", "a wrapper", "a file", "another library", "computes"],
)  # fmt: skip
def test_a_thread_that_rests_in_a_frameworks_own_code_waits_there(
    monkeypatch, path, source, call
) -> None:
    monkeypatch.setattr(thread_position, "LEAST_SECONDS", 0.3)
    names: dict[str, object] = {}
    exec(compile(FRAMEWORK, path, "exec"), names)
    waits = functools.partial(time.sleep, 1.0)
    computes = functools.partial(sum, range(40_000_000))

    place = seen(
        source,
        lambda place: place.still > 0.4,
        step=0.001,
        waits=waits,
        computes=computes,
        **names,
    )

    assert place.call == call


def test_a_rank_rests_in_a_framework_only_after_many_of_its_steps(monkeypatch) -> None:
    monkeypatch.setattr(thread_position, "LEAST_SECONDS", 0.1)
    names: dict[str, object] = {}
    exec(compile(FRAMEWORK, "/lib/torch/nn/functional.py", "exec"), names)
    waits = functools.partial(time.sleep, 0.6)

    place = seen("forward(waits)", lambda place: place.still > 0.4, step=0.1, waits=waits, **names)

    assert place.call == ""
