"""A process notices that the store was written, and what it has written itself."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.core.run.model import RunKind, RunWish
from workbench.store import Store
from workbench.supervisor import wake_ups
from workbench.supervisor.wake_ups import StoreChanges

SECONDS = 10.0
WRITE = """\
import sys
from workbench.store import Store
with Store(sys.argv[1]) as store:
    store.wish_stop("251231-235959-ab2c")
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite3") as store:
        yield store


def test_what_another_process_writes_is_noticed_once(store) -> None:
    store.wish_run(RunWish("251231-235959-ab2c", "fit", RunKind.CELL, "pass"))
    with closing(StoreChanges(store.path)) as noticed:
        assert not noticed.take()

        subprocess.run([sys.executable, "-c", WRITE, str(store.path)], check=True)

        assert select.select([noticed.descriptor], [], [], SECONDS)[0]
        assert noticed.take()
        assert not noticed.take()


def test_reading_is_no_change(store) -> None:
    with closing(StoreChanges(store.path)) as noticed:
        store.runs(None, limit=10)
        store.data_version()

        assert not noticed.take()


def test_a_shared_disk_is_not_watched(store, monkeypatch) -> None:
    """Another machine's writes give no notice."""
    monkeypatch.setattr(wake_ups, "mount_under", lambda folder: SimpleNamespace(is_shared=True))

    with pytest.raises(OSError, match="other machines"):
        StoreChanges(store.path)


def test_a_folder_that_cannot_be_watched_is_an_error(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        StoreChanges(tmp_path / "missing" / "store.sqlite3")
