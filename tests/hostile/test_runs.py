"""Behaviour over several cells: Stop in a flood, broken modules, leftover processes."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from tests.hostile.conftest import FRESH_SECONDS, Place
from tests.hostile.table import source_of
from tests.notebook.kernel import processes_of
from tests.waiting import until
from workbench.core.run.model import RunState
from workbench.requests.cluster import ask_down
from workbench.store import Store

pytestmark = [
    pytest.mark.contract,
    pytest.mark.mpi,
    pytest.mark.kernel,
    pytest.mark.timeout(300),
]
HEARD_SECONDS = 2.0


def test_stop_is_heard_while_a_rank_floods_its_output(place: Place) -> None:
    place.train("kept = 1", FRESH_SECONDS)
    place.notebook.run(
        "%%dist_train --background --name flood\n" + source_of("print_until_stopped"), timeout=20
    )
    with Store() as store:
        until(lambda: store.run("flood").fact.iteration > 20, seconds=30)

        begun = time.monotonic()
        place.notebook.run("%dist_stop flood", timeout=20)
        until(lambda: store.run("flood").fact.state.ended, seconds=30)
        took = time.monotonic() - begun

        assert store.run("flood").fact.state is RunState.STOPPED
        assert took < HEARD_SECONDS
    assert "kept 1" in place.train("print('kept', kept)", FRESH_SECONDS).text


def test_a_run_whose_cell_cannot_begin_fails_and_the_next_one_runs(place: Place) -> None:
    place.train("import sys\nkept = sys.modules['workbench']\nsys.modules['workbench'] = None", 10)

    place.train("print('this cannot begin, or begins all the same')", 20)
    place.train("import sys\nsys.modules['workbench'] = kept", 20)

    assert "after" in place.train("print('after')", FRESH_SECONDS).text


def test_what_a_cell_starts_ends_with_its_world(place: Place) -> None:
    place.train(source_of("leave_processes"), 20)
    until(lambda: len(sleepers(place)) == 3 * place.ranks, seconds=20)  # they may still begin

    with Store() as store:
        ask_down(store)

    until(lambda: not sleepers(place), seconds=20)


def test_what_a_cell_starts_ends_with_a_rank_that_is_killed(place: Place) -> None:
    place.train(source_of("leave_processes"), FRESH_SECONDS)

    with Store() as store:
        generation = store.cluster_fact("default").generation
        os.kill(store.ranks("default", generation)[-1].pid, signal.SIGKILL)
    until(lambda: not sleepers(place), seconds=20)

    assert "after" in place.train("print('after')", FRESH_SECONDS).text


def sleepers(place: Place) -> list[psutil.Process]:
    """Return the processes that the cell ``leave_processes`` started and that still run."""
    found = []
    for pid in processes_of(str(place.home)):
        try:
            if "987" in " ".join(psutil.Process(pid).cmdline()):
                found.append(psutil.Process(pid))
        except psutil.Error:
            continue
    return found
