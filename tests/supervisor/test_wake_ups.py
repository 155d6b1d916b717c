"""A supervisor sleeps while nothing happens, and wakes for what is written into the store."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from tests.simulation.thread_cluster import ThreadCluster
from workbench.core.run.model import RunKind, RunWish
from workbench.store import Store
from workbench.supervisor import wake_ups
from workbench.supervisor.wake_ups import AGAIN_SECONDS, CALM_SECONDS, StoreChanges, WakeUps

LOOK_SECONDS = 0.15


class WokenCluster(ThreadCluster):
    """A cluster whose wait other descriptors can end."""

    def wake_by(self, descriptor: int) -> bool:
        """Keep the descriptor."""
        self.descriptor = descriptor
        return True


def write(store: Store, name: str = "fit") -> None:
    """Write as another process does."""
    with Store(store.path) as other:
        other.wish_run(RunWish(f"251231-235959-{name}", name, RunKind.CELL, "pass"))


def test_a_calm_supervisor_waits_longer(store) -> None:
    wake_ups = WakeUps(store, WokenCluster())
    wake_ups.has_changed(0.0)

    assert wake_ups.look_seconds(LOOK_SECONDS, calm=True) == CALM_SECONDS
    assert wake_ups.look_seconds(LOOK_SECONDS, calm=False) == LOOK_SECONDS


def test_a_change_ends_the_wait(store) -> None:
    wake_ups = WakeUps(store, WokenCluster())
    wake_ups.has_changed(0.0)

    write(store)

    assert wake_ups.wait_seconds(CALM_SECONDS) == 0.0
    assert wake_ups.has_changed(0.1)
    assert not wake_ups.has_changed(0.2)
    assert wake_ups.wait_seconds(CALM_SECONDS) == CALM_SECONDS


def test_its_own_writes_do_not_wake_the_supervisor(store) -> None:
    wake_ups = WakeUps(store, WokenCluster())
    wake_ups.has_changed(0.0)

    store.wish_run(RunWish("251231-235959-fit", "fit", RunKind.CELL, "pass"))

    assert wake_ups.wait_seconds(CALM_SECONDS) == CALM_SECONDS


def test_a_notice_before_its_commit_is_looked_at_again_soon(store) -> None:
    wake_ups = WakeUps(store, WokenCluster())
    wake_ups.has_changed(0.0)
    store.wish_run(RunWish("251231-235959-fit", "fit", RunKind.CELL, "pass"))

    wake_ups.note_wake()  # of a commit that cannot be read yet

    assert wake_ups.wait_seconds(CALM_SECONDS) == AGAIN_SECONDS
    wake_ups.note_wake()
    assert wake_ups.wait_seconds(CALM_SECONDS) == CALM_SECONDS


def test_a_cluster_that_cannot_be_woken_is_looked_at_as_often_as_before(store) -> None:
    wake_ups = WakeUps(store, ThreadCluster())

    assert not wake_ups.is_woken
    assert wake_ups.wait_seconds(LOOK_SECONDS) == LOOK_SECONDS


def test_the_store_is_read_once_a_second_all_the_same(store) -> None:
    wake_ups, now = WakeUps(store, WokenCluster()), time.monotonic()
    wake_ups.has_changed(now)

    assert not wake_ups.has_changed(now + 0.5)
    assert wake_ups.has_changed(now + 1.0)
    assert not wake_ups.has_changed(now + 1.5)
    wake_ups.read_again()
    assert wake_ups.has_changed(now + 1.6)


def test_a_process_that_ends_makes_the_supervisor_look_again_soon(store) -> None:
    """How a rank ended is known a moment later, and gives no notice."""
    cluster = WokenCluster()
    wake_ups = WakeUps(store, cluster)
    wake_ups.note_wake()
    assert wake_ups.is_woken

    cluster.has_news = True
    wake_ups.note_wake()

    assert not wake_ups.is_woken
    assert wake_ups.look_seconds(LOOK_SECONDS, calm=False) == AGAIN_SECONDS


SECONDS = 10.0
WRITE = """\
import sys
from workbench.store import Store
with Store(sys.argv[1]) as store:
    store.wish_stop("251231-235959-ab2c")
"""


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
