"""Refuse compiled modules that were made of other sources than those beside the package.

An editable installation compiles once, and then follows its tree: after a change of ``native/`` the
compiled modules are old. A wheel has no sources beside it, and all its parts are of one tree.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from pathlib import Path
from types import ModuleType

SOURCES = Path(__file__).parents[2] / "native"
log = logging.getLogger("workbench.engine")
_refused: list[str] = []


def is_old(module: ModuleType) -> bool:
    """Return whether a compiled module is of other sources than those beside the package."""
    name = module.__name__.rpartition(".")[2]
    try:
        parts = [(SOURCES / file).read_bytes() for file in (f"{name}.c", "module.h")]
    except OSError:
        return False
    return getattr(module, "SOURCES", "") != sha256(b"".join(parts)).hexdigest()


def require_current(module: ModuleType) -> None:
    """Do nothing if a compiled module is of the sources beside the package, or there are none.

    Raises:
        ImportError: It is not; the first time in a process, the log has a warning.
    """
    if not is_old(module):
        return
    if not _refused:
        log.warning(
            "Compiled modules of workbench are older than their sources, so Python is used, which "
            "is slower: run `pip install --editable .` in %s.",
            SOURCES.parent,
        )
    _refused.append(module.__name__)
    raise ImportError(f"{module.__file__} is older than its sources")
