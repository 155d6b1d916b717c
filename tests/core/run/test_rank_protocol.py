"""Messages are decoded as they were sent; truncated and hostile ones are refused."""

from __future__ import annotations

import json
import math
from array import array
from base64 import b64encode
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from tests.weekly import examples
from workbench.core.run.display import CLEAR, DISPLAY, UPDATE, Display
from workbench.core.run.rank_protocol import (
    Acknowledge,
    AskPulse,
    Batch,
    Chunk,
    Command,
    ContinueAs,
    Ending,
    Hello,
    Interrupt,
    Message,
    Progress,
    Pulse,
    Sample,
    Samples,
    SaveSoon,
    StopAt,
    clamp_progress,
    decode_command,
    decode_message,
    encode,
    shorten_middle,
)
from workbench.errors import ProtocolError

PROFILE = settings(derandomize=True, deadline=None, max_examples=80)

RUN = "260101-000000-arun"

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
number = st.integers(0, 2**53)
finite = st.floats(0, 2**53)
moment = st.floats(0, 1e11)
runs = st.from_regex(r"[0-9]{6}-[0-9]{6}-[a-z2-7]{4}(\.[2-9])?", fullmatch=True)
endings = st.builds(
    Ending, st.sampled_from(["finished", "failed"]), number, text, text, st.booleans()
)
displays = st.builds(
    Display,
    st.sampled_from([DISPLAY, UPDATE, CLEAR]),
    moment,
    number,
    st.dictionaries(st.sampled_from(["text/plain", "text/html"]), text, max_size=2),
    st.dictionaries(st.just("image/png"), st.just({"width": 3})),
)
batches = st.builds(
    Batch,
    run=runs,
    rank=number,
    sequence=st.integers(1, 2**53),
    samples=st.lists(
        st.builds(Sample, text, number, moment, st.floats(allow_nan=False)), max_size=3
    ).map(tuple),
    chunks=st.lists(st.builds(Chunk, text, moment, text) | displays, max_size=3).map(tuple),
    progress=st.none() | st.builds(Progress, number, number, finite, finite),
    ending=st.none() | endings,
)
others = st.one_of(
    st.builds(Pulse, runs, number, number, finite, text, finite, number, text, finite),
    st.builds(Hello, number, number),
    st.builds(Acknowledge, runs, number, st.booleans(), st.booleans()),
    st.builds(AskPulse, runs),
    st.builds(StopAt, runs, number, st.booleans()),
    st.builds(SaveSoon, runs),
    st.builds(Interrupt, runs),
    st.builds(ContinueAs, runs, runs),
)


def read(line: bytes) -> Message | Command:
    """Return the message in a line, whichever side sent it."""
    is_command = line.startswith(COMMANDS)
    return decode_command(line) if is_command else decode_message(line)


COMMANDS = tuple(b'{"type":"%s"' % one.__name__.encode() for one in get_args(Command))
CHUNKS = (Chunk("stdout", 4.5, "hi\n"), Display(DISPLAY, 4.5, 1, {"image/png": "AAAA"}))
BATCH = Batch(RUN, 1, 2, (Sample("loss", 3, 4.5, 0.25),), CHUNKS)


@PROFILE
@given(batches | others)
def test_a_message_arrives_as_it_was_sent(message) -> None:
    assert read(encode(message)) == message


@PROFILE
@given(batches | others)
def test_a_message_is_one_line(message) -> None:
    assert b"\n" not in encode(message)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_value_that_is_not_finite_arrives(value) -> None:
    batch = Batch(RUN, 0, 1, (Sample("loss", 1, 2.0, value),))

    arrived = decode_message(encode(batch))

    assert isinstance(arrived, Batch)
    assert repr(arrived.samples[0].value) == repr(value)


def test_text_that_is_no_unicode_arrives_as_text_that_can_be_kept() -> None:
    batch = Batch(RUN, 0, 1, chunks=(Chunk("stdout", 1.0, "caf\udce9 ä"),))

    arrived = decode_message(encode(batch))

    assert isinstance(arrived, Batch)
    assert arrived.chunks[0].text == "caf? ä"


def test_a_line_that_is_cut_short_is_refused_wherever_it_was_cut() -> None:
    line = encode(BATCH)

    for length in range(len(line)):
        with pytest.raises(ProtocolError, match=r"^it"):
            decode_message(line[:length])


@pytest.mark.parametrize(
    "line",
    [
        b"5",
        b"[]",
        b'{"type":"Batch"}',
        b'["Batch",{}]',
        b'{"type":"Batch","run":"260101-000000-arun","rank":0,"sequence":1,"samples":[[1]]}',
        b'{"type":"Other"}',
        b'{"type":["Batch"]}',
        b'{"type":"Interrupt","run":"260101-000000-arun"}',
        b'{"type":"Pulse","run":"260101-000000-arun"}',
        b'{"type":"Pulse","run":"260101-000000-arun","rank":0,"boundary":1,"colour":"red"}',
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_not_ours_is_refused(line) -> None:
    with pytest.raises(ProtocolError, match=r"^it"):
        decode_message(line)


def body(message) -> dict:
    return json.loads(encode(message))


def line_of(message, **changes) -> bytes:
    return json.dumps({**body(message), **changes}).encode()


PULSE = Pulse(RUN, 1, 7, 2.0, "Barrier", 1.5, 4, "time.sleep", 0.5)


@pytest.mark.parametrize(
    "line",
    [
        line_of(BATCH, rank=[1]),
        line_of(BATCH, rank=True),
        line_of(BATCH, rank=-1),
        line_of(BATCH, sequence="x"),
        line_of(BATCH, sequence=0),
        line_of(BATCH, run="../../x"),
        line_of(BATCH, run=f"{RUN}.1"),
        line_of(BATCH, run=["260101-000000-arun"]),
        line_of(BATCH, chunks=[["text", "stdout", 1e300, "hi"]]),
        line_of(BATCH, chunks=[["text", "stdout", math.nan, "hi"]]),
        line_of(BATCH, chunks=[["text", "stdout", 1.0, "\ud800"]]),
        line_of(BATCH, chunks=[["text", "stdout" * 100, 1.0, "hi"]]),
        line_of(BATCH, progress={**asdict(Progress()), "epoch": math.nan}),
        line_of(BATCH, progress={**asdict(Progress()), "iterations_total": 2**70}),
        line_of(BATCH, ending={**asdict(Ending("finished")), "state": "gone"}),
        line_of(BATCH, ending={**asdict(Ending("finished")), "error": "x" * 2_001}),
        line_of(BATCH, ending={**asdict(Ending("finished")), "traceback": "x" * 20_001}),
        line_of(PULSE, rate=math.inf),
        line_of(PULSE, boundary=1.5),
        line_of(PULSE, where="x" * 2_000),
        encode(Batch(RUN, 1, 2, (Sample("n" * 201, 3, 4.5, 0.25),))),
        encode(Batch(RUN, 1, 2, (Sample("loss", -1, 4.5, 0.25),))),
        encode(Batch(RUN, 1, 2, (Sample("loss", 2**62, 4.5, 0.25),))),
        encode(Batch(RUN, 1, 2, (Sample("loss", 3, math.nan, 0.25),))),
        b"[" * 100_000,
        b'{"type":"Batch","run":' + b'{"run":' * 50_000,
        b'{"type":"Pulse","rank":' + b"1" * 10_000 + b"}",
    ],
    ids=lambda line: line[:60].decode(errors="replace"),
)
def test_what_cannot_be_is_refused(line) -> None:
    with pytest.raises(ProtocolError, match=r"^it"):
        decode_message(line)


def test_a_sample_of_a_name_that_was_not_sent_is_refused() -> None:
    names, _, *others = body(BATCH)["samples"]
    last_by_a_negative_place = b64encode(array("q", [-1]).tobytes()).decode()

    with pytest.raises(ProtocolError, match=r"^it"):
        decode_message(line_of(BATCH, samples=[names, last_by_a_negative_place, *others]))


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from([2**53, 2**63, 2**70, -1, RUN, "stdout", "AAAA", "Batch"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=6,
)
KINDS = [
    BATCH,
    PULSE,
    Hello(3, 0),
    Acknowledge(RUN, 3),
    AskPulse(RUN),
    StopAt(RUN, 4),
    StopAt(RUN, 4, epoch=True),
    SaveSoon(RUN),
    Interrupt(RUN),
]
FULL = replace(BATCH, progress=Progress(1, 2, 0.5, 1.0), ending=Ending("failed", 3, "no", "no\n"))


def refused_or_sound(line: bytes) -> None:
    """See that a line is taken only if what it holds can be sent on."""
    try:
        message = read(line)
    except ProtocolError:
        return
    assert read(encode(message)) == message or "nan" in repr(message)


@settings(derandomize=True, deadline=None, max_examples=examples(4_000))
@given(st.sampled_from([*KINDS, FULL]), st.data())
def test_a_message_with_a_changed_value_is_refused_or_sound(message, data) -> None:
    found = body(message)
    where = found
    path = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    for step in path[:-1]:
        inner = [*where.values()] if isinstance(where, dict) else where
        chosen = inner[step % len(inner)] if inner else None
        where = chosen if isinstance(chosen, dict | list) and chosen else where
    key = [*where][path[-1] % len(where)] if isinstance(where, dict) else path[-1] % len(where)
    where[key] = data.draw(junk)

    refused_or_sound(json.dumps(found).encode())


@settings(derandomize=True, deadline=None, max_examples=examples(4_000))
@given(
    st.sampled_from([encode(m) for m in [*KINDS, FULL]]),
    st.integers(0, 10**6),
    st.binary(max_size=6),
)
def test_a_line_with_changed_bytes_is_refused_or_sound(line, place, bytes_) -> None:
    place %= len(line)

    refused_or_sound(line[:place] + bytes_ + line[place + len(bytes_) :])
    refused_or_sound(line[:place] + bytes_ + line[place:])


@settings(derandomize=True, deadline=None, max_examples=examples(2_000))
@given(st.binary(max_size=60) | junk.map(lambda value: json.dumps(value).encode()))
def test_anything_at_all_is_refused_or_sound(line) -> None:
    refused_or_sound(line)


@pytest.mark.parametrize("most", [100, 2_000])
def test_a_long_text_keeps_both_ends_and_says_what_is_left_out(most) -> None:
    text = "".join(map(str, range(10_000)))

    short = shorten_middle(text, most)

    assert len(short) <= most
    assert short.startswith("0123")
    assert short.endswith("9999")
    assert f"{len(text) - most:,} characters are left out" in short
    assert shorten_middle("short", most) == "short"


def test_progress_that_is_no_amount_counts_as_none() -> None:
    assert clamp_progress(Progress(3, 2**70, math.nan, -1.0)) == Progress(3, 0, 0.0, 0.0)
    assert clamp_progress(Progress(3, 9, 0.5, 2.0)) == Progress(3, 9, 0.5, 2.0)


ROWS = (
    Sample("loss", 1, 10.0, 0.5),
    Sample("accuracy", 1, 10.0, 0.25),
    Sample("loss", 2, 11.0, 0.4),
)


def test_columns_have_the_samples_in_order() -> None:
    columns = Samples.of(ROWS)

    assert columns == ROWS
    assert [*columns] == [*ROWS]
    assert [columns[at] for at in (0, 1, -1)] == [ROWS[0], ROWS[1], ROWS[2]]
    assert columns[1:] == ROWS[1:]
    assert (len(columns), len(Samples.of(()))) == (3, 0)
    assert columns != ROWS[:2]
    assert columns.names == ("loss", "accuracy")
    assert Samples.of(columns) is columns


def test_columns_arrive_as_they_were_sent() -> None:
    batch = Batch("260101-000000-arun", 0, 1, ROWS)

    arrived = decode_message(encode(batch))

    assert isinstance(arrived, Batch)
    assert arrived.samples == ROWS
    assert encode(arrived) == encode(batch)
