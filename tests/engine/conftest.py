"""A run on this process, as far as an engine's parts need one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workbench.core.report import Batch, decode
from workbench.engine.current import Current, set_current
from workbench.engine.log import RunLog


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    return RunLog("a-run", 0, tmp_path / "runs" / "rank-0.log")


@pytest.fixture
def current_run(log: RunLog) -> Iterator[Current]:
    """Be inside a run for as long as the test lasts."""
    run = Current(log)
    set_current(run)
    yield run
    set_current(None)


@pytest.fixture
def taken(log: RunLog) -> Callable[[], Batch]:
    """Take what has gathered in the log, as the channel does."""

    def take() -> Batch:
        line = log.take()
        batch = decode(line) if line else Batch("a-run", 0, 0)
        assert isinstance(batch, Batch)
        return batch

    return take
