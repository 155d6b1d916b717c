"""A store with runs that tests queue, and whose ranks report, as for views."""

from tests.view.conftest import home, queue, report, store, supervisor

__all__ = ["home", "queue", "report", "store", "supervisor"]
