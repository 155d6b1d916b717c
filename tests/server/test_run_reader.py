"""A reader reads the run's state less often than its points, but misses none of it."""

from __future__ import annotations

import time

from workbench.core.run.model import RunState
from workbench.server.run_reader import Reading, RunUpdate
from workbench.store import Store


def until_iteration(reading: Reading, iteration: int) -> RunUpdate:
    """Wait for the update that says so."""
    deadline = time.monotonic() + 10.0
    while (update := reading.wait()).run["iteration"] != iteration:
        assert time.monotonic() < deadline
    return update


def test_a_state_that_was_written_right_after_another_is_read(run) -> None:
    reading = Reading(run.id, refresh=60.0)
    try:
        with Store() as store:
            for iteration in range(1, 6):  # the last one is followed by no write
                store.put_run_fact(run.id, state=RunState.RUNNING, iteration=iteration)
                reading.wait()
        assert not until_iteration(reading, 5).ended
        run.end()
        assert until_iteration(reading, 5) is not None
    finally:
        reading.close()
