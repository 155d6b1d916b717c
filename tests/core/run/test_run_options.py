"""What a user chooses for a run is one value; a later request changes only what it gives."""

from __future__ import annotations

import pytest

from workbench.core.run.run_options import RunOptions
from workbench.errors import InputError

CHOSEN = RunOptions(2, ("--lr", "1"), (("lr", 0.1), ("n", 1)), grace=9.0, restart=True)


def test_what_is_not_given_stays_as_it_was() -> None:
    left_out = {"ranks": None, "parameters": None, "restart": False, "name": "other"}

    assert CHOSEN.changed(left_out) == CHOSEN


def test_what_is_given_counts_and_parameters_are_added() -> None:
    changed = CHOSEN.changed({"retries": 0, "grace": 0.0, "arguments": (), "parameters": {"n": 2}})

    assert changed == RunOptions(2, (), (("lr", 0.1), ("n", 2)), grace=0.0, retries=0, restart=True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (RunOptions(grace=-1.0), "grace must be at least 0 seconds, not -1."),
        (RunOptions(retries=-1), "retries must be a number from 0 to 1,000,000, not -1; 0 ends"),
        (RunOptions(note="a\nb"), "note must be one line of at most 200 characters, not 'a"),
        (RunOptions(note="x" * 201), "note must be one line of at most 200 characters, not 'xx"),
        (RunOptions(retries=10**7), "retries must be a number from 0 to 1,000,000, not 10000000"),
    ],
)
def test_values_that_no_run_can_have_are_refused(options, sentence) -> None:
    with pytest.raises(InputError) as refusal:
        options.check()

    assert str(refusal.value).startswith(sentence)


def test_no_failure_needs_to_be_tried_again() -> None:
    RunOptions(retries=0, grace=0.0).check()
