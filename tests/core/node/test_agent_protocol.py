"""Every message between supervisor and agent is decoded as it was sent; others are refused."""

from __future__ import annotations

import pytest

from workbench.core.node.agent_protocol import (
    Added,
    Alive,
    AskFacts,
    Follow,
    Gone,
    Gpu,
    Heed,
    NodeFacts,
    Notice,
    Read,
    Renew,
    Renewed,
    Signal,
    Text,
    Unfollow,
    Unwatch,
    Watch,
    line_of,
    read_event,
    read_request,
)

REQUESTS = [
    AskFacts(),
    Watch((1, 2)),
    Unwatch(()),
    Signal((3,), 9),
    Read("crash-1-0.txt", 10, True),
    Follow("output.log", 7),
    Unfollow("output.log"),
    Renew("one", 300.0, "/var/lib/x"),
    Heed(),
]
EVENTS = [
    NodeFacts("node1", 1.5, gpus=(Gpu("Tesla M60", 8 << 30),), versions=(("numpy", "2.3"),)),
    Alive(2.5),
    Gone((4, 5)),
    Text("crash", "two\nlines ü \ud800"),
    Added("output.log", "line\n", 12),
    Renewed("one", 300.0, "no"),
    Notice("terminate", 1758183720.0),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=repr)
def test_a_request_is_the_same_after_the_wire(request_):
    line = line_of(request_)

    assert line.count("\n") == 1
    assert read_request(line) == request_
    assert read_event(line) is None


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_the_same_after_the_wire(event):
    line = line_of(event)

    assert line.count("\n") == 1
    assert line.isascii()
    assert read_event(line) == event


@pytest.mark.parametrize(
    "line", ["", "Traceback", "[]", '["Gone"]', '["Gone",{"other":1}]', '["Gone",3]', "null", "1"]
)
def test_a_line_that_is_no_message_is_none(line):
    assert read_event(line) is None


def test_slots_are_gpus_or_else_cores():
    assert NodeFacts("a", 0.0, cores=8, gpus=(Gpu("x", 1), Gpu("x", 1))).slots == 2
    assert NodeFacts("a", 0.0, cores=8).slots == 8
