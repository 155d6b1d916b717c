"""Ranks of a rehearsal distinguish their nodes, and send over links of the requested rate."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.contract, pytest.mark.mpi]

EMULATED = Path(__file__).parents[1] / "programs" / "emulated_nodes.py"


def test_ranks_of_one_simulated_node_find_each_other(on_ranks):
    found = on_ranks(EMULATED, 4)

    assert [one["node"] for one in found] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert [one["paced"] for one in found] == [0, 0, 0, 0]  # no slow links were requested


@pytest.mark.either_mpi
def test_a_slow_link_is_slow_between_nodes_alone(on_ranks):
    """2 MB at 10 MB/s take 200 ms, however fast the machine is."""
    found = on_ranks(EMULATED, 4, "times", link=10e6)

    assert [one["paced"] for one in found] == [2, 2, 2, 2]
    for one in found:
        assert one["between"] > 0.15
        assert one["within"] < one["between"] / 2


def test_one_rank_alone_has_no_one_to_be_slow_with(on_ranks):
    assert on_ranks(EMULATED, 1, link=10e6)[0]["paced"] == 0
