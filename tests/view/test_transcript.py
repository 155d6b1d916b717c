"""Pieces become lines, and lines read as they would in a terminal."""

from __future__ import annotations

import pytest

from workbench.view.transcript import LineReader, render_line


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("hello", "hello"),
        (" 10%|#   |\r 50%|##  |\r\x1b[32m100%|####|\x1b[0m", "100%|####|"),
        ("100%\r\r", "100%"),
        ("\r", ""),
        ("a\tb\x07\x1b]0;title\x07", "a\tb"),
        ("\x9b31mred\x9b0m \x9d0;title\x9cend\x7f\x85", "red end"),
        ("ä\xa0€", "ä\xa0€"),
    ],
)
def test_a_line_is_shown_as_it_was_last_and_without_colours(written, shown):
    assert render_line(written) == shown


def test_lines_cut_in_two_are_put_together():
    reader = LineReader()

    assert reader.feed("o", 100) == []
    assert reader.feed("ne\ntw", 100) == ["one"]
    assert (reader.partial, reader.feed("o\n", 100)) == ("tw", ["two"])


def test_a_progress_bar_without_an_end_takes_no_room():
    reader = LineReader()

    for percent in range(101):
        reader.feed(f"\r{percent}%", 10)

    assert reader.partial == "100%"
    assert reader.feed("\n", 10) == ["100%"]


def test_of_a_line_that_never_ends_the_newest_is_kept():
    reader = LineReader()

    reader.feed("x" * 1000 + "end", 5)

    assert reader.partial == "xxend"
