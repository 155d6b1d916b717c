"""``workbench bandwidth`` measures as a run, says what it found, and shows it again."""

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
