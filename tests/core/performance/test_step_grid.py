"""The model in arrays agrees with the scalar model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.performance.exchange_model import CODINGS, Coding, Link
from workbench.core.performance.step_grid import GridTypes, step_seconds
from workbench.core.performance.step_model import Work, WorldShape, step

SIZES = np.arange(1, 21)


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        Work,
        compute=st.floats(0.01, 1),
        nbytes=st.floats(0, 1e9),
        batch=st.integers(1, 64),
        data=st.floats(0, 0.1),
        other=st.floats(0, 0.1),
        messages=st.integers(1, 200),
        spread=st.floats(0, 0.2),
        hidden=st.floats(0, 1),
    ),
    st.lists(st.tuples(st.floats(1e6, 1e11), st.integers(1, 16)), min_size=1, max_size=4),
    st.sampled_from(CODINGS),
    st.builds(Link, st.floats(0, 1e-3), st.floats(1e8, 1e11), st.floats(1e8, 1e12)),
)
def test_arrays_say_what_the_model_says_of_each_shape(
    work: Work, drawn: list[tuple[float, int]], coding: Coding, memory: Link
) -> None:
    bandwidths, ranks = zip(*drawn, strict=True)
    types = GridTypes(np.array(bandwidths), np.array(ranks), np.ones(len(ranks)))
    link = Link(50e-6, 1.0)

    own, whole = step_seconds(work, types, SIZES, link, memory, coding=coding)

    for row, (bandwidth, per_node) in enumerate(drawn):
        for column, nodes in enumerate(SIZES.tolist()):
            shape = WorldShape(nodes, replace(link, bandwidth=bandwidth), per_node, memory)
            assert whole[row, column] == pytest.approx(step(work, shape, coding=coding).total)
            assert own[row, column] == pytest.approx(work.own)


def test_a_type_twice_as_fast_computes_in_half_the_time() -> None:
    types = GridTypes(np.array([1e9, 1e9]), np.array([1, 1]), np.array([1.0, 2.0]))

    own, _ = step_seconds(Work(0.2, 1e6), types, SIZES, Link(0, 1.0), Link(0, 1e9))

    assert own[0, 0] == 2 * own[1, 0]


def test_a_smaller_batch_is_taken_for_each_shape() -> None:
    types = GridTypes(np.array([1e9]), np.array([2]), np.ones(1))
    batch = 64 / (2 * SIZES[None, :])

    own, _ = step_seconds(
        Work(0.2, 1e6, batch=64), types, SIZES, Link(0, 1.0), Link(0, 1e9), batch=batch
    )

    assert own[0] == pytest.approx(0.2 / (2 * SIZES))
