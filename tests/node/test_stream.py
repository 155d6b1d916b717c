"""Calls share one stream, wait for credit, and end with their other side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from workbench.core.node.agent_protocol import (
    AllSent,
    AskFacts,
    FromNode,
    LogLine,
    NodeFacts,
    Piece,
    ReadFile,
    decode_from_node,
    decode_request,
    decode_to_node,
)
from workbench.core.node.frames import FrameKind
from workbench.errors import MachineError, ProtocolError
from workbench.node import stream as module
from workbench.node.stream import Call, Cancelled, Stream, StreamLost, StreamSilent

SECONDS = 20.0
REQUEST = AskFacts()
FACTS = NodeFacts("a")


class Pair:
    """Both sides of a stream, joined here; the node answers by what a test gives it."""

    def __init__(self, serve: Callable[[Call, Any], FromNode | None]) -> None:
        self.node = Stream(
            self._to_here,
            decode_to_node,
            serve=lambda body: (decode_request(body), serve),
        )
        self.here = Stream(self.node.feed, decode_from_node)

    def _to_here(self, data: bytes) -> None:
        self.here.feed(data)

    def close(self) -> None:
        self.node.close(StreamLost("it is over"))
        self.node.join(SECONDS)


@pytest.fixture
def pair() -> Iterator[Callable[[Callable[[Call, Any], Any]], Pair]]:
    pairs: list[Pair] = []

    def make(serve: Callable[[Call, Any], Any]) -> Pair:
        pairs.append(Pair(serve))
        return pairs[-1]

    yield make
    for one in pairs:
        one.close()


def test_a_request_has_a_reply(pair) -> None:
    assert pair(lambda call, request: FACTS).here.call(REQUEST).result(SECONDS) == FACTS


def test_a_call_that_takes_long_keeps_no_other_waiting(pair) -> None:
    proceed = threading.Event()

    def serve(call: Call, request: object) -> NodeFacts:
        if isinstance(request, ReadFile):
            proceed.wait(SECONDS)
        return FACTS

    both = pair(serve)
    slow, quick = both.here.call(ReadFile(b"x")), both.here.call(REQUEST)

    assert quick.result(SECONDS) == FACTS
    assert not slow.is_over
    proceed.set()
    assert slow.result(SECONDS) == FACTS


@pytest.mark.parametrize("error", [MachineError("no room"), OSError(28, "no room", "/x")])
def test_why_it_could_not_be_done_is_passed_on(pair, error: Exception) -> None:
    def serve(call: Call, request: object) -> None:
        raise error

    with pytest.raises(MachineError, match="no room"):
        pair(serve).here.call(REQUEST).result(SECONDS)


def test_messages_go_both_ways_within_a_call(pair) -> None:
    def serve(call: Call, request: object) -> NodeFacts:
        for message in call.messages():
            if isinstance(message, AllSent):
                break
            call.post(LogLine(message.path.decode()))
        return FACTS

    call = pair(serve).here.call(REQUEST)
    for name in (b"a", b"b"):
        call.send(Piece(name, b"1"))
    call.flush()
    call.post(AllSent())

    assert [*call.messages(SECONDS)] == [LogLine("a"), LogLine("b")]
    assert call.reply == FACTS


def test_who_sends_waits_until_enough_was_taken(pair) -> None:
    sent: list[int] = []
    done = threading.Event()

    def serve(call: Call, request: object) -> None:
        call.window = 100_000
        for number in range(40):
            call.send(Piece(b"x", bytes(10_000)))
            sent.append(number)
        call.flush()
        done.set()

    call = pair(serve).here.call(REQUEST)
    while not call.wait(SECONDS):
        pass
    assert not done.is_set()
    assert len(sent) <= 10

    assert sum(len(piece.data) for piece in call.messages(SECONDS)) == 400_000
    assert done.is_set()


def test_who_is_cancelled_stops_and_says_nothing_more(pair) -> None:
    stopped = threading.Event()

    def serve(call: Call, request: object) -> None:
        try:
            while True:
                call.send(Piece(b"x", bytes(10_000)))
        except Cancelled:
            stopped.set()
            raise

    call = pair(serve).here.call(REQUEST)
    call.wait(SECONDS)
    call.cancel()

    assert stopped.wait(SECONDS)
    with pytest.raises(Cancelled):
        call.result(SECONDS)


def test_all_calls_end_with_their_stream(pair) -> None:
    both = pair(lambda call, request: call.receive())
    call = both.here.call(REQUEST)

    both.here.close(StreamLost("the node is gone"))

    with pytest.raises(StreamLost, match="the node is gone"):
        call.result(SECONDS)
    with pytest.raises(StreamLost, match="the node is gone"):
        both.here.call(REQUEST)


def test_a_side_that_does_not_answer_is_given_up(pair) -> None:
    with pytest.raises(StreamSilent, match=r"within 0\.01 s"):
        pair(lambda call, request: call.receive()).here.call(REQUEST).result(0.01)


def test_a_side_that_sends_without_waiting_is_refused(pair, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_UNREAD_NBYTES", 10_000)
    both = pair(lambda call, request: call.receive())
    both.here.call(REQUEST)
    refused: list[str] = []

    def flood() -> None:
        try:
            for _ in range(20):
                both.node.send(FrameKind.BYTES, 1, module.encode_message(Piece(b"x", bytes(1_000))))
        except ProtocolError as error:
            refused.append(str(error))

    flood()

    assert "before it waited" in refused[0]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (FrameKind.MESSAGE, b"nonsense"),
        (FrameKind.REPLY, b"nonsense"),
        (FrameKind.CREDIT, b"xx"),
        (FrameKind.REQUEST, b""),
    ],
)
def test_what_is_no_message_of_the_node_is_refused(pair, kind: FrameKind, body: bytes) -> None:
    both = pair(lambda call, request: call.receive())
    both.here.call(REQUEST)

    with pytest.raises(ProtocolError):
        both.node.send(kind, 1, body)


def test_what_comes_after_a_call_is_dropped(pair) -> None:
    both = pair(lambda call, request: FACTS)
    both.here.call(REQUEST).result(SECONDS)

    both.node.send(FrameKind.MESSAGE, 1, b"nonsense")
    both.node.send(FrameKind.CREDIT, 99, b"")

    assert both.here.call(REQUEST).result(SECONDS) == FACTS
