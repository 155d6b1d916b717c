"""Plan from a shell on the rehearsal's offers, which need no account and no network."""

from __future__ import annotations

import json

import pytest

STEP = ("--step", "250ms", "--gradients", "98MB", "--batch", "32", "--gpu", "Rehearsal 8")


def test_a_plan_needs_nothing_but_what_is_said(workbench) -> None:
    result = workbench("plan", "--rehearsal", *STEP, "--examples", "50000")

    assert result.exit_code == 0
    assert "gpu." in result.stdout  # which of them is the best depends on the hour
    assert "By the given options: a rank computes 250 ms a step of 32 examples" in result.stdout


def test_a_plan_can_be_drawn_and_read_by_programs(workbench, tmp_path) -> None:
    path = tmp_path / "plan.svg"

    result = workbench("plan", "--rehearsal", *STEP, "--json", "--plot", str(path))

    found = json.loads(result.stdout)
    assert {one["type"] for one in found["types"]} == {"gpu.1", "gpu.4"}
    assert path.read_text().lstrip().startswith("<?xml")


def test_needs_narrow_the_plan(workbench) -> None:
    found = json.loads(workbench("plan", "--rehearsal", *STEP, "--type", "gpu.4", "--json").stdout)

    assert [one["type"] for one in found["types"]] == ["gpu.4"]


def test_ranks_are_divided_among_the_trials_of_a_sweep(workbench) -> None:
    words = ("plan", "--rehearsal", *STEP, "--examples", "50000", "--sweep", "40")

    said, found = workbench(*words), json.loads(workbench(*words, "--json").stdout)

    assert said.exit_code == 0
    assert said.stdout.startswith("Recommended: ")
    assert said.stdout.splitlines()[0] == found["recommendation"]
    assert found["shapes"][-1]["at_once"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Train for a minute on one node"),
        (STEP, "add --ec2, --rehearsal or --slurm"),
        (("--ec2", "--rehearsal"), "A cluster has one provider"),
        (("--rehearsal", *STEP, "--max-nodes", "0"), "from 1 to 1024"),
        (("--rehearsal", "--gradients", "much"), "is not a size; write a number with a unit"),
        (("--rehearsal", *STEP, "--type", "x9.large"), "x9.large"),
        (("--rehearsal", *STEP, "--plot", "plan.txt"), "neither PNG nor SVG"),
        (("--rehearsal", *STEP, "--plot", "plan.png", "--sweep", "4"), "leave it or --sweep out"),
        (("--rehearsal", *STEP, "--sweep", "0"), "--sweep"),
    ],
)
def test_what_is_not_valid_is_one_sentence(workbench, words: tuple[str, ...], said: str) -> None:
    result = workbench("plan", *words)

    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
