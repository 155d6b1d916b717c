"""Encode curves and read them back: they continue as if they had never been saved."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.curves.downsampling import Curve, decode_curves, encode_curves

POINTS = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 200), st.floats(-9, 9) | st.sampled_from([np.nan, np.inf])
    ),
    max_size=60,
)


def added(curve: Curve, points: list[tuple[int, int, float]]) -> Curve:
    for rank, iteration, value in points:
        curve.add(rank, iteration, value)
    return curve


def drawn(curve: Curve) -> str:
    return repr((curve.width, curve.nonfinite, curve.nonfinite_first, curve.ranks, curve.trace()))


@given(POINTS, POINTS)
def test_a_saved_curve_continues_as_the_one_that_was_never_saved(before, after):
    saved = decode_curves(encode_curves({"loss": added(Curve(16), before), "": Curve(2)}))

    assert [*saved] == ["loss", ""]
    assert drawn(added(saved["loss"], after)) == drawn(added(Curve(16), before + after))


@given(POINTS)
def test_a_saved_curve_is_thinned_to_what_a_smaller_one_has(points):
    ordered = sorted(points, key=lambda point: point[1])
    saved = decode_curves(encode_curves({"loss": added(Curve(64), ordered)}))["loss"]

    assert drawn(saved.thin(16)) == drawn(added(Curve(16), ordered))


def test_its_buckets_are_new_to_every_page():
    saved = decode_curves(
        encode_curves({"loss": added(Curve(4), [(0, i, i) for i in range(40)])}), 7
    )

    assert saved["loss"].buckets(since=6).fresh
    assert len(saved["loss"].buckets(since=7)) == 0


def changed(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    right = np.load(io.BytesIO(encode_curves({"loss": added(Curve(4), [(0, 1, 2.0)])})))
    np.savez(file, **{**{key: right[key] for key in right.files}, **arrays})
    return file.getvalue()


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"PK torn",
        encode_curves({"loss": Curve(4)})[:-30],
        changed(**{"0/low": np.zeros(3)}),
        changed(**{"0/counts": np.zeros(1, np.int64)}),
        changed(names=np.frombuffer(b'["loss", "accuracy"]', np.uint8)),
    ],
)
def test_damaged_bytes_are_refused(document):
    with pytest.raises(ValueError, match="these are no saved curves"):
        decode_curves(document)
