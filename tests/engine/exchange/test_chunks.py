from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.exchange.bucket_layout import BucketLayout, GradientShape, find_disagreement
from workbench.engine.exchange.chunks import cut

SIZES = st.lists(st.integers(0, 300), max_size=8)


@given(sizes=SIZES, parts=st.integers(1, 9), most=st.integers(1, 100))
def test_pieces_have_every_element_once_in_order_and_parts_are_equal(sizes, parts, most):
    found = cut(sizes, parts, most)

    elements = [(p.number, n) for part in found for p in part for n in range(p.start, p.stop)]
    lengths = [sum(p.stop - p.start for p in part) for part in found]
    assert elements == [(number, n) for number, size in enumerate(sizes) for n in range(size)]
    assert max(lengths) - min(lengths) <= 1
    assert all(p.stop - p.start <= most for part in found for p in part)


@given(sizes=SIZES, nbytes=st.sampled_from([0, 100_000, 1 << 62]))
def test_a_plan_has_every_gradient_once(sizes, nbytes):
    shapes = [GradientShape(f"/{n}", (200, size), "f4") for n, size in enumerate(sizes)]

    plan = BucketLayout(shapes, nbytes, [*range(len(sizes))][::-1])

    assert sorted(plan.all_slots) == [n for n, size in enumerate(sizes) if size]


def test_what_is_completed_last_is_little_if_it_is_compressed():
    shapes = [GradientShape(f"/{n}", (250, 1000), "f4") for n in range(9)]  # 1 MB each

    def sizes(squeezed: bool) -> list[int]:
        plan = BucketLayout(shapes, 4_000_000, is_squeezed=lambda shape: squeezed)
        return [len(bucket.slots) for bucket in plan.buckets]

    assert sizes(squeezed=False) == [4, 4, 1]
    assert sizes(squeezed=True) == [4, 4, 1]
    shapes.append(shapes[0])
    assert sizes(squeezed=False) == [4, 4, 2]
    assert sizes(squeezed=True) == [4, 4, 1, 1]


@given(sizes=SIZES, nbytes=st.sampled_from([0, 100_000, 1 << 62]))
def test_gradients_that_are_few_go_with_the_header_in_one_message(sizes, nbytes):
    shapes = [GradientShape(f"/{n}", (200, size), "f4") for n, size in enumerate(sizes)]

    plan = BucketLayout(shapes, closing_bytes=nbytes)

    assert not plan.buckets or 800 * sum(sizes) > nbytes
    assert sorted(plan.all_slots) == [n for n, size in enumerate(sizes) if size]


def test_ranks_that_agree_have_nothing_to_be_said():
    shapes = [GradientShape("/a", (3, 2), "f4"), GradientShape("/b", (), "f8")]

    assert find_disagreement([shapes, [*shapes], [*shapes]]) is None


def test_the_rank_that_differs_from_most_is_named():
    usual, odd = [GradientShape("/a", (3, 2), "f4")], [GradientShape("/a", (2, 3), "f4")]

    said = str(find_disagreement([usual, odd, usual]))

    assert "/a has shape (2, 3) on rank 1 and (3, 2) on rank 0" in said
