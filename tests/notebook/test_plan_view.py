"""Plan below a cell."""

from __future__ import annotations

import re

import pytest

from workbench.errors import InputError, StateError

STEP = '--step 250ms --gradients 98MB --batch 32 --gpu "Rehearsal 8"'


def test_a_plan_is_a_picture_and_tables(run_cell, sent) -> None:
    run_cell(f"%dist_plan --rehearsal {STEP} --examples 50000")

    assert len(sent.final("image/png")) == 1
    assert '<img alt="time against cost of an epoch: from' in sent.html
    assert sent.text.startswith("Recommended: ")
    assert "epoch, $" in sent.text
    assert re.search(r"gpu\.\d in here-1", sent.text)  # which is cheaper changes with the hours


def test_without_a_measured_run_the_way_to_one_is_said(run_cell) -> None:
    with pytest.raises(StateError, match="`workbench run`"):
        run_cell("%dist_plan --rehearsal")


@pytest.mark.parametrize(
    "line",
    [
        f"--rehearsal --ec2 {STEP}",
        f"--rehearsal {STEP} --max-nodes many",
        f"--rehearsal {STEP} --network wide",
        "--gradients heavy",
        f"--rehearsal {STEP} --type x9.large",
    ],
)
def test_a_mistake_is_one_sentence(run_cell, line: str) -> None:
    with pytest.raises(InputError):
        run_cell(f"%dist_plan {line}")
