"""Have a script import the modules beside it, and not those that an earlier script found.

Ranks host one script after another. The next one may have another ``model.py`` beside it, and so
may the same script after a change.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType

# What the latest script found; cells may use it until the next script.
_found: dict[str, ModuleType] = {}


@contextmanager
def own_modules(folder: Path) -> Iterator[None]:
    """Look for modules in a script's folder first, for as long as the context lasts."""
    for name, module in _found.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    _found.clear()
    before, path = {*sys.modules}, [*sys.path]
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = path
        new = {name: module for name, module in sys.modules.items() if name not in before}
        beside = {
            name
            for name, module in new.items()
            if isinstance(module, ModuleType) and _is_beside(module, folder)
        }
        _found.update(
            (name, module) for name, module in new.items() if name.partition(".")[0] in beside
        )


def _is_beside(module: ModuleType, folder: Path) -> bool:
    """Return whether it is a module or package directly in the folder that can be repeated."""
    spec = vars(module).get("__spec__")  # a module may answer for any other attribute
    if not isinstance(spec, ModuleSpec):
        return False
    if spec.submodule_search_locations is not None:
        return any(Path(place).parent == folder for place in spec.submodule_search_locations)
    origin = spec.origin or ""
    return Path(origin).parent == folder and not origin.endswith(tuple(EXTENSION_SUFFIXES))
