"""Which steps make an iteration, which loss belongs to one, and how far the epochs are."""

from __future__ import annotations

import pytest

from workbench.core.run.training_steps import EpochCounter, StepCounter, StepLoss


@pytest.mark.parametrize(
    ("steps", "iterations", "main"),
    [
        ("AAAA", "1234", "AAAA"),
        ("ABABAB", "112233", "AAAAAA"),  # in turn
        ("AABAAB", "123344", "AABAAA"),  # the critic steps more often
        ("BAAABAAA", "11233456", "BBBBBBBB"),  # likewise, but the other one was first
        ("AAABBB", "123456", "AAABBB"),  # one training after another
        ("ABABCDCDCD", "1122334455", "AAAACCCCCC"),
        ("AABBAABB", "12345667", "AABBAAAA"),  # the first continues, so it is the main one
    ],
)
def test_an_optimizer_steps_once_in_an_iteration(steps, iterations, main) -> None:
    counter = StepCounter()
    counted, mains = "", ""

    for step in steps:
        counter.step(ord(step))
        counted += str(counter.iteration)
        mains += next(name for name in "ABCD" if counter.is_main(ord(name)))

    assert (counted, mains) == (iterations, main)


def test_a_step_says_whether_it_begins_an_iteration() -> None:
    counter = StepCounter()

    assert [counter.step(number) for number in (1, 2, 1, 2)] == [True, False, True, False]


def test_epochs_are_counted_by_passes_over_the_one_source() -> None:
    epochs = EpochCounter()
    seen = []

    for number, batches in [(1, 4), (2, 4), (5, 2), (6, 1)]:  # the third pass is left early
        for position in range(1, batches + 1):
            epochs.trained("data", 4, number, position)
            seen.append(epochs.epoch)

    assert seen == [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.25]


def test_epochs_count_on_from_the_one_that_a_script_begins_with() -> None:
    epochs = EpochCounter()

    epochs.begin_at(3)
    epochs.trained("data", 4, 1, 1)

    assert epochs.epoch == 3.25


def test_epochs_are_unknown_with_two_sources_or_without_a_length() -> None:
    two, endless = EpochCounter(), EpochCounter()

    two.trained("data", 4, 1, 1)
    two.trained("more data", 4, 2, 1)
    endless.trained("data", 0, 1, 7)

    assert (two.epoch, endless.epoch) == (0.0, 0.0)


def test_a_source_that_begins_again_by_itself_counts_on() -> None:
    epochs = EpochCounter()

    epochs.trained("data", 2, 1, 3, repeats=True)

    assert epochs.epoch == 1.5


def test_a_batch_beyond_the_length_does_not_begin_an_epoch() -> None:
    epochs = EpochCounter()

    epochs.trained("data", 2, 1, 3)

    assert epochs.epoch == 1.5


def test_the_loss_of_a_step_is_the_sum_over_its_backward_passes() -> None:
    loss = StepLoss()

    for value in (0.5, 0.25):
        loss.add(value)
    loss.begin_step()

    assert loss.end_step() == 0.75
    assert loss.end_step() is None


def test_the_first_evaluation_inside_of_a_step_counts() -> None:
    loss = StepLoss()

    loss.add(1.0)  # accumulated before
    loss.begin_step()
    for value in (2.0, 16.0, 32.0):
        loss.add(value)

    assert loss.end_step() == 3.0
    loss.add(4.0)
    assert loss.end_step() == 4.0


def test_a_loss_whose_gradients_were_cleared_is_left_out() -> None:
    loss = StepLoss()

    loss.add(1.0)
    loss.clear([1])
    loss.add(2.0)
    loss.clear([2])  # so of the first one both are
    loss.add(4.0)
    loss.begin_step()

    assert loss.end_step(1, lambda: [1, 2]) == 6.0
    assert loss.end_step(1, lambda: [1, 2]) is None


def test_a_loss_that_another_optimizer_has_cleared_is_that_of_its_own_step() -> None:
    loss = StepLoss()

    loss.add(1.0)
    loss.clear([2])  # as the second optimizer does, before its own backward pass
    loss.add(2.0)

    assert loss.end_step(2, lambda: [2]) == 2.0
    assert loss.end_step(1, lambda: [1]) == 1.0


def test_gradients_that_a_closure_clears_again_do_not_undo_its_first_evaluation() -> None:
    loss = StepLoss()

    loss.begin_step()
    for value in (2.0, 16.0):
        loss.clear([1])
        loss.add(value)

    assert loss.end_step(1, lambda: [1]) == 2.0


def test_epochs_are_unknown_while_batches_come_from_elsewhere_than_the_source() -> None:
    epochs = EpochCounter()
    seen = []

    for position in (1, 2, 0, 0):  # the last two are of a list that the program keeps
        if position:
            epochs.trained("data", 2, 1, position)
        epochs.begin_iteration()
        seen.append(epochs.epoch)
    epochs.trained("data", 2, 2, 1)

    assert seen == [0.5, 1.0, 0.0, 0.0]
    assert epochs.epoch == 1.5


def test_several_steps_on_each_batch_leave_the_epochs_known() -> None:
    epochs = EpochCounter()

    for position in (1, 2, 3, 4):
        epochs.trained("data", 4, 1, position)
        for _ in range(3):
            epochs.begin_iteration()
            assert epochs.epoch == position / 4
