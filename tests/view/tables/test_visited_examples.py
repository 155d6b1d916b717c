"""What is said of visits is true of each epoch."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from workbench.core.run.model import Run, RunFact, RunKind, RunWish
from workbench.core.run.rank_protocol import ExamplesVisited
from workbench.view.tables.visited_examples import visits_sentence, visits_table

ID = "260101-000000-aaaa"
RUN = Run(RunWish(ID, "fit", RunKind.CELL, ""), RunFact(ID, attempt=3))


def epoch(number: int, *times: tuple[int, int], others: tuple[int, ...] = ()) -> ExamplesVisited:
    return ExamplesVisited(10 * number, number, times, others, training=1)


@pytest.mark.parametrize(
    ("visits", "said"),
    [
        ([epoch(0, (1, 96)), epoch(1, (1, 96))], "proved, in 2 epochs over 3 attempts."),
        (
            [epoch(0, (1, 96)), epoch(1, (0, 24), (1, 48), (2, 24), others=(3, 7))],
            "not proved, over 3 attempts: epoch 2 visited 24 never, 24 twice (such as 3, 7).",
        ),
        ([epoch(1, (1, 96))], "not proved, over 3 attempts: epoch 1 is not known whole."),
        (
            [epoch(0, (2, 96)), epoch(1, (2, 96))],
            "no. Each one was visited twice in each epoch, over 3 attempts: the ranks do not "
            "divide the data.",
        ),
    ],
)
def test_the_sentence_says_what_was_counted(visits, said) -> None:
    assert visits_sentence(RUN, visits) == f"Examples once: {said}"


def test_a_run_without_counts_says_what_is_counted() -> None:
    assert visits_sentence(RUN, []).startswith("Run 'fit' has no epoch whose examples are known")


def test_an_iterator_of_the_users_own_is_named() -> None:
    assert visits_sentence(RUN, [], "BPTTIterator") == (
        "Run 'fit' has no epoch whose examples are known: its BPTTIterator does not say which it "
        "gives."
    )


def test_what_ranks_have_counted_apart_is_said_of_each_for_itself() -> None:
    visits = [replace(epoch(n, (1, 96)), apart=True) for n in range(2)]
    assert visits_sentence(RUN, visits) == (
        "Examples once, of the data of each rank for itself: proved, in 2 epochs over 3 attempts. "
        "Whether ranks have the same examples is not known, because the data is not divided by "
        "chainermn.scatter_dataset."
    )


def test_the_table_has_a_column_for_each_number_of_visits() -> None:
    table = visits_table([epoch(0, (1, 96)), epoch(1, (0, 1), (1, 94), (3, 1))])
    assert table.headers == ("epoch", "examples", "never", "once", "3 times")
    assert table.rows == (("1", "96", "0", "96", "0"), ("2", "96", "1", "94", "1"))
