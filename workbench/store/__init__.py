"""The SQLite file that holds wishes and facts, points and output."""

from workbench.store.home import home_directory
from workbench.store.points import OutputRow, PointRow
from workbench.store.store import Store

__all__ = ["OutputRow", "PointRow", "Store", "home_directory"]
