"""Which output files are due, their keys, and the text of a run's log."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from workbench.core.node.output_files import (
    LONGEST_PAUSE_SECONDS,
    MOST_SECONDS,
    QUIET_SECONDS,
    FileState,
    LogText,
    is_due,
    key_of,
    pause_after,
    point_line,
    update_unsent,
)


def test_a_file_is_due_once_it_has_not_changed_for_a_moment():
    file = update_unsent(None, FileState(10, 1), 100.0)
    assert not is_due(file, 100.0 + QUIET_SECONDS / 2)

    file = update_unsent(file, FileState(20, 2), 101.0)

    assert not is_due(file, 101.0 + QUIET_SECONDS / 2)
    assert is_due(update_unsent(file, FileState(20, 2), 105.0), 101.0 + QUIET_SECONDS)


def test_a_file_that_changes_all_the_time_is_due_periodically():
    file = None
    for second in range(int(MOST_SECONDS) + 1):
        file = update_unsent(file, FileState(second, second), float(second))

    assert is_due(file, MOST_SECONDS)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", "d/x"])), max_size=30))
def test_no_two_nodes_have_one_key_and_each_file_keeps_its_own(writes):
    owners: dict[str, str] = {}

    keys: dict[str, set[tuple[str, str]]] = {}
    for node, path in writes:
        keys.setdefault(key_of(path, node, owners), set()).add((node, path))

    assert all(len(files) == 1 for files in keys.values())
    assert {path for _, path in writes} <= keys.keys()


def test_a_failure_is_tried_again_later_each_time_but_not_too_late():
    pauses = [pause_after(failures) for failures in range(1, 20)]

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (1.0, LONGEST_PAUSE_SECONDS)


@given(st.lists(st.tuples(st.integers(0, 3), st.text("ab\n", max_size=5)), max_size=40))
def test_a_log_has_each_ranks_lines_whole_and_in_order(pieces):
    log = LogText()

    text = log.feed(pieces[:20]) + log.feed(pieces[20:]) + log.rest()

    for rank in range(4):
        said = "".join(piece for who, piece in pieces if who == rank)
        lines = said.split("\n")
        lines = lines if lines[-1] else lines[:-1]
        marker = f"{rank} | "
        assert [x[len(marker) :] for x in text.splitlines() if x.startswith(marker)] == lines


def test_a_point_that_is_no_number_is_null():
    row = json.loads(point_line(1, 7, 12.5, "loss", math.nan))

    assert row == {"rank": 1, "iteration": 7, "time": 12.5, "name": "loss", "value": None}
    assert json.loads(point_line(0, 1, 1.0, "loss", math.inf))["value"] is None
    assert json.loads(point_line(0, 1, 1.0, "loss", 0.5))["value"] == 0.5
