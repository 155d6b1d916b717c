from __future__ import annotations

from workbench.cli.rank_output import RankOutput
from workbench.core.run.metrics import FoldedLine


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


def test_a_rank_that_goes_on_writing_does_not_hold_up_another():
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
