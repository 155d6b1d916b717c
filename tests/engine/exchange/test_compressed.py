"""Blocks of arrays that follow each other are read and written where they are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.exchange.compressed import FlatParts

SHAPES = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=6)


@given(shapes=SHAPES, most=st.integers(1, 9))
def test_blocks_have_every_element_once_in_order(shapes, most) -> None:
    arrays, whole = _made(shapes)
    flat, found = FlatParts(arrays), []

    for start in range(0, len(whole), most):
        block = np.zeros(min(most, len(whole) - start), "f4")
        for part, at in flat.within(slice(start, start + len(block))):
            block[at] = part
        found += block.tolist()

    assert found == whole.tolist()


@given(shapes=SHAPES, most=st.integers(1, 9))
def test_what_fills_a_block_comes_into_the_arrays(shapes, most) -> None:
    arrays, whole = _made(shapes)
    flat, room = FlatParts(arrays), np.empty(most, "f4")

    for start in range(0, len(whole), most):
        place = slice(start, min(start + most, len(whole)))
        with flat.filling(place, room) as block:
            block[...] = -whole[place]

    assert np.concatenate([one.reshape(-1) for one in arrays]).tolist() == (-whole).tolist()


@given(shapes=SHAPES)
def test_all_elements_are_written_at_once(shapes) -> None:
    arrays, whole = _made(shapes)

    FlatParts(arrays).fill(-whole)

    assert np.concatenate([one.reshape(-1) for one in arrays]).tolist() == (-whole).tolist()


def _made(shapes):
    arrays = [np.random.default_rng(0).random(shape, "f4") for shape in shapes]
    return arrays, np.concatenate([one.reshape(-1) for one in arrays])
