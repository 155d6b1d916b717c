"""Every message between supervisor and agent is decoded as it was sent; others are refused."""

from __future__ import annotations

import json

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
    RankEnded,
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


@pytest.mark.parametrize("status", [200, -1, 4991, 65535, 2**40, 127, 0.0, True, None, "0"])
def test_a_status_with_which_no_process_ends_is_refused(status):
    assert read_event(json.dumps(["RankEnded", {"pid": 1234, "status": status}])) is None


@pytest.mark.parametrize("status", [0, 256, 0xFF00, 9, 11, 0x80 | 6, 64])
def test_a_status_with_which_a_process_ends_is_taken(status):
    assert read_event(line_of(RankEnded(1234, status))) == RankEnded(1234, status)


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**63, 7.0, True])
def test_an_id_that_no_process_has_is_refused(pid):
    assert read_event(json.dumps(["RankEnded", {"pid": pid, "status": 0}])) is None
    assert read_event(json.dumps(["Gone", {"pids": [7, pid]}])) is None


def test_a_path_that_is_longer_than_any_is_refused():
    assert read_event(line_of(Text("x" * 4_097, ""))) is None
    assert read_event(line_of(Text("ä" * 2_049, ""))) is None


def test_slots_are_gpus_or_else_cores():
    assert NodeFacts("a", 0.0, cores=8, gpus=(Gpu("x", 1), Gpu("x", 1))).slots == 2
    assert NodeFacts("a", 0.0, cores=8).slots == 8
