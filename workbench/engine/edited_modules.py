"""Have a cell import the user's own modules again whose files were edited since their import.

A module is one of the user's own if its source is neither in the standard library nor installed.
Objects that exist already keep the code that they have, as in a notebook's kernel.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from workbench.engine.output.traceback_format import library


class SourceState(NamedTuple):
    """What tells one state of a file from another; its size and whole seconds may be the same."""

    mtime: int
    nbytes: int
    inode: int


class ModuleFinder(MetaPathFinder):
    """Finds modules as Python does, and notes the state of the user's files before they are read.

    After a cell that took an hour, that could no longer be known.
    """

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, SourceState]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find what the path-based finder finds."""
        spec = PathFinder.find_spec(fullname, path, target)
        origin = (spec and spec.origin) or ""
        if origin.endswith(".py") and not library(origin) and (state := _state(origin)):
            self.found[fullname] = origin, state
        return spec


_notes = ModuleFinder()


def note_sources() -> None:
    """Note from now on what the user's modules are made from, once."""
    if _notes not in sys.meta_path and PathFinder in sys.meta_path:
        sys.meta_path.insert(sys.meta_path.index(PathFinder), _notes)


def forget_edited(shell: Any) -> None:
    """Forget the modules that were edited, whole packages of them, and those that import them.

    Args:
        shell: IPython's. Where its ``%autoreload`` is on for all modules, it has changed them in
            place, and nothing is forgotten.
    """
    importlib.invalidate_caches()  # a file that is a moment old may not be in them
    found = {name: one for name, one in _notes.found.items() if name in sys.modules}
    edited = {name for name, (path, state) in found.items() if _is_edited(name, path, state)}
    if not edited:
        return
    if _autoreload_is_on(shell):
        now = {name: (path, _state(path) or state) for name, (path, state) in found.items()}
        _notes.found.update(now)
        return
    for name in edited:
        with contextlib.suppress(OSError):  # Python takes it for new if the second is the same
            os.unlink(cache_from_source(found[name][0]))
    imports = {name: imported_names(name, path) for name, (path, _) in found.items()}
    tops = with_importers({_top(name) for name in edited}, imports)
    gone = [name for name in sys.modules if _top(name) in tops]
    # Compiled modules cannot be imported twice.
    tops -= {_top(name) for name in gone if _is_compiled(sys.modules[name])}
    for name in gone:
        if _top(name) in tops:
            del sys.modules[name]


def with_importers(tops: Iterable[str], imports: Mapping[str, Iterable[str]]) -> set[str]:
    """Return modules and packages with all that import them, also by way of others.

    Args:
        tops: Names without a dot.
        imports: What each module imports, by its name.
    """
    all_tops, before = {*tops}, 0
    while len(all_tops) > before:
        before = len(all_tops)
        all_tops |= {
            _top(name) for name, names in imports.items() if not all_tops.isdisjoint(names)
        }
    return all_tops


def imported_names(name: str, path: str) -> set[str]:
    """Return the modules and packages, without what is after a dot, that a module imports."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return set()
    names = {_top(alias.name) for node in ast.walk(tree) if isinstance(node, ast.Import)
             for alias in node.names}  # fmt: skip
    names |= {
        _top(node.module or "") if not node.level else _top(name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    held = vars(sys.modules[name]) if name in sys.modules else {}
    # Those that it has imported by another way than a statement.
    return names | {_top(one.__name__) for one in held.values() if type(one) is ModuleType}


def _is_edited(name: str, path: str, state: SourceState) -> bool:
    """Return whether another import would give something else; not if there is nothing else."""
    if _state(path) not in (state, None):
        return True
    # The notebook of this cell may have another module of this name beside it.
    spec = None if "." in name else PathFinder.find_spec(name)
    found = spec.origin if spec is not None and spec.has_location else None
    return found is not None and _state(found) not in (state, None)


def _is_compiled(module: ModuleType) -> bool:
    spec = vars(module).get("__spec__")  # a module may answer for any other attribute
    return bool(spec and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES)))


def _state(path: str) -> SourceState | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return SourceState(found.st_mtime_ns, found.st_size, found.st_ino)


def _autoreload_is_on(shell: Any) -> bool:
    registry = getattr(getattr(shell, "magics_manager", None), "registry", {})
    reloader = getattr(registry.get("AutoreloadMagics"), "_reloader", None)
    return bool(reloader and reloader.enabled and reloader.check_all)


def _top(name: str) -> str:
    return name.partition(".")[0]
