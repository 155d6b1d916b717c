"""A ring's parts are divided so that a slow link carries as little as it must."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.performance.exchange_model import equal_shares, ring_seconds, ring_shares

RATES = st.lists(st.floats(1e6, 1e10), min_size=2, max_size=9)


@given(RATES)
def test_parts_are_a_whole_and_each_rank_comes_to_the_same_ones(rates) -> None:
    shares = ring_shares(rates)

    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= 0
    assert shares == ring_shares([*rates])


@given(st.lists(st.floats(0.7, 1.0), min_size=2, max_size=9))
def test_links_that_scatter_have_equal_parts(rates) -> None:
    assert ring_shares(rates) == equal_shares(len(rates))


@given(st.integers(2, 9), st.integers(0, 8), st.floats(0.01, 0.5))
def test_unequal_parts_never_take_longer_where_one_node_is_slow(ranks, node, slow) -> None:
    rates = [slow if i in (node % ranks, (node - 1) % ranks) else 1.0 for i in range(ranks)]

    took = ring_seconds(rates, ring_shares(rates))

    assert took <= ring_seconds(rates, equal_shares(ranks)) * (1 + 1e-6)


@pytest.mark.parametrize("node", range(4))
def test_a_node_at_a_quarter_sends_and_receives_each_byte_once(node) -> None:
    rates = [0.25 if i in (node, (node - 1) % 4) else 1.0 for i in range(4)]

    assert ring_seconds(rates, equal_shares(4)) == pytest.approx(1.5 / 0.25)
    assert ring_seconds(rates, ring_shares(rates)) == pytest.approx(1 / 0.25, rel=1e-3)
