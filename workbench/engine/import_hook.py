"""Call a function when a module is imported, without importing it."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def when_imported(name: str, wrap: Callable[[Any], object]) -> None:
    """Call ``wrap`` with the module ``name``: now, or as soon as it has been imported."""
    if name in sys.modules:
        wrap(sys.modules[name])
    elif not any(isinstance(one, _Finder) and one.awaits(name, wrap) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name, wrap))


class _Finder:
    """Finds one module with the other finders, and has it wrapped after its execution.

    It stays until then: a module that is not there, or that fails, may be installed and imported
    later in the same process, and a library may look for it without importing it.
    """

    def __init__(self, name: str, wrap: Callable[[Any], object]) -> None:
        self.name = name
        self._wrap = wrap
        self._asks = threading.local()

    def awaits(self, name: str, wrap: Callable[[Any], object]) -> bool:
        """Return whether it has this function called for the module."""
        return (self.name, _code(self._wrap)) == (name, _code(wrap))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.name or getattr(self._asks, "others", False):
            return None
        self._asks.others = True
        try:
            spec = find_spec(name)
        finally:
            self._asks.others = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                with contextlib.suppress(ValueError):  # another thread has imported it too
                    sys.meta_path.remove(self)
                self._wrap(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # this spec alone
        return spec


def _code(function: Callable[[Any], object]) -> object:
    """Return what two functions that are made at the same place have in common."""
    return getattr(function, "__code__", function)
