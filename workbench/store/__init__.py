"""The SQLite file that holds wishes (desired) and facts (observed), points and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.store.paths import home_directory
    from workbench.store.reports import OutputRow, PointRow
    from workbench.store.saved_curves import SavedCurves
    from workbench.store.store import Store

__all__ = ["OutputRow", "PointRow", "SavedCurves", "Store", "home_directory"]

# Loaded when asked for: a Tab in a shell needs names out of the file, and nothing else.
_HOMES = {
    "OutputRow": "workbench.store.reports",
    "PointRow": "workbench.store.reports",
    "SavedCurves": "workbench.store.saved_curves",
    "Store": "workbench.store.store",
    "home_directory": "workbench.store.paths",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'workbench.store' has no attribute {name!r}")
