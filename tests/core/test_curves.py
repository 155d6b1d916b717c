"""Downsampled curves keep every extreme, and report which buckets changed."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.curves import (
    PATIENCE_SECONDS,
    Curve,
    Ends,
    decode_curves,
    encode_curves,
)


def test_a_short_curve_is_kept_as_it_is() -> None:
    curve = Curve()

    for iteration in range(1, 6):
        curve.add(0, iteration, iteration * 0.5)

    assert curve.trace().iterations == (1, 2, 3, 4, 5)
    assert curve.trace().mean == (0.5, 1.0, 1.5, 2.0, 2.5)
    assert not curve.trace().has_band


def test_ranks_that_differ_make_a_mean_and_a_band() -> None:
    curve = Curve()

    for rank, value in enumerate((1.0, 2.0, 6.0)):
        curve.add(rank, 10, value)

    trace = curve.trace()
    assert (trace.mean, trace.low, trace.high) == ((3.0,), (1.0,), (6.0,))
    assert trace.has_band
    assert curve.ranks == {0, 1, 2}


def test_a_spike_among_very_many_points_survives_in_few_buckets() -> None:
    curve = Curve(capacity=100)

    for iteration in range(20_000):
        curve.add(0, iteration, 9.0 if iteration == 17_777 else 1.0)

    assert len(curve) <= 100
    assert max(curve.trace().high) == 9.0


def test_a_value_that_is_no_number_leaves_a_gap() -> None:
    curve = Curve()

    curve.add(0, 1, math.nan)
    curve.add(0, 2, math.inf)
    curve.add(0, 3, 1.0)

    assert [math.isnan(value) for value in curve.trace().mean] == [True, True, False]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.floats(-1e6, 1e6)), min_size=1, max_size=300),
    st.integers(1, 20),
)
def test_extremes_and_ends_are_kept_whatever_the_order(points, capacity) -> None:
    curve = Curve(capacity)

    for iteration, value in points:
        curve.add(0, iteration, value)

    trace = curve.trace()
    assert len(curve) <= capacity
    assert max(trace.high) == max(value for _, value in points)
    assert min(trace.low) == min(value for _, value in points)
    assert list(trace.iterations) == sorted(trace.iterations)


def test_a_bucket_has_the_median_of_the_ranks_and_the_mean_of_the_marked_one() -> None:
    curve = Curve()

    curve.add([0, 1, 2, 0], [7, 7, 7, 8], [1.0, 2.0, 9.0, 5.0])

    buckets = curve.buckets(marked=2)
    assert buckets.median.tolist() == [2.0, 5.0]
    assert buckets.marked[0] == 9.0
    assert math.isnan(buckets.marked[1])


def test_only_what_changed_after_a_version_is_given() -> None:
    curve = Curve()
    curve.add(0, [1, 2, 3], [1.0, 2.0, 3.0], version=1)

    curve.add(1, [3, 4], [5.0, 4.0], version=2)

    changed = curve.buckets(since=1)
    assert not changed.fresh
    assert changed.x.tolist() == [3, 4]
    assert changed.median.tolist() == [4.0, 4.0]
    assert len(curve.buckets(since=2)) == 0


def test_after_buckets_merged_all_are_given_afresh() -> None:
    curve = Curve(capacity=4)
    curve.add(0, [0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0], version=1)

    curve.add(0, 4, 5.0, version=2)

    assert (curve.buckets(since=1).fresh, curve.buckets(since=2).fresh) == (True, False)
    assert curve.buckets(since=1).x.tolist() == [0.5, 2.5, 4.0]


def test_values_that_are_no_numbers_are_counted() -> None:
    curve = Curve()

    curve.add(0, [5, 4, 6], [math.nan, 1.0, math.inf])
    curve.add(0, 3, -math.inf)

    assert (curve.nonfinite, curve.nonfinite_first) == (3, 3)


def test_a_thinned_copy_leaves_the_curve_as_it_is() -> None:
    curve = Curve()
    curve.add(0, range(100), [float(i) for i in range(100)])

    thin = curve.thin(10)

    assert (len(thin), len(curve)) == (7, 100)
    assert max(thin.trace().high) == 99.0


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 4), st.integers(0, 500), st.floats(-1e3, 1e3)),
            min_size=1,
            max_size=40,
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 30),
)
def test_batches_make_the_curve_that_single_values_make(batches, capacity) -> None:
    together, alone = Curve(capacity), Curve(capacity)

    for batch in batches:
        together.add(*zip(*batch, strict=True))
        for point in batch:
            alone.add(*point)

    ours, theirs = together.buckets(marked=1), alone.buckets(marked=1)
    assert ours.width == theirs.width
    for field in ("x", "index", "low", "median", "high", "mean", "marked"):
        assert getattr(ours, field) == pytest.approx(getattr(theirs, field), nan_ok=True, abs=1e-9)


def test_the_newest_buckets_wait_for_all_ranks() -> None:
    curve = Curve()
    curve.add(0, [0, 1, 2], [1.0, 1.0, 1.0], version=1)
    curve.add(1, [0, 1], [3.0, 3.0], version=1)

    assert curve.settle(0.0, version=2)
    assert curve.buckets().median.tolist() == [2.0, 2.0]

    curve.add(1, [2], [3.0], version=3)
    assert curve.settle(0.1, version=4)
    assert curve.buckets(since=2).median.tolist() == [2.0]


def test_a_rank_that_is_far_behind_holds_nothing_up_for_long() -> None:
    curve = Curve()
    curve.add([0, 0, 1], [0, 1, 0], [1.0, 2.0, 3.0], version=1)
    curve.settle(0.0, version=2)

    assert not curve.settle(PATIENCE_SECONDS / 2, version=3)
    assert curve.settle(PATIENCE_SECONDS, version=4)

    assert curve.buckets(since=3).median.tolist() == [2.0]
    assert not curve.settle(2 * PATIENCE_SECONDS, version=5)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 40), st.floats(0, 2)), min_size=1, max_size=60
    ),
    st.integers(2, 8),
)
def test_a_page_that_takes_what_is_offered_each_time_has_everything_at_the_end(
    reports, capacity
) -> None:
    curve, taken, version, now = Curve(capacity), {}, 0, 0.0
    for rank, iteration, passed in reports:
        seen, version, now = version, version + 2, now + passed
        curve.add(rank, [iteration], [float(rank)], version=version - 1)
        curve.settle(now, version)
        _take(curve.buckets(seen), taken)
    curve.settle(now, version + 1, whole=True)
    _take(curve.buckets(version), taken)

    whole = curve.buckets()
    assert taken == dict(zip(whole.index.tolist(), whole.mean.tolist(), strict=True))


def _take(buckets, taken) -> None:
    if buckets.fresh:
        taken.clear()
    taken.update(zip(buckets.index.tolist(), buckets.mean.tolist(), strict=True))


_SOME = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 60),
        st.floats(-9, 9) | st.sampled_from([math.nan, math.inf, -math.inf]),
    ),
    max_size=12,
)


@given(st.lists(_SOME, max_size=12), st.sampled_from([3, 8, 2_000]), st.data())
def test_lists_make_the_curve_that_arrays_make(batches, capacity, data) -> None:
    by_list, by_array = Curve(capacity), Curve(capacity)
    version = 0
    for batch in batches:
        version += 1
        ranks, iterations, values = map(list, zip(*batch, strict=True)) if batch else ([], [], [])
        by_list.add(ranks, iterations, values, version)
        by_array.add(np.array(ranks), np.array(iterations), np.array(values), version)
        if data.draw(st.booleans()):
            whole = data.draw(st.booleans())
            offered = by_list.settle(float(version), version + 1, whole=whole)
            assert offered == by_array.settle(float(version), version + 1, whole=whole)
            version += offered
        for since in {-1, data.draw(st.integers(0, version)), version - 1, version}:
            _assert_same(by_list.buckets(since, 1), by_array.buckets(since, 1))
        assert (by_list.nonfinite, by_list.ranks) == (by_array.nonfinite, by_array.ranks)
        assert by_list.nonfinite_first == by_array.nonfinite_first


@given(st.lists(_SOME, max_size=6))
def test_lists_and_arrays_may_take_turns(batches) -> None:
    mixed, by_array = Curve(8), Curve(8)
    for version, batch in enumerate(batches, 1):
        columns = [*zip(*batch, strict=True)] if batch else [(), (), ()]
        kind = list if version % 2 else np.array
        mixed.add(*map(kind, columns), version)
        by_array.add(*map(np.array, columns), version)
        mixed.settle(0.0, version)
        by_array.settle(0.0, version)
        for since in range(version + 1):
            _assert_same(mixed.buckets(since), by_array.buckets(since))


def _assert_same(one, other) -> None:
    assert (one.fresh, one.width) == (other.fresh, other.width)
    for name in ("x", "index", "low", "median", "high", "mean", "marked"):
        ours, theirs = getattr(one, name).tolist(), getattr(other, name).tolist()
        assert ours == pytest.approx(theirs, nan_ok=True)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 40), st.floats(-9, 9) | st.just(math.nan))
    ),
    st.booleans(),
)
def test_the_ends_are_those_of_the_buckets(points, is_settled) -> None:
    curve = Curve(capacity=8)
    for rank, iteration, value in points:
        curve.add(rank, iteration, value)
    if is_settled:
        curve.settle(0.0, 1)
    buckets, ends = curve.buckets(), curve.ends()

    finite = np.flatnonzero(np.isfinite(buckets.median))

    if not len(finite):
        assert ends is None
    else:
        first, last = ((buckets.x[i], buckets.median[i]) for i in finite[[0, -1]])
        assert ends == Ends(first, last, finite[-1] == len(buckets) - 1)


def test_buckets_that_a_rank_reports_late_are_not_looked_at_again_and_again() -> None:
    curve = Curve(1_000)
    curve.add([0, 1], [0, 0], [1.0, 1.0], version=1)
    curve.settle(0.0, version=2)
    for iteration in range(1, 200):
        curve.add([0], [iteration], [1.0], version=iteration)
        curve.settle(iteration * 2 * PATIENCE_SECONDS, version=iteration)
        curve.add([1], [iteration - 1], [1.0], version=iteration)

    curve.settle(1e6, version=300)

    assert len(curve._waiting or ()) <= 1


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
