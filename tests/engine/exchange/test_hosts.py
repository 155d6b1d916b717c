"""The contract holds between hosts of several ranks each, with the hierarchical algorithm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.place import Place
from benchmarks.shaped import ShapedHosts, shape
from tests.rehearsal.hosts import Hosts, why_not
from tests.weekly import WEEKLY

pytestmark = [pytest.mark.mpi, pytest.mark.root, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).parent / "programs"
# Slow beside the hosts' memory, also where other programs take the cores.
MBITS = 200.0


@pytest.fixture(scope="module")
def two() -> Iterator[ShapedHosts]:
    """Two hosts whose links are as quick as the machine."""
    if reason := why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with Place() as place, Hosts(2) as hosts:
        yield ShapedHosts(hosts, place, 0.0)


@pytest.fixture(scope="module")
def found(two) -> list[dict[str, Any]]:
    """What each rank of two hosts with two ranks found."""
    return on_two(two, "between_hosts.py")


def on_two(
    two: ShapedHosts, program: str, *arguments: str, sockets: int = 1
) -> list[dict[str, Any]]:
    """Run a program on two ranks of each host; return what each found."""
    words = "/tmp", "0", *arguments
    return two.mpi(PROGRAMS / program, *words, nodes=2, per_node=2, sockets=sockets)


def test_means_between_hosts_are_exact_with_the_same_bits_on_all_ranks(found) -> None:
    assert len(found) == 4
    for mine in found:
        assert mine["shape"] == [2, 2, True]
        assert mine["wrong"] == []


def test_each_codec_ends_with_the_same_bits_on_all_ranks_of_all_hosts(found) -> None:
    for mine in found:
        assert len([what for what in mine if what.startswith("alike")]) == 6
        assert all(value for what, value in mine.items() if what.startswith("alike"))


@pytest.mark.parametrize("name", ["auto", "hierarchical"])
def test_a_rank_of_another_host_whose_gradient_is_not_finite_is_named(found, name) -> None:
    for mine in found:
        assert "The gradient of /a on rank 3 is not finite" in mine[f"nan {name}"]


@pytest.mark.weekly  # one socket a link is tried above
def test_means_over_several_sockets_are_exact_too(two) -> None:
    # Every kind of gradient goes over one socket above, and weekly over several too.
    for mine in on_two(two, "over_sockets.py", "all" if WEEKLY else "few", sockets=3):
        assert mine["sockets"] == 3
        assert mine["wrong"] == []


def test_a_slow_link_between_hosts_is_measured_and_crossed_by_the_hierarchy(two, found) -> None:
    # After what is exact: that would take minutes over such links.
    for host in two.hosts:
        shape(host, MBITS)
    for mine in on_two(two, "link_choice.py"):
        assert mine["chosen"][1] == "hierarchical", mine["measured"]
        assert mine["chosen"][0] != "hierarchical", mine["measured"]


@pytest.mark.weekly
def test_a_node_whose_link_is_slow_gets_a_part_that_spares_it() -> None:
    if reason := why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with Place() as place, Hosts(3) as hosts:
        for number, host in enumerate(hosts):
            shape(host, MBITS / 4 if number == 1 else MBITS)
        three = ShapedHosts(hosts, place, MBITS)
        for mine in three.mpi(PROGRAMS / "slow_node.py", "/tmp", "0", nodes=3):
            assert mine["shares"][2] > 0.8, mine["shares"]
            assert mine["wrong"] == []
