"""Import in a fork server what ranks need: at its start, and later while no rank asks for it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

FRESH_SECONDS = 1.0
# Of processor time, since ranks may leave a trial a tenth of a core.
TRIAL_SECONDS = 60.0
HUNG_SECONDS = 1800  # until a trial is ended that waits for something
# Behind ranks that train, but soon done: until then the next ranks import what these have.
TRIAL_NICE = 10
# Between looks at what ranks have loaded: they are left to begin in peace.
LOOK_SECONDS = 3.0
_SET_PARENT_DEATH_SIGNAL = 1  # <linux/prctl.h>
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel", "/dev/infiniband")

FOLLOWED: dict[str, tuple[str, ...]] = {"/sklearn/utils/": ("sklearn.datasets",)}
"""By part of a library's path what to import once a rank has loaded it; frameworks add theirs."""


def hazard() -> str:
    """Return why this process must not fork now; empty if it may."""
    if len(os.listdir("/proc/self/task")) > 1:
        return "it leaves a thread running"
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith(_DEVICES):
            return f"it opens {target}"
    return ""


def preload(
    names: Sequence[str], follow: Callable[[dict[str, tuple[str, ...]]], None] | None = None
) -> tuple[str, str]:
    """Import modules and call functions.

    Args:
        follow: Called with what a function returns: more for ``FOLLOWED``.

    Returns:
        The first after which it is not safe to fork, and why; two empty texts without one.
    """
    for name in names:
        module, _, function = name.partition(":")
        try:
            found = import_module(module)
            if function:
                result = getattr(found, function)()
                if follow is not None and result is not None:
                    follow(result)
        except Exception:  # noqa: BLE001  # whatever a package raises, a rank that needs it reports
            continue
        if why := hazard():
            return name, why
    return "", ""


class PreloadStamp:
    """What the imported modules were made of, to notice that they were changed or reinstalled."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, int, int]] = {}
        self._until = 0.0
        self.extend()

    def extend(self) -> None:
        """Note the modules that were imported since."""
        files = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
        folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        new = (path for path in files | folders if path and path not in self._states)
        self._states |= {path: _state(path) for path in new}

    def change(self) -> str:
        """Return a file that is not as it was; empty if all are, or were a moment ago."""
        now = time.monotonic()
        if now < self._until:
            return ""
        changed = next((p for p, was in self._states.items() if _state(p) != was), "")
        self._until = now + FRESH_SECONDS
        return changed


class LateImports:
    """What a fork server imports when it has nothing else to do.

    Its ranks cannot leave it, so nothing may be imported here that makes a fork unsafe. Each name
    is tried in a process of its own first.

    Args:
        names: The first of them.
        close: Closes in that process what belongs to the fork server.
    """

    def __init__(self, names: Iterable[str], close: Callable[[], object]) -> None:
        self._waiting = [*names]
        self._close = close
        self._followed: dict[str, tuple[str, ...]] = dict(FOLLOWED)
        self._looked = time.monotonic()
        self._trial = 0

    def look(self, ranks: Iterable[int]) -> None:
        """Add what one of the ranks has loaded, at most every ``LOOK_SECONDS``."""
        now = time.monotonic()
        if not self._followed or now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for rank in ranks:
            try:
                loaded = Path(f"/proc/{rank}/maps").read_text(errors="replace")
            except OSError:
                continue  # it has ended
            for part in [one for one in self._followed if one in loaded]:
                self._waiting += self._followed.pop(part)

    def begin(self) -> int:
        """Try the next name in a process of its own.

        Returns:
            A pidfd of that process; -1 if there is nothing to try, or one is tried now.
        """
        if self._trial or not self._waiting:
            return -1
        server = os.getpid()
        self._trial = os.fork()
        if not self._trial:
            _try(self._waiting[0], self._close, server)
        return os.pidfd_open(self._trial)

    def end(self) -> str:
        """Import the name here if its trial, which has ended, shows that this is safe.

        Returns:
            Why it was not imported; empty otherwise.
        """
        _, status = os.waitpid(self._trial, 0)
        self._trial = 0
        name = self._waiting.pop(0)
        if status:
            return f"Each rank imports {name} itself: it is not safe to fork after it."
        preload([name], self._followed.update)
        return ""

    def cancel(self) -> None:
        """End a trial, and try nothing more."""
        self._waiting.clear()
        self._followed.clear()
        if self._trial:
            os.kill(self._trial, signal.SIGKILL)
            os.waitpid(self._trial, 0)
            self._trial = 0


def _try(name: str, close: Callable[[], object], server: int) -> None:
    """Import in a process of its own; its exit status is 0 if it may fork then."""
    try:
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != server:
            os._exit(1)
        close()
        signal.setitimer(signal.ITIMER_PROF, TRIAL_SECONDS)
        signal.alarm(HUNG_SECONDS)
        os.nice(TRIAL_NICE)
        late, _ = preload([name])
        os._exit(bool(late))
    finally:
        os._exit(1)


def _state(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    size = 0 if os.path.isdir(path) else found.st_size
    return found.st_mtime_ns, size, found.st_ino
