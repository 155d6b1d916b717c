"""Free ranks that wait in PyTorch's gloo, and let each run create its process groups.

gloo waits up to 30 minutes for a rank that has failed, its abort does nothing, and it hears no
interrupt. But it gives up when a connection closes. So the connections of its groups are known.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from workbench.engine.import_hook import when_imported
from workbench.engine.run_context import Current, current

_SOCKET = "socket:["
_WAITS = ("/gloo/transport/", "[gloo")
_TIMEOUT = "imed out"


class ProcessGroups:
    """The connections of this process's groups, and the run that created them."""

    def __init__(self) -> None:
        self._sockets: dict[int, str] = {}
        self._run: Current | None = None
        self.is_closed = False
        """Whether they were closed, so that the groups are of no use any more."""

    @property
    def are_stale(self) -> bool:
        """Whether an earlier run's failure has closed them."""
        return self.is_closed and self._run is not current()

    def creating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return PyTorch's function that creates a group, whose connections become known."""

        @functools.wraps(original)
        def create(*args: Any, **kwargs: Any) -> Any:
            before = _sockets()
            try:
                return original(*args, **kwargs)
            finally:
                new = {fd: name for fd, name in _sockets().items() if before.get(fd) != name}
                self._sockets |= new

        return create

    def beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``init_process_group``, which also begins again in another run."""

        @functools.wraps(original)
        def begin(*args: Any, **kwargs: Any) -> Any:
            run, groups = current(), sys.modules["torch.distributed"]
            if run is not None and run is not self._run:
                if groups.is_initialized():
                    groups.destroy_process_group()
                self._sockets.clear()
                self._run, self.is_closed = run, False
            return original(*args, **kwargs)

        return begin

    def leave_others(self, size: int) -> None:
        """Destroy an earlier run's groups if they are not of ``size`` ranks, as the present one's.

        A framework that finds a group takes it, and would train each rank by itself.
        """
        package: Any = sys.modules.get("torch.distributed")
        begun = getattr(package, "is_initialized", None)
        if begun is not None and begun() and package.get_world_size() != size:
            package.destroy_process_group()
            self._sockets.clear()

    def free(self) -> None:
        """Close the groups' connections, which frees all ranks that wait in one; in any thread."""
        known, self._sockets = self._sockets, {}
        now = _sockets()
        for fd, name in known.items():
            if now.get(fd) == name:
                self.is_closed = True
                with contextlib.suppress(OSError), _borrowed(fd) as connection:
                    connection.getpeername()  # gloo ends the process if its listener fails
                    connection.shutdown(socket.SHUT_RDWR)


groups = ProcessGroups()


def hook_process_groups() -> None:
    """Watch the creation of PyTorch's process groups, once they are imported."""
    when_imported("torch.distributed.distributed_c10d", _wrap)


def _wrap(module: Any) -> None:
    create = getattr(module, "_new_process_group_helper", None)
    if create is None or hasattr(create, "__wrapped__"):
        return  # another release, whose groups are as without us; or it was wrapped before
    module._new_process_group_helper = groups.creating(create)
    module.init_process_group = begin = groups.beginning(module.init_process_group)
    package = sys.modules.get("torch.distributed")
    if hasattr(package, "init_process_group"):  # it has been imported, with these names in it
        vars(package).update(init_process_group=begin)


def gave_up(error: BaseException) -> bool:
    """Return whether gloo raised ``error`` because a connection closed: another rank failed."""
    said = error.args[0] if isinstance(error, RuntimeError) and error.args else ""
    is_gloo = isinstance(said, str) and any(one in said for one in _WAITS)
    return is_gloo and _TIMEOUT not in said


@contextlib.contextmanager
def _borrowed(fd: int) -> Iterator[socket.socket]:
    """Use a connection that stays gloo's own, which closes it."""
    connection = socket.socket(fileno=fd)
    try:
        yield connection
    finally:
        connection.detach()


def _sockets() -> dict[int, str]:
    """Return this process's sockets: their numbers, and their names, which are never used twice."""
    found = {}
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            name = os.readlink(f"/proc/self/fd/{entry}")
            if name.startswith(_SOCKET):
                found[int(entry)] = name
    return found
