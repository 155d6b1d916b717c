"""Frames are the same after the wire, however their bytes are cut; others are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.node.frames import (
    GREETING,
    GREETING_NBYTES,
    MOST_NBYTES,
    Frame,
    FrameKind,
    FrameReader,
    encode_frame,
)
from workbench.errors import ProtocolError

FRAMES = st.builds(
    Frame, st.sampled_from(FrameKind), st.integers(0, 2**32 - 1), st.binary(max_size=50)
)


@given(st.lists(FRAMES, max_size=5), st.lists(st.integers(1, 40), min_size=1, max_size=9))
def test_frames_come_as_they_were_sent_however_they_are_cut(
    frames: list[Frame], sizes: list[int]
) -> None:
    data = b"hello from a login" + GREETING + b"".join(encode_frame(*one) for one in frames)
    reader, found = FrameReader(GREETING), list[Frame]()

    while data:
        for size in sizes:
            found += reader.feed(data[:size])
            data = data[size:]

    assert found == frames


def test_a_greeting_may_come_first() -> None:
    frame = Frame(FrameKind.REPLY, 1)

    assert FrameReader(GREETING).feed(GREETING[1:] + encode_frame(*frame)) == [frame]


@pytest.mark.parametrize(
    "data",
    [
        b"Traceback (most recent call last)",
        b"\0" * 20,
        b"\x02\0\0\0\1\xff\xff\xff\xff",
        b"\x09" * 9,
    ],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="it sent"):
        FrameReader().feed(data)


def test_a_greeting_without_end_is_refused() -> None:
    with pytest.raises(ProtocolError, match="greeting"):
        FrameReader(GREETING).feed(b"x" * (GREETING_NBYTES + 1))


def test_a_frame_may_be_as_large_as_any_message() -> None:
    frame = Frame(FrameKind.BYTES, 3, bytes(MOST_NBYTES))

    assert FrameReader().feed(encode_frame(*frame)) == [frame]
