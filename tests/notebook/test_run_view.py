"""What is shown below a cell: pictures, folded output, words; and how much of it is sent."""

from __future__ import annotations

import json
import time

import pytest

from workbench.core.node.findings import Finding
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.core.run.run_options import RunOptions
from workbench.errors import RunFailed
from workbench.notebook import run_view
from workbench.notebook.run_listing import findings_table
from workbench.notebook.run_view import STREAM_CHARACTERS, RunView
from workbench.pages.protocol import RUN_TYPE
from workbench.store import OutputRow
from workbench.view.following import check_success
from workbench.view.run_output import figure_html
from workbench.view.transcript import KEPT_CHARACTERS, Transcript

# What Jupyter wraps around each message on its way to the page.
ENVELOPE_NBYTES = 700
BOUND_NBYTES = 16_000_000 // 50


class CountingPage:
    """Counts what it is sent."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.places: list[str] = []
        self.last: dict = {}

    def show(self, place, bundle, metadata=None, *, final=False) -> None:
        self.places.append(place)
        self.last = dict(bundle)
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
                   cluster="other", options=RunOptions(ranks=4))  # fmt: skip


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
    view = RunView(store.run(run.id), page)
    stand_in.begin(store.run(run.id))
    for second in range(seconds):
        stand_in.store.put_open_pages(run.id, "server", pages, 1000.0 + second)
        stand_in.report(store.run(run.id), 0, iteration=second + 1, loss=1 / (second + 1))
        view.read(store, 1000.0 + second)
        view.draw(1000.0 + second)
    stand_in.end(store.run(run.id), RunState.FINISHED)
    view.finish(store, 1000.0 + seconds)
    return page


def test_a_page_that_follows_by_itself_is_sent_no_picture_but_the_last(store, stand_in) -> None:
    page = drawn_while_followed(store, stand_in, pages=1)

    assert page.places == ["run", "run"]


def test_another_page_gets_pictures_less_and_less_often(store, stand_in, monkeypatch) -> None:
    monkeypatch.setattr(run_view, "PICTURE_SHARE", 1e3)
    page = drawn_while_followed(store, stand_in, pages=0, seconds=130)

    assert len(page.places) == 1 + 6 + 1  # at once, at 3, 13, 33, 63, 93 and 123 s, and the last


def test_where_pictures_take_long_they_are_rarer(store, stand_in, monkeypatch) -> None:
    monkeypatch.setattr(run_view, "PICTURE_SHARE", 1e-9)
    page = drawn_while_followed(store, stand_in, pages=0, seconds=130)

    assert len(page.places) == 1 + 4 + 1  # at once, at 3, 13, 33 and 63 s, and the last


def test_a_picture_has_the_points_up_to_now(store, stand_in) -> None:
    """Between two pictures points are read rarely."""
    page, run = CountingPage(), store.wish_run(wish())
    view = RunView(store.run(run.id), page)
    stand_in.begin(store.run(run.id))
    view.read(store, 1000.0)
    view.draw(1000.0)
    stand_in.report(store.run(run.id), 0, iteration=1, loss=0.5)
    view.read(store, 1001.0)
    before = view.record.points
    stand_in.report(store.run(run.id), 0, iteration=2, loss=0.25)

    view.read(store, 1003.5)
    view.draw(1003.5)

    assert (before, view.record.points) == (0, 2)
    assert "loss" in page.last["text/plain"]


@pytest.mark.parametrize("pages", [0, 1], ids=["by the cell", "by the page"])
def test_a_traceback_is_shown_once(store, stand_in, pages) -> None:
    page, run = CountingPage(), store.wish_run(wish())
    view = RunView(store.run(run.id), page)
    failed = {"failed_rank": 1, "failed_host": "there", "failure": "ValueError: bad"}
    stand_in.begin(store.run(run.id))
    stand_in.end(store.run(run.id), RunState.FAILED, error="Traceback …\nValueError: bad", **failed)
    stand_in.store.put_open_pages(run.id, "server", pages, 1000.0)

    view.read(store, 1000.0)
    view.finish(store, 1000.0)
    with pytest.raises(RunFailed) as caught:
        check_success(store.run(run.id), shown=view.shows_error)

    by_cell = "Traceback" in str(caught.value)
    assert by_cell is not ("Traceback" in page.last["text/html"])
    assert by_cell is page.last[RUN_TYPE].get("raised", False) is (pages == 0)
    assert pages == 0 or str(caught.value) == (
        "Run 'chatty' failed on rank 1 (there): ValueError: bad"
    )


def test_a_description_cannot_leave_its_attribute() -> None:
    html = figure_html(b"", 'a" onerror="x', "<b>")

    assert 'alt="a&quot; onerror=&quot;x"' in html
    assert "&lt;b&gt;" in html


def folded(pieces: list[tuple[int, str]]) -> str:
    transcript = Transcript()
    for rank, text in pieces:
        transcript.feed(OutputRow(1, rank, "stdout", 0.0, text))
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

    assert "MPI    ✗ problem  none   Install it." in bundle["text/plain"]


class KeepingPage(CountingPage):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.last: dict[str, object] = {}

    def show(self, place, bundle, metadata=None, *, final=False) -> None:
        super().show(place, bundle, final=final)
        self.last = dict(bundle)

    def write(self, stream, text) -> None:
        super().write(stream, text)
        self.text += text


def test_of_very_much_that_rank_0_prints_the_page_gets_both_ends_and_says_so(
    store, stand_in
) -> None:
    page = KeepingPage()
    run = store.run(store.wish_run(wish()).id)
    view = RunView(run, page)
    stand_in.begin(run)
    for start in range(0, 60_000, 10_000):
        lines = (f"line {n}".ljust(100, ".") for n in range(start, start + 10_000))
        stand_in.report(run, 0, "\n".join(lines) + "\n")
        view.read(store, 1000.0 + start)
    stand_in.end(run, RunState.FINISHED)

    view.finish(store, 90_000.0)

    whole = f"all are in `workbench logs {run.wish.name}`"
    assert page.text.startswith("line 0.")
    assert page.text.endswith(f"workbench: the rest is left out here; {whole}.\n")
    assert len(page.text) < STREAM_CHARACTERS + 200
    assert "line 59999" in page.last["text/html"]
    assert "60,000 lines, the newest" in page.last["text/html"]
    assert page.nbytes < 1_000_000


def test_what_is_noted_is_printed_where_the_page_draws_the_state_by_itself(store) -> None:
    pages = KeepingPage(), KeepingPage()
    run = store.wish_run(wish())
    for followers, page in enumerate(pages):
        store.put_open_pages(run.id, "server", followers, 1000.0)
        view = RunView(store.run(run.id), page)
        view.read(store, 1000.0)
        view.note("Stopping…")

    assert [page.text for page in pages] == ["", "Stopping…\n"]
