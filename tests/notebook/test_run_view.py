"""What stands below a cell: pictures, folded output, words; and how much of it is sent."""

from __future__ import annotations

import json
import math
import time

import pytest

from workbench.core.run import Run, RunFact, RunKind, RunState, RunWish
from workbench.core.sampling import Curve
from workbench.notebook import chart
from workbench.notebook.doctor import findings_table
from workbench.notebook.phrases import duration, state_line, step_line
from workbench.notebook.run_view import RunView
from workbench.notebook.transcript import KEPT_CHARACTERS, Transcript

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
            view.read(store)
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


def test_state_and_curves_stand_above_the_output(store, stand_in) -> None:
    page = CountingPage()
    view = RunView(Run(wish(), RunFact("x")), page)

    view.draw(1000.0)

    assert page.places == ["head", "curves"]


def test_nothing_is_drawn_again_when_nothing_is_new(store, stand_in) -> None:
    page = CountingPage()
    view = RunView(Run(wish(), RunFact("x")), page)

    for tick in range(20):
        view.draw(1000.0 + tick * 0.04)

    assert page.places == ["head", "curves"]


def curve(*values: float, ranks: int = 1) -> Curve:
    made = Curve()
    for iteration, value in enumerate(values, 1):
        for rank in range(ranks):
            made.add(rank, iteration, value + rank)
    return made


def test_losses_and_accuracies_have_axes_of_their_own() -> None:
    panels = chart.panels_of_run(
        {"main/loss": curve(3, 2), "main/accuracy": curve(0, 1), "validation/main/loss": curve(4)}
    )

    assert [(p.quantity, [line.name for line in p.lines]) for p in panels] == [
        ("loss", ["main/loss", "validation/main/loss"]),
        ("accuracy", ["main/accuracy"]),
    ]


def test_any_name_can_be_drawn() -> None:
    curves = {"$\\frac{": curve(1, 2, ranks=2), "_hidden": curve(1), "損失": curve(math.nan, 1)}

    picture = chart.png(chart.panels_of_run(curves))

    assert picture.startswith(b"\x89PNG")


def test_a_picture_is_small_enough_to_be_sent_each_second() -> None:
    curves = {name: curve(*range(400), ranks=2) for name in ("main/loss", "main/accuracy")}

    assert len(chart.png(chart.panels_of_run(curves), chart.LIVE_DPI)) < 40_000


def test_the_picture_is_described_in_words() -> None:
    panels = chart.panels_of_run({"loss": curve(2, 1), "empty": curve(math.nan)})

    assert chart.describe(panels) == "loss falls from 2 to 1 over 1 iteration"


def test_a_description_cannot_leave_its_attribute() -> None:
    html = chart.figure_html(b"", 'a" onerror="x', "<b>")

    assert 'alt="a&quot; onerror=&quot;x"' in html
    assert "&lt;b&gt;" in html


def folded(pieces: list[tuple[int, str]]) -> str:
    transcript = Transcript()
    for rank, text in pieces:
        transcript.feed(rank, text)
    return transcript.html(streamed=frozenset({0}), final=True)


def test_lines_cut_in_two_are_put_together() -> None:
    assert "<pre>one\ntwo</pre>" in folded([(1, "o"), (1, "ne\ntw"), (1, "o")])


def test_a_progress_bar_shows_its_last_state() -> None:
    assert "<pre>100%</pre>" in folded([(1, "\r1%\r50%"), (1, "\r100%\n")])


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


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.26, "0.3 s"), (42.0, "42 s"), (60, "1 min"), (200, "3 min 20 s"), (3900, "1 h 5 min")],
)
def test_durations_are_said_as_people_do(seconds, words) -> None:
    assert duration(seconds) == words


def test_a_running_run_says_how_far_and_how_long() -> None:
    fact = RunFact("x", RunState.RUNNING, ranks=2, started=100.0, iteration=50,
                   iterations_total=200, epoch=1.5, epochs_total=6)  # fmt: skip

    assert state_line(Run(wish(), fact), now=110.0) == (
        "running on 2 ranks, iteration 50 of 200, epoch 1.5 of 6, 10 s, about 30 s left"
    )


def test_the_parts_of_a_step_are_told_largest_first() -> None:
    assert step_line({"step/data": 0.0001, "step/compute": 0.005, "loss": 1}) == (
        "compute 5 ms, data 0.1 ms"
    )


def test_the_doctors_findings_name_the_remedy() -> None:
    from workbench.core.diagnosis import Finding

    bundle = findings_table([Finding("MPI", False, "none", "Install it."), Finding("x", True, "y")])

    assert "MPI    ✗ mend   none   Install it." in bundle["text/plain"]
