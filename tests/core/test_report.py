"""Messages survive the wire as they were, and what is cut short is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.report import (
    Acknowledge,
    AskPulse,
    Batch,
    Chunk,
    Ending,
    Hello,
    Interrupt,
    Progress,
    Pulse,
    Sample,
    StopAt,
    decode,
    encode,
)

PROFILE = settings(derandomize=True, deadline=None, max_examples=80)

text = st.text(max_size=12)
number = st.integers(0, 2**53)
finite = st.floats(allow_nan=False)
endings = st.builds(
    Ending, st.sampled_from(["finished", "failed"]), number, text, text, st.booleans()
)
batches = st.builds(
    Batch,
    run=text,
    rank=number,
    sequence=number,
    samples=st.lists(st.builds(Sample, text, number, finite, finite), max_size=3).map(tuple),
    chunks=st.lists(st.builds(Chunk, text, finite, text), max_size=3).map(tuple),
    progress=st.none() | st.builds(Progress, number, number, finite, finite),
    ending=st.none() | endings,
)
others = st.one_of(
    st.builds(Pulse, text, number, number, finite, text, finite, text),
    st.builds(Hello, number, number),
    st.builds(Acknowledge, text, number, st.booleans()),
    st.builds(AskPulse, text),
    st.builds(StopAt, text, number),
    st.builds(Interrupt, text),
)
BATCH = Batch("r", 1, 2, (Sample("loss", 3, 4.5, 0.25),), (Chunk("stdout", 4.5, "hi\n"),))


@PROFILE
@given(batches | others)
def test_a_message_arrives_as_it_was_sent(message) -> None:
    assert decode(encode(message)) == message


@PROFILE
@given(batches | others)
def test_a_message_is_one_line(message) -> None:
    assert b"\n" not in encode(message)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_value_that_is_not_finite_arrives(value) -> None:
    batch = Batch("r", 0, 1, (Sample("loss", 1, 2.0, value),))

    arrived = decode(encode(batch))

    assert isinstance(arrived, Batch)
    assert repr(arrived.samples[0].value) == repr(value)


def test_text_that_is_no_unicode_arrives_as_text_that_can_be_kept() -> None:
    batch = Batch("r", 0, 1, chunks=(Chunk("stdout", 1.0, "caf\udce9 ä"),))

    arrived = decode(encode(batch))

    assert isinstance(arrived, Batch)
    assert arrived.chunks[0].text == "caf? ä"


def test_a_line_that_is_cut_short_is_refused_wherever_it_was_cut() -> None:
    line = encode(BATCH)

    for length in range(len(line)):
        with pytest.raises(ValueError, match="not a workbench message"):
            decode(line[:length])


@pytest.mark.parametrize(
    "line",
    [
        b"5",
        b"[]",
        b'["Batch",{}]',
        b'["Batch",[]]',
        b'["Batch",{"run":"r","rank":0,"sequence":1,"samples":[[1]],"chunks":[],'
        b'"progress":null,"ending":null}]',
        b'["Other",{}]',
        b'[["Batch"],{}]',
        b'["Pulse",{"run":"r"}]',
        b'["Pulse",{"run":"r","rank":0,"boundary":1,"colour":"red"}]',
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_not_ours_is_refused(line) -> None:
    with pytest.raises(ValueError, match="not a workbench message"):
        decode(line)
