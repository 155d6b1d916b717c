"""A reader reads the run's state less often than its points, but misses none of it."""

from __future__ import annotations

from workbench.core.run.model import RunState
from workbench.server.run_reader import Reading, RunUpdate
from workbench.store import Store


def test_a_state_that_was_written_right_after_another_is_read(run) -> None:
    reading = Reading(run.id, refresh=3600.0)
    found: list[RunUpdate] = []
    try:
        with Store() as store:
            for iteration in range(1, 6):  # the last one is followed by no write
                store.put_run_fact(run.id, state=RunState.RUNNING, iteration=iteration)
                found.append(reading.wait())
        while found[-1].run["iteration"] != 5:
            found.append(reading.wait())
        run.end()
        while not found[-1].ended:
            found.append(reading.wait())
    finally:
        reading.close()
    seen = [update.run["iteration"] for update in found]
    assert seen == sorted(seen)
