"""Measurements and plans in a shell: shown, drawn, and read by programs."""

from __future__ import annotations

import json

import pytest

from workbench.core.performance.bandwidth import (
    RESULT_STREAM,
    BandwidthSurvey,
    Exchange,
    Measurement,
    Pair,
    Rate,
    measurement_json,
)
from workbench.core.run.model import RunKind, RunState
from workbench.core.run.rank_protocol import Batch, Chunk

FOUND = Measurement(
    BandwidthSurvey(
        1_795_000_000.0,
        ("node1", "node2"),
        (Pair("node1", "node2", 5e-5, 1.2e8), Pair("node2", "node1", 5e-5, 1.7e8)),
        (Exchange(1000, 1e-4, 2, "workbench", "ring"),),
    ),
    2,
    12.0,
    (Rate("node1", "disk read", 3e8),),
)


@pytest.fixture
def measures(actor):
    """Have the ranks measure."""

    def play(run) -> None:
        assert run.wish.kind is RunKind.MEASUREMENT
        actor.start_run(run)
        chunk = Chunk(RESULT_STREAM, 0.0, measurement_json(FOUND))
        actor.store.reports.add_batches([Batch(run.id, 0, 1, chunks=(chunk,))])
        actor.end_run(run)

    actor.script = play


def test_what_was_measured_is_said_and_drawn(actor, measures, workbench, tmp_path) -> None:
    result = workbench("bandwidth", "--plot", str(tmp_path / "links.png"))

    assert result.exit_code == 0, result.output
    assert "The slowest link is from node1 to node2: 0.96 Gbit/s, 50 µs." in result.stdout
    assert "workbench: ring" in result.stdout
    assert "300 MB/s" in result.stdout
    assert (tmp_path / "links.png").stat().st_size > 1_000


def test_a_picture_that_cannot_be_kept_is_a_sentence(actor, measures, workbench, tmp_path) -> None:
    (tmp_path / "links.png").mkdir()

    result = workbench("bandwidth", "--plot", str(tmp_path / "links.png"))

    assert result.exit_code == 1
    assert "links.png cannot be written (Is a directory); choose another folder." in result.stderr


def test_the_last_measurement_is_shown_again_also_as_json(actor, measures, workbench) -> None:
    workbench("bandwidth")

    again = workbench("bandwidth", "--last", "--json")

    assert json.loads(again.stdout)["survey"]["nodes"] == ["node1", "node2"]


def test_nothing_measured_is_said_with_the_remedy(workbench) -> None:
    result = workbench("bandwidth", "--last")

    assert result.exit_code == 2
    assert "measure it with `workbench bandwidth`" in result.stderr


def test_a_measurement_that_is_stopped_says_so(actor, workbench) -> None:
    def stop(run) -> None:
        actor.start_run(run, iteration=3)
        actor.end_run(run, RunState.STOPPED)

    actor.script = stop

    result = workbench("bandwidth")

    assert result.exit_code == 130
    assert "stopped at iteration 3" in result.stderr


def test_an_invalid_rating_is_refused(workbench) -> None:
    result = workbench("bandwidth", "--rating", "0")

    assert result.exit_code == 2
    assert "more than 0 Gbit/s" in result.stderr


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
