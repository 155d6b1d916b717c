"""The store and data directory of tests/store, and the runs of tests/view."""

from tests.store.conftest import home, on_disk, run, store, wish
from tests.view.conftest import queue

__all__ = ["home", "on_disk", "queue", "run", "store", "wish"]
