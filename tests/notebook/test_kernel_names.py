"""A rank's NameError is explained where the name is one of the notebook's kernel."""

from __future__ import annotations

import math

import pytest

from tests.notebook.test_magics import MISSING
from workbench.notebook.kernel import explain_missing

CELL = MISSING.format(file="<cell of run 260101-000000-arun>")


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (math, "import it in a %%dist_train or %%dist_setup cell."),
        (lambda: 1, "define it in a %%dist_train or %%dist_setup cell."),
        (dict, "define it in a %%dist_train or %%dist_setup cell."),
        ([1], "make it in a %%dist_train or %%dist_setup cell."),
        (0.1, "make it in a %%dist_train or %%dist_setup cell, or add --param train_data=0.1."),
    ],
)
def test_the_remedy_follows_from_what_the_name_is(value, remedy) -> None:
    assert explain_missing(CELL, {"train_data": value}) == (
        f"'train_data' is in the notebook's kernel; ranks have their own variables: {remedy}"
    )


@pytest.mark.parametrize(
    "file", ["/home/you/helper.py", "/usr/lib/python3.11/site-packages/numpy/core.py"]
)
def test_a_name_that_a_module_misses_is_not_the_kernels(file) -> None:
    assert explain_missing(MISSING.format(file=file), {"train_data": 1}) == ""


def test_a_name_that_folded_frames_miss_is_not_the_kernels() -> None:
    folded = "  … 2 frames in numpy (last)"
    trace = CELL.replace('  File "<cell of run 260101-000000-arun>", line 3, in f', folded)

    assert explain_missing(trace, {"train_data": 1}) == ""


def test_a_name_is_explained_that_was_missed_first_and_led_to_another_error() -> None:
    trace = f"{CELL}\n\nDuring handling of the above exception, another one occurred:\n\nOops"

    assert explain_missing(trace, {"train_data": 1})


def test_another_error_is_not_explained() -> None:
    assert explain_missing("ValueError: train_data", {"train_data": 1}) == ""
