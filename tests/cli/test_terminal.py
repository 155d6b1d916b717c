"""None"""

from __future__ import annotations

import io

from rich.console import Console

from workbench.cli.terminal import LiveScreen, PlainScreen, RankOutput, picture, sparkline
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.curves import Curve
from workbench.core.fleet.model import Node, NodeState
from workbench.core.run.metrics import FoldedLine
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.view.run_record import RunRecord


def record(state: RunState = RunState.RUNNING, **changes: object) -> RunRecord:
    wish = RunWish("261121-003229-aaaa", "digits", RunKind.SCRIPT, "")
    return RunRecord(Run(wish, RunFact(wish.id, state, ranks=2, **changes)))


def shown(renderable: object) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(renderable)
    return console.file.getvalue()


def curve(values: list[float]) -> Curve:
    result = Curve()
    for iteration, value in enumerate(values):
        result.add(0, iteration, value)
    return result


def test_a_falling_curve_falls():
    assert sparkline(curve([4, 3, 2, 1])) == "█▆▃▁"


def test_a_long_curve_fits_into_its_width():
    assert len(sparkline(curve(list(range(1000))), width=20)) == 20


def test_a_flat_curve_and_one_without_numbers_have_a_line_too():
    assert sparkline(curve([1, 1])) == "▁▁"
    assert sparkline(curve([float("nan")])) == ""


def test_the_picture_shows_how_far_how_fast_and_where_to():
    running = record(iteration=50, iterations_total=100, epoch=1.0, epochs_total=2, started=100.0)
    running.pace.add(108.0, 30)
    running.pace.add(110.0, 50)
    running.curves["main/loss"] = curve([2.0, 1.0])

    text = shown(picture(running, 110.0))

    assert "digits: running · iteration 50 · epoch 1 of 2 · 2 ranks" in text
    assert "10 it/s · 10 s left" in text
    assert "50 %" in text
    assert "main/loss  1           █▁" in text


def test_a_run_that_waits_says_for_what():
    waiting = record(RunState.QUEUED)
    waiting.cluster = ClusterFact("default", ClusterState.STARTING, message="1 of 2 ranks is here")

    text = shown(picture(waiting, 0.0))

    assert "queued · 2 ranks · the cluster is starting (1 of 2 ranks is here)" in text


def test_a_terminal_shows_output_above_the_bar():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    running = record(iteration=50, iterations_total=100, started=100.0)

    with LiveScreen(console) as screen:
        screen.draw(running, 110.0)
        screen.write([FoldedLine((0, 1), "hello [bold]")])
        screen.note("a note")
        screen.draw(running, 111.0, final=True)

    text = console.file.getvalue()
    assert "hello [bold]" in text
    assert text.index("a note") < text.rindex("iteration 50 of 100")


def test_the_same_line_of_all_ranks_is_one_at_once():
    output = RankOutput()
    output.feed(0, "hello\n", 0.0)
    output.feed(1, "hello\n", 0.1)

    assert output.take(0.1) == [FoldedLine((0, 1), "hello")]
    assert output.take(9.0) == []


def test_a_line_waits_a_moment_for_its_like():
    output = RankOutput()
    output.feed(0, "hello\n", 0.0)

    assert output.take(0.1) == []
    assert output.take(0.4) == [FoldedLine((0,), "hello")]


def test_lines_of_a_rank_keep_their_order_while_one_waits():
    output = RankOutput()
    output.feed(0, "first\n", 0.0)
    output.feed(0, "second\n", 0.3)

    assert [line.text for line in output.take(0.4)] == ["first"]
    assert [line.text for line in output.take(0.7)] == ["second"]


def test_at_the_end_what_has_no_newline_comes_too():
    output = RankOutput()
    output.feed(0, "no newline", 0.0)

    assert output.take(0.0, final=True) == [FoldedLine((0,), "no newline")]


def test_a_rank_that_continues_writing_does_not_hold_up_another():
    output = RankOutput()
    for tick in range(8):
        output.feed(0, f"rank 0 says {tick}\n", tick / 10)
        output.feed(1, f"rank 1 says {tick}\n", tick / 10)

    taken = output.take(0.71)

    assert [line.ranks for line in taken] == [(0,)] * 5 + [(1,)] * 5


def test_only_the_rank_that_is_wanted_comes():
    output = RankOutput(1)
    output.feed(0, "zero\n", 0.0)
    output.feed(1, "one\n", 0.0)

    assert output.take(1.0) == [FoldedLine((1,), "one")]


def test_a_notice_is_written_once_without_a_terminal():
    console = Console(file=io.StringIO(), width=120)
    screen, running = PlainScreen(console, console), record(iteration=7)
    screen.draw(running, 10.0)
    running.reclaimed = (Node("i-3", NodeState.LEAVING, reclaimed=128.0),)
    for now in (10.0, 11.0, 12.0):
        screen.draw(running, now)

    lines = console.file.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[1].endswith("node i-3 will be reclaimed in 1 min 58 s")
