"""What stands below a cell: pictures, folded output, words; and how much of it is sent."""

from __future__ import annotations

import json
import time

from workbench.core.diagnosis import Finding
from workbench.core.run import Run, RunFact, RunKind, RunState, RunWish
from workbench.notebook.listing import findings_table
from workbench.notebook.run_view import RunView
from workbench.view.kept import figure_html
from workbench.view.transcript import KEPT_CHARACTERS, Transcript

# What Jupyter wraps around each message on its way to the page.
ENVELOPE_NBYTES = 700
BOUND_NBYTES = 16_000_000 // 50


class CountingPage:
    """Counts what it is sent."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.places: list[str] = []

    def show(self, place, bundle, *, final=False) -> None:
        self.places.append(place)
        self.nbytes += ENVELOPE_NBYTES + len(json.dumps(dict(bundle)))

    def write(self, stream, text) -> None:
        self.nbytes += ENVELOPE_NBYTES + len(text)


def sent_for(store, stand_in, lines: int, ranks: int) -> int:
    """Return the bytes that a page gets while each rank writes ``lines`` lines."""
    page = CountingPage()
    run = store.wish_run(wish())
    view = RunView(store.run(run.id), page)
    stand_in.begin(store.run(run.id))
    for line in range(lines):
        for rank in range(ranks):
            stand_in.report(store.run(run.id), rank, f"rank {rank} says line {line}: {'x' * 40}\n")
        if line % 5 == 4:
            view.read(store, 1000.0 + line * 0.05)
            view.draw(1000.0 + line * 0.05)
    stand_in.end(store.run(run.id), RunState.FINISHED)
    view.finish(store, 1000.0 + lines * 0.05)
    return page.nbytes


def wish() -> RunWish:
    return RunWish(id=f"250101-{time.time_ns()}", name="chatty", kind=RunKind.CELL, source="pass",
                   cluster="other", ranks=4)  # fmt: skip


def test_400_lines_from_4_ranks_are_a_fiftieth_of_what_px_sends(store, stand_in) -> None:
    assert sent_for(store, stand_in, lines=400, ranks=4) < BOUND_NBYTES


def test_the_bytes_grow_no_faster_than_the_lines(store, stand_in) -> None:
    little = sent_for(store, stand_in, lines=100, ranks=2)
    much = sent_for(store, stand_in, lines=800, ranks=2)

    assert much < 8 * little


def test_nothing_is_drawn_again_when_nothing_is_new(store, stand_in) -> None:
    page = CountingPage()
    view = RunView(Run(wish(), RunFact("x")), page)

    for tick in range(20):
        view.draw(1000.0 + tick * 0.04)

    assert page.places == ["run"]


def drawn_while_followed(store, stand_in, pages: int, seconds: int = 25) -> CountingPage:
    """Return the page of a run that reports all the time, ``pages`` others following it."""
    page = CountingPage()
    run = store.wish_run(wish())
    stand_in.store.put_attendance(run.id, "server", pages, 1000.0 + seconds)
    view = RunView(store.run(run.id), page)
    stand_in.begin(store.run(run.id))
    for second in range(seconds):
        stand_in.report(store.run(run.id), 0, iteration=second + 1, loss=1 / (second + 1))
        view.read(store, 1000.0 + second)
        view.draw(1000.0 + second)
    stand_in.end(store.run(run.id), RunState.FINISHED)
    view.finish(store, 1000.0 + seconds)
    return page


def test_a_page_that_follows_by_itself_is_sent_no_picture_but_the_last(store, stand_in) -> None:
    page = drawn_while_followed(store, stand_in, pages=1)

    assert page.places == ["run", "run"]


def test_another_page_gets_a_picture_every_ten_seconds(store, stand_in) -> None:
    page = drawn_while_followed(store, stand_in, pages=0)

    assert len(page.places) == 1 + 3 + 1  # at once, at 3, 13 and 23 s, and the last


def test_a_description_cannot_leave_its_attribute() -> None:
    html = figure_html(b"", 'a" onerror="x', "<b>")

    assert 'alt="a&quot; onerror=&quot;x"' in html
    assert "&lt;b&gt;" in html


def folded(pieces: list[tuple[int, str]]) -> str:
    transcript = Transcript()
    for rank, text in pieces:
        transcript.feed(rank, text)
    return transcript.html(streamed=frozenset({0}), final=True)


def test_lines_cut_in_two_are_put_together() -> None:
    assert "<pre>one\ntwo</pre>" in folded([(1, "o"), (1, "ne\ntw"), (1, "o")])


def test_colours_and_markup_are_only_text() -> None:
    assert "<pre>&lt;b&gt;red</pre>" in folded([(1, "<b>\x1b[31mred\x1b[0m\n")])


def test_lines_shared_with_rank_0_name_it() -> None:
    html = folded([(0, "same\nmine\n"), (1, "same\n"), (2, "same\n")])

    assert "ranks 0-2 | same" in html
    assert "mine" not in html


def test_a_flood_is_kept_in_bounded_memory_and_said_to_be_cut() -> None:
    html = folded([(1, f"line {i}\n") for i in range(100_000)])

    assert len(html) < KEPT_CHARACTERS + 1_000
    assert "line 99999" in html
    assert "Output of rank 1: 100,000 lines, the newest " in html


def test_the_doctors_findings_name_the_remedy() -> None:
    bundle = findings_table([Finding("MPI", False, "none", "Install it."), Finding("x", True, "y")])

    assert "MPI    ✗ mend   none   Install it." in bundle["text/plain"]
