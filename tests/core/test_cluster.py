"""A cluster's name is checked, and its fact reads in one line."""

from __future__ import annotations

import pytest

from workbench.core.cluster import ClusterFact, ClusterState, check_cluster_name
from workbench.errors import InputError


@pytest.mark.parametrize("name", ["default", "a", "9", "lab-2_b.c", "x" * 40])
def test_a_plain_name_is_taken_as_it_is(name) -> None:
    assert check_cluster_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../up", "a/b", "-a", "a b", "a\n", "é", "x" * 41, "a\0"]
)
def test_a_name_that_could_not_be_a_folder_everywhere_is_refused(name) -> None:
    with pytest.raises(InputError) as refusal:
        check_cluster_name(name)

    assert str(refusal.value) == (
        f"{name!r} cannot name a cluster; use 1 to 40 letters, digits, '-', '_' or '.'."
    )


def test_a_cluster_that_nobody_saw_is_down() -> None:
    assert ClusterFact("default").state is ClusterState.DOWN


def test_a_cluster_says_how_it_stands() -> None:
    fact = ClusterFact("lab", ClusterState.RESIZING, ranks=2, generation=3)

    assert repr(fact) == "<Cluster lab: resizing, 2 ranks, gen 3>"
