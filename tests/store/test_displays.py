"""Displays are stored in the order of the output, with only the newest state of each place."""

from __future__ import annotations

import itertools

import pytest

from workbench.core.run.display import CLEAR, DISPLAY, RUN_DISPLAYS, UPDATE, Display
from workbench.core.run.rank_protocol import Batch, Chunk
from workbench.store.displays import DisplayContent


@pytest.fixture
def tell(store, run):
    """Have a rank write and display; return what there is to read behind ``after``."""
    sequences = {rank: itertools.count(1) for rank in range(2)}

    def tell(*chunks, rank=0, after=0):
        store.reports.add_batches([Batch(run, rank, next(sequences[rank]), chunks=chunks)])
        return [
            (row.sequence, row.stream, row.text, row.place)
            for row in store.reports.output(run, after)
        ]

    return tell


def text(words: str) -> Chunk:
    return Chunk("stdout", 0.0, words)


def figure(place: int, words: str = "<Figure>", action: str = DISPLAY) -> Display:
    return Display(action, 0.0, place, {"text/plain": words, "image/png": "AAAA"})


def test_a_display_is_between_what_was_written_before_and_after(tell, store, run) -> None:
    rows = tell(text("a\n"), figure(1), text("b\n"))

    assert rows == [
        (1, "stdout", "a\n", 0),
        (2, "display", "<Figure>\n", 2),
        (3, "stdout", "b\n", 0),
    ]
    assert store.displays.find(run, 2) == DisplayContent(
        {"text/plain": "<Figure>", "image/png": "AAAA"}, {}
    )


def test_an_update_changes_its_place_and_is_news_once(tell, store, run) -> None:
    tell(figure(1), text("b\n"))
    tell(figure(1, "<second>", UPDATE))

    rows = tell(figure(1, "<third>", UPDATE))

    assert rows == [
        (1, "display", "<third>\n", 1),
        (2, "stdout", "b\n", 0),
        (4, "update", "", 1),
    ]
    assert store.displays.find(run, 1).data["text/plain"] == "<third>"


def test_after_a_clearing_displays_are_gone_and_text_stays_in_the_log(tell, store, run) -> None:
    tell(text("a\n"), figure(1))
    tell(Display(CLEAR, 0.0), figure(2, "<second>"))

    rows = tell(Display(CLEAR, 0.0), figure(3, "<third>"))

    assert rows == [
        (1, "stdout", "a\n", 0),
        (5, "clear", "", 0),
        (6, "display", "<third>\n", 6),
    ]
    assert store.displays.find(run, 2) is None
    assert store.displays.count(run) == {0: 1}


def test_a_clearing_that_nothing_follows_is_read_by_who_has_read_before_it(tell) -> None:
    tell(figure(1))

    assert tell(Display(CLEAR, 0.0), after=1) == [(2, "clear", "", 0)]
    assert tell(Display(CLEAR, 0.0), after=2) == [(3, "clear", "", 0)]


def test_ranks_do_not_touch_each_others_places(tell, store, run) -> None:
    tell(figure(1))
    tell(figure(1, "<other>"), rank=1)

    tell(Display(CLEAR, 0.0), rank=1)

    assert store.displays.count(run) == {0: 1}
    assert store.displays.find(run, 1).data["text/plain"] == "<Figure>"


def test_an_update_of_what_is_not_there_is_passed_over(tell) -> None:
    assert tell(figure(7, action=UPDATE), text("a\n")) == [(1, "stdout", "a\n", 0)]


def test_a_rank_cannot_name_a_stream_of_ours(tell) -> None:
    assert tell(Chunk("update", 0.0, "no number")) == [(1, "stdout", "no number", 0)]


def test_of_a_rank_that_knows_no_bounds_the_words_are_kept(tell, store, run) -> None:
    tell(*(figure(place) for place in range(1, 3 * RUN_DISPLAYS)))

    assert store.displays.count(run) == {0: 2 * RUN_DISPLAYS}
    assert store.reports.output(run, 0)[-1].text == "<Figure>\n"


def test_the_newest_are_read_first_up_to_a_bound(tell, store, run) -> None:
    tell(*(figure(place, "x" * 96) for place in range(1, 6)))

    assert sorted(store.displays.newest(run, 250)) == [4, 5]


def test_a_tail_counts_words_and_holes_are_not_taken_for_something_left_out(
    tell, store, run
) -> None:
    tell(figure(1), text("a\n"))
    for _ in range(5):
        tell(figure(1, action=UPDATE))

    assert store.reports.output_tail(run, 2, 1000) == 2
