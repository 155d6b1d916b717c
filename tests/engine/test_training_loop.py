"""A loop that is written by hand reports its steps as they were."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from workbench.engine import training_loop
from workbench.engine.training_loop import NoExchange, TrainingLoop


@pytest.mark.parametrize("kind", [float, str], ids=["in memory", "on a device"])
def test_a_value_has_the_time_at_which_its_step_ended(
    current_run, taken, monkeypatch, kind
) -> None:
    monkeypatch.setattr(training_loop, "FETCH_SECONDS", 3600.0)
    # What is no number is asked for, several at a time, as a tensor on a device is.
    loop = TrainingLoop(current_run, lambda values: [*map(float, values)], NoExchange())
    moments = [time.time()]

    for number in range(3):
        loop.backward()
        loop.add_loss(kind(number))
        loop.begin_step()
        loop.count(loop, str)
        loop.end_step(loop, 0.1)
        moments.append(time.time())
    loop.finish()

    times = [one.time for one in taken().samples if one.name == "loss"]
    assert len(times) == 3
    assert all(
        begun <= at <= ended for at, (begun, ended) in zip(times, pairwise(moments), strict=True)
    )
