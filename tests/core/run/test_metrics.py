"""Names are grouped, lines of ranks are merged, and totals give the remaining time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.run.metrics import (
    FoldedLine,
    MetricGroup,
    Pace,
    fold_lines,
    fraction_done,
    group_names,
    is_validation,
    iterations_to_do,
    quantity,
    seconds_left,
    seconds_taken,
    select_reported,
)
from workbench.core.run.model import RunFact, RunState
from workbench.core.units import rank_ranges


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([0], "rank 0"),
        ([0, 1, 2, 3], "ranks 0-3"),
        ([3, 0, 2], "ranks 0, 2-3"),
        ([5, 1], "ranks 1, 5"),
    ],
)
def test_ranks_are_reported_in_ranges(ranks, words) -> None:
    assert rank_ranges(ranks) == words


def test_identical_lines_of_all_ranks_become_one() -> None:
    lines = {rank: ["epoch 1", "epoch 2"] for rank in range(4)}

    folded = fold_lines(lines)

    assert folded == [
        FoldedLine((0, 1, 2, 3), "epoch 1"),
        FoldedLine((0, 1, 2, 3), "epoch 2"),
    ]


def test_a_line_of_one_rank_does_not_keep_the_others_from_folding() -> None:
    lines = {0: ["I am 0", "epoch 1"], 1: ["I am 1", "epoch 1"]}

    folded = fold_lines(lines)

    assert FoldedLine((0, 1), "epoch 1") in folded
    assert len(folded) == 3


def test_lines_of_their_own_are_in_the_order_of_the_ranks() -> None:
    folded = fold_lines({rank: ["epoch 1", f"I am {rank}", "epoch 2", "end"] for rank in (0, 1)})

    assert [line.text for line in folded] == ["epoch 1", "I am 0", "I am 1", "epoch 2", "end"]


def test_what_no_other_rank_wrote_is_in_the_order_of_the_ranks() -> None:
    folded = fold_lines({rank: [f"I am {rank}", f"{rank} again"] for rank in (0, 1)})

    assert [line.text for line in folded] == ["I am 0", "0 again", "I am 1", "1 again"]


def test_a_repeated_line_stays_repeated() -> None:
    assert [line.text for line in fold_lines({0: ["a", "a"], 1: ["a"]})] == ["a", "a"]


@given(
    st.dictionaries(st.integers(0, 5), st.lists(st.sampled_from("abcd"), max_size=30), max_size=4)
)
def test_every_rank_keeps_its_lines_in_order(outputs) -> None:
    folded = fold_lines(outputs)

    for rank, lines in outputs.items():
        assert [line.text for line in folded if rank in line.ranks] == lines


def test_training_and_validation_of_a_quantity_share_axes() -> None:
    names = [
        "validation/main/loss",
        "main/loss",
        "main/accuracy",
        "epoch",
        "elapsed_time",
        "lr",
        "step/data",
    ]

    assert group_names(names) == [
        MetricGroup("loss", ("main/loss", "validation/main/loss")),
        MetricGroup("accuracy", ("main/accuracy",)),
        MetricGroup("lr", ("lr",)),
    ]


@pytest.mark.parametrize(
    ("name", "measured", "validation"),
    [
        ("main/loss", "loss", False),
        ("val_loss", "loss", True),
        ("train_acc", "acc", False),
        ("validation/main/accuracy", "accuracy", True),
        ("test/loss", "loss", True),
        ("learning_rate", "learning_rate", False),
    ],
)
def test_a_name_tells_what_it_measures_and_on_what(name, measured, validation) -> None:
    assert quantity(name) == measured
    assert is_validation(name) is validation


def test_what_training_reported_is_distinguished_from_what_was_measured_beside_it() -> None:
    values = {"lr": 0.1, "main/loss": 2.0, "step/data": 0.01, "epoch": 3.0}

    assert list(select_reported(values)) == ["main/loss", "lr"]


def test_a_quarter_done_in_ten_seconds_leaves_thirty() -> None:
    fact = RunFact(
        "r", RunState.RUNNING, started=100.0, iteration=25, iterations_total=100, epochs_total=9
    )

    assert fraction_done(fact) == 0.25
    assert seconds_left(fact, now=110.0) == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("state", "epochs", "known"),
    [
        (RunState.RUNNING, 0, 100),
        (RunState.RUNNING, 9, 0),  # an estimate, which changes all the time
        (RunState.FINISHED, 9, 100),
    ],
)
def test_iterations_to_do_are_known_unless_epochs_are_counted(state, epochs, known) -> None:
    fact = RunFact("r", state, iterations_total=100, epochs_total=epochs)

    assert iterations_to_do(fact) == known


def test_epochs_serve_when_the_iterations_are_unknown() -> None:
    fact = RunFact("r", RunState.RUNNING, started=100.0, epoch=1.0, epochs_total=2.0)

    assert seconds_left(fact, now=160.0) == pytest.approx(60.0)


def test_without_totals_nothing_is_guessed() -> None:
    fact = RunFact("r", RunState.RUNNING, started=100.0, iteration=25)

    assert fraction_done(fact) is None
    assert seconds_left(fact, now=110.0) is None


def test_an_ended_run_took_the_time_until_its_end() -> None:
    fact = RunFact("r", RunState.FINISHED, started=100.0, ended=130.0)

    assert seconds_taken(fact, now=500.0) == 30.0
    assert seconds_left(fact, now=500.0) is None


def test_the_pace_is_that_of_the_last_seconds() -> None:
    pace = Pace()

    for now, iteration in [(100.0, 0), (110.0, 10), (112.0, 30), (114.0, 50)]:
        pace.add(now, iteration)

    assert pace.rate == 10.0


def test_the_pace_is_unknown_at_first() -> None:
    pace = Pace()

    pace.add(100.0, 7)

    assert pace.rate == 0.0


def test_the_pace_is_reported_again_soon_after_the_clock_was_set_back() -> None:
    pace = Pace()
    pace.add(5000.0, 10)
    pace.add(5001.0, 20)

    pace.add(1402.0, 30)
    pace.add(1403.0, 40)

    assert pace.rate == 10.0


@pytest.mark.parametrize("name", ["step/data", "exchange/bytes", "gradient_noise/noise"])
def test_what_workbench_measures_is_not_drawn_as_a_curve(name) -> None:
    assert [group.names for group in group_names([name, "loss"])] == [("loss",)]


def test_the_time_that_is_left_follows_from_the_pace_since_the_run_was_resumed() -> None:
    fact = RunFact(
        "id", RunState.RUNNING, started=1.0, iteration=120, iterations_total=200, attempt=2
    )

    assert seconds_left(fact, 1000.0) is None
    resumed = replace(fact, resumed_at=100, resumed=990.0)
    assert seconds_left(resumed, 1000.0) == pytest.approx(40.0)
