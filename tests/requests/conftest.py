"""A store in the data directory of tests/store, the runs of tests/view, and a supervisor's lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.store.conftest import home, on_disk, run, wish
from tests.view.conftest import queue
from workbench.requests.supervisor import LOCK_NAME, LOG_NAME
from workbench.store import Store
from workbench.store.paths import cluster_directory

__all__ = ["home", "on_disk", "queue", "run", "wish"]


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    """The store of the data directory."""
    with Store() as opened:
        yield opened


@pytest.fixture
def awake(home: Path) -> Iterator[None]:
    """Hold the lock as a supervisor does, so that none is started."""
    with (cluster_directory("default") / LOCK_NAME).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def has_started(home: Path) -> bool:
    """Whether anybody tried to start a supervisor for this data directory."""
    running = [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _home_of(process) == str(home)
    ]
    return bool(running or [*home.rglob(LOG_NAME)])


def _home_of(process: psutil.Process) -> str:
    try:
        return process.environ().get("WORKBENCH_HOME", "")
    except psutil.Error:
        return ""
