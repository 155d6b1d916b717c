"""A run's gradients are said to be carried as its ranks tell it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workbench.analysis.conclusion import GradientTraffic, carried_sentence, read_gradient_traffic
from workbench.analysis.step_breakdown import read_breakdown
from workbench.core.performance.exchange_model import Codec
from workbench.core.run.model import Run, RunState
from workbench.store import Store
from workbench.view.run_output import kept_bundle


@pytest.fixture
def trained(queue, report, supervisor: Store) -> Callable[..., Run]:
    """Keep what two ranks tell of a hundred megabytes of gradients."""

    def train(codec: Codec, ranks: int = 2, **reported: float) -> Run:
        reported = {f"codec {codec}": 1.0, "nbytes": 1e8, "calls": 1, "batch": 32, **reported}
        steps = {"compute": 0.2, "communication": 0.1, "data": 0.0, "other": 0.0}
        run = queue(f"by {codec}")
        for rank in range(ranks):
            named = {f"exchange__{name}": [float(value)] for name, value in reported.items()}
            report(run, rank, **named, **{f"step__{name}": [v] for name, v in steps.items()})
        supervisor.put_run_fact(run.id, state=RunState.FINISHED, ranks=ranks, iteration=9)
        return supervisor.run(run.id)

    return train


def test_bytes_and_cost_of_compression_are_read(trained, supervisor) -> None:
    costs = {"cost powersgd": 2e-10, "small": 0.1}

    run = trained(Codec.POWERSGD, wire=2e6, whole=0.045, error=0.031, **costs)

    assert read_gradient_traffic(supervisor, run) == GradientTraffic(
        Codec.POWERSGD, wire=2e6, plain=1e8, seconds=0.045, coding=pytest.approx(0.018)
    )


def test_they_are_said_wherever_a_run_is_shown(trained, supervisor) -> None:
    run = trained(Codec.FP16, wire=5e7, whole=0.3, error=0.0004, **{"cost fp16": 1e-10})
    said = (
        "Compressed by fp16, each rank sends 50 MB a step instead of 100 MB. The exchange takes "
        "300 ms, about 10 ms of it for compression."
    )

    kept = kept_bundle(supervisor, run, 0.0)

    assert said in read_breakdown(supervisor, run).says
    assert said in kept["text/plain"]
    assert said in kept["text/html"]


def test_what_is_not_compressed_has_its_bytes_and_its_time(trained, supervisor) -> None:
    run = trained(Codec.NONE, wire=1e8, whole=0.56)

    assert carried_sentence(read_gradient_traffic(supervisor, run)) == (
        "Each rank sends 100 MB a step, uncompressed. The exchange takes 560 ms."
    )


def test_of_an_exchange_that_is_not_ours_nothing_is_said(queue, report, supervisor) -> None:
    run = queue("theirs")
    report(run, 0, exchange__nbytes=[1e8], exchange__calls=[161.0])
    supervisor.put_run_fact(run.id, ranks=2)

    assert read_gradient_traffic(supervisor, supervisor.run(run.id)) is None


def test_one_rank_sends_nothing_to_itself(trained, supervisor) -> None:
    assert (
        read_gradient_traffic(supervisor, trained(Codec.NONE, ranks=1, wire=0.0, whole=0.1)) is None
    )
