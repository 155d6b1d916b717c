"""The store and the runs of tests/view."""

from tests.view.conftest import home, queue, report, store, supervisor

__all__ = ["home", "queue", "report", "store", "supervisor"]
