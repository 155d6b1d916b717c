"""Frames have columns that a typed array can view without a copy."""

from __future__ import annotations

import json
import math
import struct

import numpy as np
import pytest

from workbench.core.curves import Curve
from workbench.pages.frames import BUCKET_BYTES, FrameSeries, encode_frame


def read(frame: bytes) -> tuple[dict, list[dict[str, np.ndarray]]]:
    """Read a frame by its description, as a page does."""
    (length,) = struct.unpack_from("<I", frame)
    header, offset = json.loads(frame[4 : 4 + length]), 4 + length
    series = []
    for one in header["series"]:
        columns = {}
        for name, kind in [("x", "<f8"), ("index", "<i4")] + [
            (name, "<f4") for name in ("low", "median", "high", "mean", "slowest")
        ]:
            columns[name] = np.frombuffer(frame, kind, one["count"], offset)
            offset += columns[name].nbytes
        series.append(columns)
    assert offset == len(frame)
    return header, series


def curve(*values: float, ranks: int = 1) -> Curve:
    made = Curve()
    for rank in range(ranks):
        made.add(rank, range(1, len(values) + 1), [value + rank for value in values], version=1)
    return made


def test_a_frame_says_what_it_is_about_and_holds_the_columns() -> None:
    buckets = curve(4.0, 2.0, ranks=3).buckets(marked=2)

    frame = encode_frame(
        [FrameSeries("loss", buckets, 3)], feed="f", version=7, points=6, slowest=2
    )

    header, (columns,) = read(frame)
    assert (header["feed"], header["version"], header["points"]) == ("f", 7, 6)
    assert header["series"][0]["reset"] is True
    assert columns["x"].tolist() == [1, 2]
    assert columns["low"].tolist() == [4, 2]
    assert columns["median"].tolist() == [5, 3]
    assert columns["slowest"].tolist() == [6, 4]


@pytest.mark.parametrize(
    ("name", "measures"),
    [
        ("validation/main/loss", ("loss", "loss", True)),
        ("main/val_top5", ("top5", "share", True)),
        ("lr", ("lr", "other", False)),
    ],
)
def test_a_frame_says_what_a_curve_measures(name, measures) -> None:
    header, _ = read(encode_frame([FrameSeries(name, curve(1.0).buckets(), 1)]))

    found = header["series"][0]
    assert (found["quantity"], found["family"], found["is_validation"]) == measures


@pytest.mark.parametrize("amount", [0, 1, 2, 3])
def test_columns_begin_at_a_multiple_of_8_whatever_the_names(amount) -> None:
    series = [
        FrameSeries("ä" * 3, curve(*range(count + 1)).buckets(), 1) for count in range(amount)
    ]

    frame = encode_frame(series)

    (length,) = struct.unpack_from("<I", frame)
    assert (4 + length) % 8 == 0
    read(frame)


def test_what_a_page_cannot_draw_is_no_number() -> None:
    buckets = curve(math.inf, 1e300, 1.0).buckets()

    _, (columns,) = read(encode_frame([FrameSeries("loss", buckets, 1)]))

    assert [math.isnan(value) for value in columns["high"]] == [True, True, False]


@pytest.mark.parametrize("amount", [1, 16, 17, 40])
def test_few_columns_are_written_as_many_are(amount) -> None:
    grown = curve(*range(50), ranks=2)
    new = [*range(51, 51 + amount)]
    values = [1e39, -math.inf, float(2**128 - 2**103), -3.4e38, *map(float, new)][:amount]
    grown.add([0] * amount, new, values, version=2)
    by_array = curve(*range(50), ranks=2)
    by_array.add(0, new, values, version=2)

    (ours,) = read(encode_frame([FrameSeries("loss", grown.buckets(1), 2)]))[1]
    (theirs,) = read(encode_frame([FrameSeries("loss", by_array.buckets(), 2)]))[1]

    for name, column in ours.items():
        assert np.array_equal(column, theirs[name][-amount:], equal_nan=True)


def test_a_hundred_new_points_take_less_than_four_kilobytes() -> None:
    grown = curve(*range(1, 101), ranks=1)

    frame = encode_frame(
        [FrameSeries("main/loss", grown.buckets(), 1)], feed="0" * 16, version=10**6
    )

    assert len(frame) < 4_000
    assert len(frame) - 100 * BUCKET_BYTES < 300
