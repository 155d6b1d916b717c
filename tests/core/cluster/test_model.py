"""Cluster names are validated, and a cluster's fact has a one-line repr."""

from __future__ import annotations

import pytest

from workbench.core.cluster.model import (
    ClusterFact,
    ClusterState,
    ClusterWish,
    check_cluster_name,
    shown_state,
)
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


def test_a_cluster_that_was_never_seen_is_down() -> None:
    assert ClusterFact("default").state is ClusterState.DOWN


def test_the_repr_of_a_cluster_has_its_state() -> None:
    fact = ClusterFact("lab", ClusterState.RESIZING, ranks=2, generation=3)

    assert repr(fact) == "<Cluster lab: resizing, 2 ranks, gen 3>"


@pytest.mark.parametrize(
    ("up", "seen", "shown"),
    [
        (True, "down", "starting"),
        (True, "ready", "ready"),
        (True, "failed", "failed"),
        (False, "ready", "stopping"),
        (False, "down", "down"),
        (False, "failed", "failed"),
        (None, "down", "down"),
    ],
)
def test_what_was_just_asked_for_shows_before_it_is_observed(up, seen, shown) -> None:
    wish = None if up is None else ClusterWish("lab", up=up, ranks=2)

    assert shown_state(wish, ClusterFact("lab", ClusterState(seen))) == shown
