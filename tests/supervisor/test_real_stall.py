"""Real ranks that wait for each other for good are replaced; those that wait for something are not.

The test has a network of its own, because a busy interface of the host counts as a transfer. It
lasts as long as ranks may wait: no limit is shortened.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, real_table
from tests.waiting import until
from workbench.core.run.hang import STALLED_SECONDS
from workbench.core.run.model import RunState

pytestmark = [
    pytest.mark.mpi, pytest.mark.root, pytest.mark.weekly, pytest.mark.timeout(600),
]  # fmt: skip
CLONE_NEWNET = 0x40000000
PROGRAM = Path(__file__).parent / "programs" / "waiting_ranks.py"
LONGER = STALLED_SECONDS + 12.0
STEPS = 30


@pytest.fixture
def _own_network() -> Iterator[None]:
    """Let processes that this thread starts have a loopback interface alone."""
    system = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as before:
        if system.unshare(CLONE_NEWNET):
            pytest.skip(f"no network of its own: {os.strerror(ctypes.get_errno())}")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            assert system.setns(before.fileno(), CLONE_NEWNET) == 0


@pytest.mark.usefixtures("_own_network")
def test_only_ranks_that_wait_for_each_other_for_good_are_replaced(tmp_path: Path) -> None:
    with real_table() as table:
        run = table.start(
            PROGRAM.read_text(encoding="utf-8"),
            parameters=(("seconds", LONGER), ("folder", str(tmp_path))),
        )
        waits = 3 * LONGER + 60.0
        # Through the wait for a rank that computes, and that for a transfer.
        until((tmp_path / "waited-for-good").exists, seconds=waits)
        first = table.store.run(run).fact
        stuck = {rank.pid for rank in table.store.ranks(NAME, first.generation)}
        until(lambda: table.store.run(run).fact.attempt == 2, seconds=waits)

        until(lambda: table.store.run(run).fact.state.ended, seconds=waits)
        ended, (lost,) = table.store.run(run).fact, table.store.attempts.past(run)

        assert first.attempt == 1
        assert lost.failed
        assert lost.ended - lost.started > 3 * STALLED_SECONDS
        assert re.match(
            r"Ranks 0, 1 waited in recv for \d+ s, and nothing was sent\.", lost.message
        )
        assert "Retry 1 of 3." in ended.message
        assert (ended.state, ended.iteration) == (RunState.FINISHED, STEPS), ended.message
        assert not any(Path(f"/proc/{pid}").exists() for pid in stuck)
        drawn = [
            p.iteration for p in table.store.reports.points(run) if (p.name, p.rank) == ("loss", 0)
        ]
        assert drawn == [*range(1, STEPS + 1)]
