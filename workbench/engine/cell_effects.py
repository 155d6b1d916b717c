"""Note what a cell changes on this rank: the names that it binds, and what it does outside.

Python's audit events say what is done outside of the process. Not counted is what a repetition
would do again without harm or would find done: caches, data sets that a library downloads,
temporary files, the imports of installed packages, and the worker processes of data loaders.
``native/audit_events.c`` passes on the events that matter; a hook in Python would be called for
each event, ``id()`` among them, and so cost every program.
"""

from __future__ import annotations

import functools
import os
import re
import site
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.core.messages import NAME_CHARACTERS
from workbench.core.recovery.replay import KNOWN
from workbench.core.run.cell_names import CellEffects, Deed
from workbench.engine.compiled_modules import require_current
from workbench.engine.framework import frameworks

try:
    from workbench.engine import audit_events

    require_current(audit_events)
except ImportError:  # nothing was compiled
    audit_events = None  # type: ignore[assignment]  # who uses it asks first

MOST_NAMES = 5_000
PREFIXES = ("open", "os.", "subprocess.", "pty.", "socket.", "sqlite3.", "tempfile.", "exec")
"""How the names of the events begin that matter; the compiled module has the same list."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REMOVING = frozenset({
    "os.chmod", "os.chown", "os.link", "os.remove", "os.removexattr", "os.rename", "os.rmdir",
    "os.setxattr", "os.symlink", "os.truncate", "os.utime",
})  # fmt: skip
_STARTING = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn",
    "subprocess.Popen",
})  # fmt: skip
_SENDING = frozenset({"socket.connect", "socket.sendmsg", "socket.sendto"})
# Libraries that keep caches, fetch data sets once, or start workers that only read; a framework
# names its own.
_HARMLESS = (
    "ctypes.util", "filelock", "importlib._bootstrap", "importlib._bootstrap_external", "joblib",
    "keras.utils", "matplotlib.font_manager", "matplotlib.texmanager",
    "multiprocessing.resource_sharer", "multiprocessing.resource_tracker", "numba", "platform",
    "pooch", "sklearn.datasets", "tempfile", "tensorflow_datasets", "uuid",
)  # fmt: skip
_CACHES = (
    "KERAS_HOME", "MPLCONFIGDIR", "SCIKIT_LEARN_DATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
)  # fmt: skip
_NO_FILES = ("/dev/", "/proc/", "/sys/")
_IPYTHONS = re.compile(r"__.*__$|_+$|_i+$|_i?\d+$|_[dio]h$|_exit_code$")


class _Notes:
    """What one cell has done so far.

    Args:
        space: The namespace that it runs in.
    """

    def __init__(self, space: dict[str, Any]) -> None:
        self.space = space
        self.deeds = set[Deed]()
        self._before = {name: id(value) for name, value in space.items()}
        self._mentioned = set[str]()
        self._process = os.getpid()
        self._threads = {thread.ident for thread in threading.enumerate()}
        self._plain = [*_NO_FILES, *(_folder(one) for one in _caches())]
        harmless = (*_HARMLESS, *(name for one in frameworks() for name in one.harmless))
        self._harmless = tuple(f"{name}." for name in harmless)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an event of Python."""
        if os.getpid() != self._process:
            return  # a child, which reports to no user
        if event == "exec":
            self._note_text(*arguments)
        elif event in ("tempfile.mkdtemp", "tempfile.mkstemp"):
            self._plain.append(str(arguments[0]))
        else:
            deed = self._deed(event, arguments)
            if deed is not None and deed not in self.deeds and self._is_of_cell():
                self.deeds.add(deed)

    def effects(self) -> CellEffects | None:
        """Return what the cell has changed; None if that is too much to tell."""
        after = {name: value for name, value in self.space.items() if _is_own(name)}
        new = {name: v for name, v in after.items() if self._before.get(name) != id(v)}
        deleted = [name for name in self._before if _is_own(name) and name not in after]
        if len(new) + len(deleted) > MOST_NAMES:
            return None
        modules = {name for name, value in new.items() if isinstance(value, types.ModuleType)}
        fixed = {name for name, value in new.items() if _is_fixed(value)} - modules
        return CellEffects(
            bound=tuple(sorted(new.keys() - fixed - modules)),
            fixed=tuple(sorted(fixed)),
            modules=tuple(sorted(modules)),
            deleted=tuple(sorted(deleted)),
            read=tuple(sorted(filter(_is_own, self._mentioned & self._before.keys()))),
            deeds=tuple(sorted(self.deeds)),
        )

    def _deed(self, event: str, arguments: tuple[Any, ...]) -> Deed | None:
        if event in _STARTING:
            return Deed.STARTED
        if event in _SENDING:
            return None if _is_local(arguments[1]) else Deed.CONNECTED
        if event == "open":
            is_writing = isinstance(arguments[2], int) and arguments[2] & _WRITING
            return Deed.WROTE if is_writing and self._counts(arguments[0]) else None
        if event == "os.mkdir":
            return Deed.WROTE if self._counts(arguments[0]) and not _may_exist() else None
        if event == "sqlite3.connect":
            path = arguments[0]
            return Deed.WROTE if path not in ("", ":memory:") and self._counts(path) else None
        if event in _REMOVING and any(self._counts(one) for one in arguments[:2]):
            return Deed.REMOVED
        return None

    def _counts(self, path: object) -> bool:
        """Return whether a path is that of a file of the user; descriptors were opened before."""
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        where = os.path.abspath(os.fsdecode(path))
        is_plain = any(where.startswith(one) for one in self._plain)
        return not is_plain and "__pycache__" not in where

    def _note_text(self, code: object) -> None:
        """Note the names in text that the cell executes in its own namespace."""
        frame = _caller()
        if isinstance(code, types.CodeType) and frame and frame.f_globals is self.space:
            self._mentioned.update(_find_mentions(code))

    def _is_of_cell(self) -> bool:
        """Return whether the user's code does this, and not a library for its own purposes."""
        frame = _caller()
        while frame is not None:
            module = f"{frame.f_globals.get('__name__')}."
            if frame.f_globals is self.space:
                return True
            if module.startswith("workbench."):
                return False
            if _is_of_user(frame.f_code.co_filename):
                return True
            if module.startswith(self._harmless):
                return False
            frame = frame.f_back
        return threading.get_ident() not in self._threads


_present: _Notes | None = None
_is_installed = False


@contextmanager
def note_effects(space: dict[str, Any]) -> Iterator[Callable[[], CellEffects | None]]:
    """Note what the body does in a namespace, and outside; the value returns it."""
    global _present  # noqa: PLW0603  # a hook of the process, which runs one cell at a time
    _install()
    _present = notes = _Notes(space)
    if audit_events is not None:
        audit_events.activate(True)
    try:
        yield notes.effects
    finally:
        _present = None
        if audit_events is not None:
            audit_events.activate(False)


def _install() -> None:
    """Listen to Python's events from now on: a hook cannot be removed."""
    global _is_installed  # noqa: PLW0603  # once in a process
    if not _is_installed:
        _is_installed = True
        if audit_events is not None:
            audit_events.listen(_hear)
        else:
            sys.addaudithook(_hear_all)


def announce_file(write: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that also says which file it writes, since code in C++ does not."""

    @functools.wraps(write)
    def announce(self: Any, name: Any, *arguments: Any) -> None:
        sys.audit("open", name, "wb", os.O_WRONLY)
        write(self, name, *arguments)

    return announce


def _hear_all(event: str, arguments: tuple[Any, ...]) -> None:
    if _present is not None and event.startswith(PREFIXES):
        _hear(event, arguments)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    try:
        if _present is not None:
            _present.hear(event, arguments)
    except Exception:  # noqa: BLE001  # it would fail what the user's code does
        pass


def _caller() -> types.FrameType | None:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    return frame


def _may_exist() -> bool:
    """Return whether the folder that is made now may be there, as with ``exist_ok=True``."""
    frame = _caller()
    while frame is not None and frame.f_code.co_name in ("makedirs", "mkdir"):
        if frame.f_locals.get("exist_ok"):
            return True
        frame = frame.f_back
    return False


def _is_own(name: str) -> bool:
    """Return whether a name is one of the user's, and none of IPython's."""
    return name not in KNOWN and not _IPYTHONS.match(name) and len(name) <= NAME_CHARACTERS


def _is_fixed(value: object) -> bool:
    """Return whether reading a value cannot change it: a function, class, number or text."""
    if isinstance(value, type | int | float | complex | str | bytes | None):
        return True
    kind = type(value)
    of_library = kind.__module__ != "__main__" and not hasattr(kind, "__getattr__")
    return callable(value) and of_library and isinstance(getattr(value, "__name__", None), str)


def _is_local(address: object) -> bool:
    """Return whether it is that of a socket between the processes of one program."""
    return address is None or (isinstance(address, str | bytes) and "pymp-" in os.fsdecode(address))


def _find_mentions(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _find_mentions(constant)


def _caches() -> list[str]:
    """Return the folders of caches; those in the home directory have a name with a dot."""
    names = (*_CACHES, *(name for one in frameworks() for name in one.caches))
    named = (os.environ.get(name, "") for name in names)
    return [*filter(None, named), f"{Path.home()}/.", f"{Path.home()}/scikit_learn_data"]


def _folder(path: str) -> str:
    return path if path.endswith("/.") else os.path.join(os.path.abspath(path), "")


def _libraries() -> tuple[str, ...]:
    """Return the folders of Python's own modules and of installed packages."""
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {*site.getsitepackages(), site.getusersitepackages(), sys.prefix, sys.base_prefix}
    return tuple(os.path.join(one, "") for one in found)


_LIBRARIES = _libraries()


def _is_of_user(file: str) -> bool:
    return not file.startswith(("<", *_LIBRARIES))
