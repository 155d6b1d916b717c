"""A recording of spot nodes is read in both forms, and what is none is refused."""

from __future__ import annotations

import math

import pytest

from workbench.core.fleet.spot_history import FORMS, NodeStay, read_history
from workbench.errors import InputError

NAMED = "60000,add,a\n60000,add,b\n3660000,remove,a\n3660000,add,c\n7260000,remove,b\n"
COUNTED = "0,0\n60,0\n60,2\n3660,2\n3660,1\n3660,2\n7260,2\n7260,1\n"


def test_the_first_form_has_each_node_by_name() -> None:
    found = read_history(NAMED, "named.csv")

    assert found.stays == (
        NodeStay("a", 0, 3600), NodeStay("b", 0, 7200), NodeStay("c", 3600, math.inf)
    )  # fmt: skip
    assert (found.seconds, found.most) == (7200, 2)
    assert found.lost_per_hour == pytest.approx(2 / 4)


def test_the_second_form_has_their_number_in_seconds_or_hours() -> None:
    seconds = read_history(COUNTED, "counted.csv")
    hours = read_history("0.0,0\n0.5,2\n1.5,2\n1.5,1\n1.5,2\n2.5,1\n", "hours.csv")

    for found in (seconds, hours):
        assert [(one.begin, one.end) for one in found.stays if one.end == 3600] == [(0, 3600)]
        assert sorted(one.begin for one in found.stays) == [0, 0, 3600]
        assert (found.seconds, found.most) == (7200, 2)


def test_the_same_recording_is_read_alike_twice() -> None:
    assert read_history(COUNTED, "counted.csv") == read_history(COUNTED, "counted.csv")


def test_a_part_begins_with_the_nodes_that_are_there() -> None:
    part = read_history(NAMED, "named.csv").cut(1800, 3600)

    assert part.stays == (
        NodeStay("a", 0, 1800), NodeStay("b", 0, math.inf), NodeStay("c", 1800, math.inf)
    )  # fmt: skip
    assert part.seconds == 3600


@pytest.mark.parametrize(
    "text",
    ["", "1,2,3\n", "x,1\n", "5,1\n4,2\n", "1,one\n", "nan,1\n", "-1,1\n", "1,add,a\n2\n", "1\n"],
)
def test_another_file_is_refused_with_the_forms(text) -> None:
    with pytest.raises(InputError, match=r"other\.csv is no recording") as refused:
        read_history(text, "other.csv")

    assert FORMS in str(refused.value)


def test_a_recording_without_nodes_is_refused() -> None:
    with pytest.raises(InputError, match="No node was ever there"):
        read_history("0,0\n60,0\n", "none.csv")
