"""From a notebook, many machines act like one: run a training cell on every MPI rank."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.cluster.connect import client
    from workbench.engine.report import report
    from workbench.notebook import load_ipython_extension, unload_ipython_extension
    from workbench.store import Store

__version__ = "0.1.0"
__all__ = ["Store", "client", "load_ipython_extension", "report", "unload_ipython_extension"]

# Nothing is imported before it is asked for: every Python start runs through this file once the
# wheel's .pth is in place, and a rank needs no notebook.
_HOMES = {
    "Store": "workbench.store",
    "client": "workbench.cluster.connect",
    "load_ipython_extension": "workbench.notebook",
    "report": "workbench.engine.report",
    "unload_ipython_extension": "workbench.notebook",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'workbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
