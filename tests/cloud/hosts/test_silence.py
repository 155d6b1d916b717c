"""The kernel says how long the other end of a connection has been silent."""

from __future__ import annotations

import socket
import time
from functools import partial

import pytest

from tests.waiting import until
from workbench.cloud.hosts.silence import (
    BEYOND_SECONDS,
    CALL_SECONDS,
    IN_VAIN_SECONDS,
    LONGEST_CALL_SECONDS,
    LOOK_SECONDS,
    MOST_CALLS,
    PROBE_SECONDS,
    Caller,
    SilenceWatch,
    probe,
    silence,
)

ASKED = PROBE_SECONDS + BEYOND_SECONDS + 0.01


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        return here, server.accept()[0]


def test_a_connection_is_silent_since_data_last_came() -> None:
    here, there = connected()
    with here, there:
        time.sleep(0.3)
        before = silence(here)
        there.sendall(b"!")
        here.recv(1)
        after = silence(here)

    assert before is not None
    assert 0.2 < before < 60
    assert after is not None
    assert after < before
    assert silence(here) is None


def test_the_kernel_probes_an_idle_connection() -> None:
    here, there = connected()
    with here, there:
        probe(here)

        assert here.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert here.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1


def test_a_host_answers_a_call_by_taking_it_and_by_refusing_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there = server.accept()[0]
        caller = Caller(here)
        assert not caller.is_answered()
        caller.call()
        until(caller.is_answered)
    with here, there:
        caller.call()
        until(caller.is_answered)
        assert not caller.is_answered()


def test_a_host_whose_port_takes_no_more_calls_has_not_answered() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        here = socket.create_connection(full.getsockname())
        caller = Caller(here)
        with here:
            for _ in range(20):
                caller.call()

            assert len(caller._calls) <= MOST_CALLS
            until(lambda: not (caller.is_answered() or len(caller._calls) < MOST_CALLS - 1))
            caller.close()
            assert not caller.is_answered()


class Sky:
    """Connections whose silence is set, and a clock."""

    def __init__(self, number: int) -> None:
        self.now = 100.0
        self.pairs = [connected() for _ in range(number)]
        self.silent: dict[socket.socket, float | None] = {here: 0.0 for here, _ in self.pairs}
        self.answers: set[socket.socket] = set()
        self.sent: list[int] = []
        self.calls: list[socket.socket] = []
        self.watch = SilenceWatch(self.silent.__getitem__, lambda: self.now, self.caller)
        self.keys = [
            self.watch.add(here, partial(self.sent.append, n))
            for n, (here, _) in enumerate(self.pairs)
        ]

    def caller(self, connection: socket.socket) -> Caller:
        sky = self

        class Answering(Caller):
            def call(self) -> None:
                sky.calls.append(connection)

            def is_answered(self) -> bool:
                return connection in sky.answers

        return Answering(connection)

    def look(self, *silences: float | None, after: float = LOOK_SECONDS) -> list[bool]:
        self.now += after
        self.silent = dict(zip(self.silent, silences, strict=True))
        self.watch._measure = self.silent.__getitem__
        return [self.watch.is_lost(key) for key in self.keys]

    def close(self) -> None:
        for one in (end for pair in self.pairs for end in pair):
            one.close()


@pytest.fixture
def sky():
    sky = Sky(3)
    yield sky
    sky.close()


def test_a_lost_connection_stays_lost_and_a_closed_one_is_dropped(sky: Sky) -> None:
    assert sky.look(ASKED, None, 0.0) == [False] * 3
    assert sky.look(2.1, None, 0.0, after=IN_VAIN_SECONDS + 0.01) == [True, False, False]
    assert repr(sky.watch) == "<SilenceWatch of 2 connections, 1 lost>"
    assert sky.look(0.0, None, 0.0) == [True, False, False]
    sky.watch.remove(sky.keys[0])
    assert sky.look(0.0, None, 0.0) == [False] * 3


def test_a_silent_end_is_asked_in_the_session_and_then_by_new_connections(sky: Sky) -> None:
    first = sky.pairs[0][0]
    sky.look(1.0, 0.0, 0.0)
    assert (sky.sent, sky.calls) == ([], [])
    sky.look(ASKED, 0.0, 0.0)
    assert (sky.sent, sky.calls) == ([0], [])
    sky.look(ASKED + CALL_SECONDS, 0.0, 0.0, after=CALL_SECONDS + 0.01)
    assert (sky.sent, sky.calls) == ([0], [first])
    sky.look(ASKED + CALL_SECONDS + 0.1, 0.0, 0.0, after=0.11)
    assert (sky.sent, sky.calls) == ([0], [first] * 2)
    sky.look(0.0, 0.0, 0.0)
    sky.look(0.2, 0.0, 0.0)
    assert (sky.sent, sky.calls) == ([0], [first] * 2)
    assert not sky.watch._callers


def test_where_all_are_silent_nothing_but_the_sessions_is_tried(sky: Sky) -> None:
    for step in range(20):
        found = sky.look(*[ASKED + step / 10] * 3, after=0.11)
    assert found == [False] * 3
    assert (sorted(sky.sent), sky.calls) == ([0, 1, 2], [])


def test_an_end_that_answers_another_connection_is_there(sky: Sky) -> None:
    sky.answers.add(sky.pairs[0][0])
    seconds = 1.0
    while seconds < LONGEST_CALL_SECONDS - 0.2:
        seconds += 0.1
        assert not any(sky.look(seconds, 0.0, 0.0, after=0.1)), seconds
    sky.answers.clear()
    for step in range(12):
        found = sky.look(seconds + step * LOOK_SECONDS, 0.0, 0.0)
    assert found == [True, False, False]


def test_what_answers_in_place_of_a_host_counts_only_for_a_while(sky: Sky) -> None:
    sky.answers.add(sky.pairs[0][0])
    for step in range(8):
        found = sky.look(LONGEST_CALL_SECONDS + step * LOOK_SECONDS, 0.0, 0.0)
    assert found == [True, False, False]
