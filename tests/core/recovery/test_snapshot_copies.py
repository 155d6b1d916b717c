"""What a durable place has of a run, who may write there, and which copies are made."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from workbench.core.recovery.snapshot_copies import (
    METERED_RATE,
    SHORTEST_PAUSE_SECONDS,
    CopiesLeft,
    SnapshotIndex,
    Transfer,
    beyond_limit,
    claim_index,
    copies_left,
    decode_index,
    encode_index,
    extend_index,
    find_needed,
    pause_after,
    to_bring,
    to_copy,
)
from workbench.core.recovery.snapshots import SnapshotFile, SnapshotManifest

RUN = "261123-100000-abcd"


def manifest(iteration: int, *, attempt=1, training=1, final=False) -> SnapshotManifest:
    files = (SnapshotFile("trainer.npz", 10, 7),)
    return SnapshotManifest(RUN, attempt, 1, training, iteration, 0.5, 2, final=final, files=files)


OLD, NEW, NEWEST = manifest(5), manifest(9), manifest(12)
END = manifest(7, training=1, final=True)


def test_an_index_is_read_as_it_was_written() -> None:
    index = SnapshotIndex(RUN, 3, (OLD, NEW))

    assert decode_index(encode_index(index), RUN) == index


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value"),
        ("[]", "damaged"),
        ("{}", "damaged"),
        ('{"format": 2}', "it has format 2, and this version reads 1"),
        (encode_index(SnapshotIndex("another", 1)), "another run"),
        (encode_index(SnapshotIndex(RUN, 1, (replace(OLD, run="another"),))), "another run"),
        (
            json.dumps({**json.loads(encode_index(SnapshotIndex(RUN, 1))), "attempt": "1"}),
            "damaged",
        ),
    ],
)
def test_what_is_no_index_of_this_run_is_refused(text, problem) -> None:
    with pytest.raises(ValueError, match=problem):
        decode_index(text, RUN)


def test_a_later_attempt_takes_over_and_an_earlier_one_is_refused() -> None:
    index = claim_index(None, RUN, 2)

    assert index == SnapshotIndex(RUN, 2)
    assert claim_index(index, RUN, 2) == index
    assert claim_index(index, RUN, 1) is None
    assert claim_index(SnapshotIndex(RUN, 2, (OLD,)), RUN, 3) == SnapshotIndex(RUN, 3, (OLD,))


def test_a_late_snapshot_of_an_earlier_attempt_is_refused() -> None:
    assert extend_index(SnapshotIndex(RUN, 2, (OLD,)), NEW) is None


def test_a_place_keeps_what_a_node_keeps() -> None:
    index, gone = extend_index(SnapshotIndex(RUN, 1, (OLD, END, NEW)), NEWEST) or (None, [])

    assert index == SnapshotIndex(RUN, 1, (END, NEW, NEWEST))
    assert gone == [OLD]


def test_a_snapshot_that_is_stored_again_is_there_once() -> None:
    assert extend_index(SnapshotIndex(RUN, 1, (OLD, NEW)), NEW) == (
        SnapshotIndex(RUN, 1, (OLD, NEW)),
        [],
    )


def test_a_run_needs_its_newest_snapshot_and_the_ends_of_its_trainings() -> None:
    second = manifest(20, training=2)

    assert find_needed([OLD, END, second]) == [second, END]
    assert find_needed([]) == []


def test_nothing_is_brought_where_a_survivor_has_it() -> None:
    held = {"": [OLD], "a": [OLD, NEW], "b": []}

    assert to_bring(held, ["b", "a"]) == []
    assert to_bring({"": [], "b": []}, ["b"]) == []


def test_new_nodes_get_the_newest_from_wherever_it_is() -> None:
    held = {"": [OLD], "gone": [OLD, NEW], "b": []}

    assert to_bring(held, ["b"]) == [Transfer(NEW, "gone")]
    assert to_bring({"": [NEW], "b": [OLD]}, ["b", "c"]) == [Transfer(NEW, "")]


def test_a_damaged_snapshot_is_taken_from_another_place_or_the_one_before_it_is() -> None:
    held = {"": [OLD, NEW], "old": [NEW], "b": []}

    assert to_bring(held, ["b"], {("", NEW.name)}) == [Transfer(NEW, "old")]
    both = {("", NEW.name), ("old", NEW.name)}
    assert to_bring(held, ["b"], both) == [Transfer(OLD, "")]


def test_only_what_a_place_lacks_and_needs_is_copied() -> None:
    assert to_copy([OLD, NEW], []) == [NEW]
    assert to_copy([OLD, NEW], [NEW]) == []
    assert to_copy([END, manifest(20, training=2)], [OLD]) == [manifest(20, training=2), END]
    assert to_copy([OLD], [NEW]) == []


def test_copies_pause_so_that_they_take_a_share_of_a_connection_and_of_a_bill() -> None:
    assert pause_after(1_000, 0.1, is_metered=False) == SHORTEST_PAUSE_SECONDS
    assert pause_after(1_000, 60.0, is_metered=False) == 240.0
    nbytes = int(METERED_RATE * 500)
    assert pause_after(nbytes, 1.0, is_metered=True) == pytest.approx(500, rel=1e-6)


def test_the_oldest_ended_runs_make_room_and_active_ones_never_do() -> None:
    sizes = {"first": 40, "second": 40, "active": 100, "third": 5}

    assert beyond_limit(sizes, ["first", "gone", "second", "third"], 150) == ["first"]
    assert beyond_limit(sizes, ["first", "second", "third"], 10) == ["first", "second", "third"]
    assert beyond_limit(sizes, ["first"], 185) == []


@pytest.mark.parametrize(
    ("held", "damaged", "left"),
    [
        ({}, [], CopiesLeft.NOTHING),
        ({"here": [], "a": []}, [], CopiesLeft.NOTHING),
        ({"here": [], "a": [OLD]}, [], CopiesLeft.SOME),
        ({"here": [], "a": None}, [], CopiesLeft.UNKNOWN),
        ({"here": [OLD], "a": None}, [], CopiesLeft.SOME),
        ({"here": [OLD], "a": []}, [("here", OLD.name)], CopiesLeft.NOTHING),
        ({"here": [OLD], "a": None}, [("here", OLD.name)], CopiesLeft.UNKNOWN),
        ({"here": [OLD], "a": [OLD]}, [("here", OLD.name)], CopiesLeft.SOME),
    ],
)
def test_nothing_is_left_only_if_each_place_was_asked(held, damaged, left) -> None:
    assert copies_left(held, damaged) is left
