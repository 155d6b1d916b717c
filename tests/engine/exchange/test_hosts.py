"""The contract holds between hosts of several ranks each, where the hierarchy is at its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.place import Place
from benchmarks.shaped import ShapedHosts, shape
from tests.engine.conftest import WATCHED
from tests.rehearsal.hosts import Hosts, why_not

from .contract import EXACT, READY

pytestmark = [pytest.mark.mpi, pytest.mark.root]

# Slow beside the hosts' memory, also where other programs take the cores.
MBITS = 200.0

PROGRAM = (
    WATCHED
    + EXACT
    + """
comm = make("auto")
found["shape"] = [comm.reducer.nodes, comm.reducer.per_node, comm.overlaps]
for name in ("auto", "hierarchical"):
    comm = make(name)
    gradients = [np.ones(300_000, "f4"), np.ones(9, "f4")]
    gradients[0][-1] = np.nan if rank == 3 else 1
    try:
        means_of(comm, gradients, ["/a", "/b"])
    except WorkbenchError as error:
        found[f"nan {name}"] = str(error)
for codec in Codec:
    comm = make("auto", compress=str(codec))
    got = means_of(comm, [np.random.RandomState(rank).rand(300, 200).astype("f4")])
    found[f"alike {codec}"] = same_on_all(got)
found["rank"] = rank
print("found: " + json.dumps(found), flush=True)
"""
)

CHOICE = (
    WATCHED
    + READY
    + """
reducer = make("auto").reducer
found["chosen"] = [str(reducer.algorithm(nbytes)) for nbytes in (4, 100_000_000)]
found["measured"] = [repr(reducer.link), repr(reducer.memory)]
found["rank"] = rank
print("found: " + json.dumps(found), flush=True)
"""
)


OVER_SOCKETS = (
    WATCHED
    + EXACT
    + """
found["sockets"] = make("auto").reducer.lanes.count
found["rank"] = rank
print("found: " + json.dumps(found), flush=True)
"""
)


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
    return on_two(two, PROGRAM)


def on_two(two: ShapedHosts, text: str, sockets: int = 1) -> list[dict[str, Any]]:
    """Run a program on two ranks of each host; return what each found."""
    program = two.hosts.folder / "program.py"
    program.write_text(text)
    return two.mpi(program, "/tmp", "0", nodes=2, per_node=2, sockets=sockets)


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


def test_means_over_several_sockets_are_exact_too(two) -> None:
    for mine in on_two(two, OVER_SOCKETS, sockets=3):
        assert mine["sockets"] == 3
        assert mine["wrong"] == []


def test_a_slow_link_between_hosts_is_measured_and_crossed_by_the_hierarchy(two, found) -> None:
    # After what is exact: that would take minutes over such links.
    for host in two.hosts:
        shape(host, MBITS)
    for mine in on_two(two, CHOICE):
        assert mine["chosen"][1] == "hierarchical", mine["measured"]
        assert mine["chosen"][0] != "hierarchical", mine["measured"]
