"""The number of connections that fill a network, and their rate."""

from __future__ import annotations

import pytest

from workbench.core.fleet.connection_limits import MOST_FLOWS, flows_for, limit_rate


@pytest.mark.parametrize(
    ("network", "flow", "count"),
    [(0.0, 5.0, 1), (10.0, 0.0, 1), (5.0, 5.0, 1), (4.7, 5.0, 1), (10.0, 5.0, 2),
     (12.5, 5.0, 3), (12.5, 10.0, 2), (100.0, 5.0, MOST_FLOWS)],
)  # fmt: skip
def test_as_many_connections_as_fill_the_network_and_one_where_that_is_unknown(
    network, flow, count
) -> None:
    assert flows_for(network, flow) == count


def test_connections_carry_no_more_than_the_network() -> None:
    assert limit_rate(12.5, 5.0, 1) == 5.0
    assert limit_rate(12.5, 5.0, 3) == 12.5
    assert limit_rate(12.5, 0.0, 1) == 12.5
