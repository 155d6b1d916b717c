"""What rank 0 writes and displays is below the cell, as if the cell had run in this kernel."""

from __future__ import annotations

import pytest

from workbench.notebook.cell_output import InlineOutput
from workbench.store import OutputRow
from workbench.store.displays import DisplayContent


class Cell:
    """A cell's output as a notebook keeps it: the run's own first."""

    def __init__(self) -> None:
        self.outputs: list[list[str]] = [["run"]]
        self.places: dict[str, int] = {}
        self.calls = 0

    def write(self, stream: str, text: str) -> None:
        if self.outputs[-1][0] == stream:
            self.outputs[-1][1] += text
        else:
            self.outputs.append([stream, text])

    def put(self, place, bundle, metadata) -> None:
        assert metadata["workbench"] == {"run": "a-run"}
        self.calls += 1
        if place not in self.places:
            self.places[place] = len(self.outputs)
            self.outputs.append([])
        self.outputs[self.places[place]] = ["put", bundle["text/plain"]]

    def clear(self) -> None:
        self.outputs.clear()
        self.places.clear()


@pytest.fixture
def cell() -> Cell:
    return Cell()


@pytest.fixture
def feed(cell):
    """Feed the cell with (stream, text or words, place)."""
    inline = InlineOutput("a-run", cell, lambda: cell.outputs.append(["run"]))

    def feed(*rows) -> list[list[str]]:
        made = [OutputRow(0, 0, stream, 0.0, text, *place) for stream, text, *place in rows]
        words = {row.place: DisplayContent({"text/plain": row.text}, {}) for row in made}
        inline.feed(made, words.get)
        return cell.outputs

    return feed


def test_text_and_displays_are_in_order(feed) -> None:
    shown = feed(("stdout", "a"), ("stdout", "b"), ("display", "fig", 3), ("stderr", "c"))

    assert shown == [["run"], ["stdout", "ab"], ["put", "fig"], ["stderr", "c"]]


def test_an_update_takes_its_place(feed) -> None:
    feed(("display", "fig", 1), ("stdout", "a"))

    assert feed(("update", "new", 1), ("update", "gone", 7)) == [
        ["run"], ["put", "new"], ["stdout", "a"],
    ]  # fmt: skip


def test_text_is_cleared_and_the_runs_own_output_stays(feed) -> None:
    feed(("stdout", "a"), ("display", "fig", 2))

    assert feed(("clear", ""), ("stdout", "b\n")) == [["run"], ["put", "b\n"]]


def test_a_figure_that_is_drawn_again_and_again_keeps_its_output(feed, cell) -> None:
    feed(("display", "0", 1))
    for step in range(1, 50):
        feed(("clear", ""), ("display", str(step), 1 + step))

    assert cell.outputs == [["run"], ["put", "49"]]
    assert cell.calls == 50


def test_text_between_clearings_is_put_together(feed) -> None:
    feed(("clear", ""), ("stdout", "10%\r"))

    assert feed(("stdout", "20%\r"), ("stderr", "30%\nx")) == [["run"], ["put", "30%\nx"]]
    assert feed(("display", "fig", 5), ("stdout", "y")) == [
        ["run"], ["put", "30%\nx"], ["put", "fig"], ["put", "y"],
    ]  # fmt: skip


def test_what_is_no_longer_needed_is_empty(feed) -> None:
    feed(("display", "a", 1), ("display", "b", 2))

    assert feed(("clear", ""), ("display", "c", 4)) == [["run"], ["put", "c"], ["put", ""]]
    assert feed(("clear", "")) == [["run"], ["put", ""], ["put", ""]]


def test_what_was_taken_away_meanwhile_is_passed_over(cell) -> None:
    inline = InlineOutput("a-run", cell, lambda: None)

    inline.feed([OutputRow(1, 0, "display", 0.0, "fig", 1)], lambda place: None)

    assert cell.outputs == [["run"]]
