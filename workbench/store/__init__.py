"""The SQLite file that holds wishes and facts, points and output."""

from workbench.store.store import OutputRow, PointRow, Store
from workbench.store.home import home_directory

__all__ = ["OutputRow", "PointRow", "Store", "home_directory"]
