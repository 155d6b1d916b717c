"""Untrusted bytes become the declared values, or one clause that names what is wrong."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec
import pytest

from workbench.core.messages import Amount, BaseMessage, Count, convert, decode, unpack
from workbench.errors import ProtocolError


class Place(BaseMessage, frozen=True):
    name: Annotated[str, msgspec.Meta(max_length=5)]
    line: Count = 0


class Beat(BaseMessage, frozen=True, tag=True):
    rank: Count
    rate: Amount = 0.0
    places: tuple[Place, ...] = ()
    state: Literal["busy", "idle"] = "idle"


class Left(BaseMessage, frozen=True, tag=True):
    rank: Count


BEAT = Beat(3, 0.5, (Place("a"), Place("b", 7)), "busy")
WRONG = [
    ({"rank": True}, "its rank is True; expected an integer"),
    ({"rank": -1}, "its rank is -1; expected an integer >= 0"),
    ({"rank": 2**60}, f"its rank is {2**60}; expected an integer <= {2**53}"),
    ({"rank": "x" * 999}, f"its rank is '{'x' * 59}…; expected an integer"),
    ({}, "it lacks 'rank'"),
    ({"rank": 1, "pace": 2}, "it has an unknown field 'pace'"),
    ({"rank": 1, "places": {}}, "its places is {}; expected a list"),
    (
        {"rank": 1, "places": [{"name": "a"}, {"name": "longer"}]},
        "its places[1].name is 'longer'; expected text of length <= 5",
    ),
    ({"rank": 1, "places": [{}]}, "its places[0] lacks 'name'"),
    ({"rank": 1, "state": "dead"}, "its state is 'dead', which is not a known value"),
    ({"rank": 1, "type": "Bye"}, "its type is 'Bye', which is not a known value"),
]


@pytest.mark.parametrize("message", [BEAT, Left(2)])
def test_a_message_comes_as_it_was_sent(message: Beat | Left) -> None:
    assert decode(Beat | Left, msgspec.json.encode(message)) == message
    assert unpack(Beat | Left, msgspec.msgpack.encode(message)) == message
    assert convert(Beat | Left, msgspec.to_builtins(message)) == message


@pytest.mark.parametrize(("body", "clause"), WRONG)
def test_what_does_not_fit_is_named_with_its_place(body: dict[str, object], clause: str) -> None:
    body = {"type": "Beat", **body}

    for attempt in (
        lambda: decode(Beat | Left, msgspec.json.encode(body)),
        lambda: unpack(Beat | Left, msgspec.msgpack.encode(body)),
        lambda: convert(Beat | Left, body),
    ):
        with pytest.raises(ProtocolError) as caught:
            attempt()
        assert str(caught.value) == clause


@pytest.mark.parametrize("rate", [math.nan, math.inf, -0.5])
def test_an_amount_is_finite(rate: float) -> None:
    with pytest.raises(ProtocolError, match=r"its rate is .*; expected a number [<>]= "):
        unpack(Beat, msgspec.msgpack.encode({"type": "Beat", "rank": 1, "rate": rate}))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b'{"rank":NaN}', b'{"rank":"\\ud800"}', b"[" * 100_000]
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"^it is .*; expected (JSON|an object)$"):
        decode(Beat, data)


@pytest.mark.parametrize("data", [b"", b"\x81", b"\xc1", b"\x81\x80\x01", b"\x91" * 100_000])
def test_what_is_not_messagepack_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"^it is .*; expected (MessagePack|an object)$"):
        unpack(Beat, data)
