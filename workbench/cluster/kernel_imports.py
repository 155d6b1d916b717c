"""Import what ipykernel and IPython otherwise import only when an engine has registered."""

from __future__ import annotations

import os
from importlib import import_module

_LATE = (
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "sqlite3",
)


def import_kernel() -> None:
    """Import it; nothing of it starts a thread."""
    # As ipyparallel's engine does, before the debugger looks.
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    for name in _LATE:
        import_module(name)
