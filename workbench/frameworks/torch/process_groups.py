"""Free ranks that wait in PyTorch's gloo, and let each run create its process groups.

gloo waits up to 30 minutes for a rank that has failed, its abort does nothing, and it hears no
interrupt. But it gives up when a connection closes. So the connections of its groups are known.

PyTorch destroys a group which only replicas still hold without releasing Python's lock, for which
gloo's thread may wait with the group's own, to let go of the last backward pass: 2.13 then hangs.
It releases the lock for a group that Python holds, so those that a program ends are held until the
next ones end or the next run begins.

A framework that finds a group takes it. A group stays for later cells on as many ranks, and all
ranks leave it alike: one that kept it would wait for the others for good.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, MutableMapping
from datetime import timedelta
from importlib import import_module
from typing import Any

import psutil

from workbench.core.fleet.connection_limits import NETWORK_VARIABLE
from workbench.engine.run_context import RunContext, current

# NCCL takes a name for the first letters of one, unless a "=" is before it.
_SETTINGS = {"GLOO_SOCKET_IFNAME": "", "NCCL_SOCKET_IFNAME": "="}
_LOOPBACK = "127.0.0.0/8"
# PyTorch's client tries again only 0.25 to 0.75 s after a refusal, and longer after the next one.
# Past this time that matters no more, and PyTorch waits as long as it is asked to.
LISTENING_SECONDS = 20.0
TRY_SECONDS = 1.0
BETWEEN_SECONDS = 0.005
_PARAMETERS = (
    "host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers", "multi_tenant",
    "master_listen_fd", "use_libuv",
)  # fmt: skip


class GroupSockets:
    """Where groups of this process may listen: on their world's addresses, not on all.

    Neither PyTorch's store nor gloo asks who connects. Settings of the user's own are left as they
    are, and so is a store that is to listen at a name which other hosts may take for another
    address.

    Args:
        environment: The variables of the process.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._is_alone = False

    def stay_within(self, *, alone: bool) -> None:
        """Choose the interface of gloo and NCCL.

        Args:
            alone: Whether all ranks of the world are on this machine.
        """
        self._is_alone = alone
        network = _LOOPBACK if alone else self._environment.get(NETWORK_VARIABLE, "")
        if name := _interface(network):
            for setting, prefix in _SETTINGS.items():
                self._environment.setdefault(setting, prefix + name)

    def opening(self, original: Callable[..., None]) -> Callable[..., None]:
        """Return the constructor of PyTorch's store, with a socket that is bound to its address.

        A store that connects to another rank's waits first until that one listens.
        """

        @functools.wraps(original)
        def open_store(store: Any, *args: Any, **kwargs: Any) -> None:
            given = dict(zip(_PARAMETERS, args, strict=False)) | kwargs
            if given.get("is_master") and given.get("master_listen_fd") is None:
                bound = self._bind(given.get("host_name"), given.get("port"))
                if bound is not None:
                    # The store owns it from here on, also if the ranks do not come.
                    given["master_listen_fd"] = bound.detach()
                    return original(store, **given)
            elif not given.get("is_master"):
                _wait_for_listener(**given)
            return original(store, *args, **kwargs)

        return open_store

    def _bind(self, host: Any, port: Any) -> socket.socket | None:
        """Return a socket bound to an address; None where PyTorch must choose by itself."""
        try:
            if not self._is_alone:
                ipaddress.ip_address(host)  # a name may mean another address elsewhere
            found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
            family, kind, protocol, _, address = found[0]
            made = socket.socket(family, kind, protocol)
            try:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.bind(address)
                made.setblocking(False)  # as the store's own
            except OSError:
                made.close()
                raise
        except (OSError, TypeError, ValueError):
            return None  # it is another machine's address, or a store of this process has the port
        return made


def _wait_for_listener(
    host_name: Any = None, port: Any = None, timeout: Any = None, **_: object
) -> None:
    """Return once something listens there, or PyTorch has to see for itself."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else LISTENING_SECONDS
    deadline = time.monotonic() + min(seconds, LISTENING_SECONDS)
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host_name, int(port)), TRY_SECONDS).close()
        except (ConnectionRefusedError, TimeoutError):
            time.sleep(BETWEEN_SECONDS)
        except (OSError, TypeError, ValueError):
            return
        else:
            return


group_sockets = GroupSockets()


def wrap_stores() -> None:
    """Bind what PyTorch's stores listen on."""
    store = getattr(import_module("torch._C._distributed_c10d"), "TCPStore", None)
    original: Any = getattr(store, "__init__", None)
    # Another release takes no socket; or it was wrapped before.
    is_known = "master_listen_fd" in (getattr(original, "__doc__", "") or "")
    if store is not None and is_known and not hasattr(original, "__wrapped__"):
        store.__init__ = group_sockets.opening(original)


def _interface(network: str) -> str:
    """Return the interface with an address in ``network``; empty if there is none."""
    try:
        wanted = ipaddress.ip_network(network)
    except ValueError:
        return ""
    for name, addresses in psutil.net_if_addrs().items():
        for one in addresses:
            if one.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            if ipaddress.ip_address(one.address.partition("%")[0]) in wanted:
                return name
    return ""


_SOCKET = "socket:["
_WAITS = ("/gloo/transport/", "[gloo")
_TIMEOUT = "imed out"
_NO_GROUP = "Default process group has not been initialized"


class ProcessGroups:
    """The connections of this process's groups, and the run that created them."""

    def __init__(self) -> None:
        self._sockets: dict[int, str] = {}
        self._ended: list[Any] = []
        self._run: RunContext | None = None
        self.closed_by = ""
        """The name of the run that failed or was stopped, which has closed them; or empty."""
        self._are_left = True
        self.followers: list[Callable[[], None]] = []
        """Called when the groups are left, by what keeps what it found in one."""

    @property
    def are_stale(self) -> bool:
        """Whether an earlier run's failure has closed them."""
        return bool(self.closed_by) and self._run is not current()

    def creating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return PyTorch's function that creates a group, whose connections become known."""

        @functools.wraps(original)
        def create(*args: Any, **kwargs: Any) -> Any:
            before = _sockets()
            try:
                return original(*args, **kwargs)
            finally:
                new = {fd: name for fd, name in _sockets().items() if before.get(fd) != name}
                # Those of a group that was left stay known: a replica may still use it.
                living = {fd: n for fd, n in self._sockets.items() if before.get(fd) == n}
                self._sockets = living | new

        return create

    def beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``init_process_group``, which also begins again in another run."""

        @functools.wraps(original)
        def begin(*args: Any, **kwargs: Any) -> Any:
            run, groups = current(), sys.modules["torch.distributed"]
            if run is not None and run is not self._run:
                if groups.is_initialized():
                    groups.destroy_process_group()
                self._run, self.closed_by = run, ""
            if run is not None and run.is_launched:
                args, kwargs = _at_own_address(run, args, kwargs)
            return original(*args, **kwargs)

        return begin

    def destroying(self, original: Callable[..., Any], known: Any) -> Callable[..., Any]:
        """Return ``destroy_process_group``, after which the groups that were are held on.

        Args:
            known: Has the groups that there are, in ``pg_map``.
        """

        @functools.wraps(original)
        def destroy(*args: Any, **kwargs: Any) -> Any:
            before = [*known.pg_map]
            original(*args, **kwargs)
            self._ended = before

        return destroy

    def begin_run(self, size: int, *, is_script: bool) -> None:
        """Leave an earlier run's groups, unless they are of use to this one's cell.

        Args:
            size: Number of ranks of the run.
            is_script: Whether a script begins, which expects a process of its own.
        """
        package = find_distributed()
        is_other = package is not None and package.get_world_size() != size
        are_broken = bool(self.closed_by) and not self._are_left
        if is_script or is_other or are_broken:
            self.leave()
        self._ended.clear()

    def leave(self) -> None:
        """Destroy the groups, and have what builds on them begin again."""
        if (package := find_distributed()) is not None:
            package.destroy_process_group()
        for forget in self.followers:
            forget()
        self._are_left = True

    def free(self, run: str) -> None:
        """Close the groups' connections, which frees all ranks that wait in one; in any thread.

        Args:
            run: The name of the run that failed or is stopped.
        """
        known, self._sockets = self._sockets, {}
        now = _sockets()
        for fd, name in known.items():
            if now.get(fd) == name:
                self.closed_by, self._are_left = run, False
                with contextlib.suppress(OSError), _borrow(fd) as connection:
                    connection.getpeername()  # gloo ends the process if its listener fails
                    connection.shutdown(socket.SHUT_RDWR)


def _at_own_address(
    run: RunContext, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Have a launcher's function meet where the ranks do: its own port is any, on its own host."""
    os.environ.update({name: run.world[name] for name in ("MASTER_ADDR", "MASTER_PORT")})
    if str(kwargs.get("init_method")).startswith("tcp://"):
        kwargs = {**kwargs, "init_method": "env://"}
    elif len(args) > 1 and str(args[1]).startswith("tcp://"):
        args = (args[0], "env://", *args[2:])
    return args, kwargs


groups = ProcessGroups()


def wrap_groups(module: Any) -> None:
    """Watch the creation of process groups in PyTorch's module of them."""
    create = getattr(module, "_new_process_group_helper", None)
    if create is None or hasattr(create, "__wrapped__"):
        return  # another release, whose groups are as without us; or it was wrapped before
    module._new_process_group_helper = groups.creating(create)
    wrapped = {"init_process_group": groups.beginning(module.init_process_group)}
    if hasattr(known := getattr(module, "_world", None), "pg_map"):
        wrapped["destroy_process_group"] = groups.destroying(module.destroy_process_group, known)
    vars(module).update(wrapped)
    package = sys.modules.get("torch.distributed")
    if hasattr(package, "init_process_group"):  # it has been imported, with these names in it
        vars(package).update(wrapped)


def gave_up(error: BaseException) -> bool:
    """Return whether gloo raised ``error`` because a connection closed: another rank failed."""
    said = error.args[0] if isinstance(error, RuntimeError) and error.args else ""
    is_gloo = isinstance(said, str) and any(one in said for one in _WAITS)
    return is_gloo and _TIMEOUT not in said


def lacks_group(error: BaseException) -> bool:
    """Return whether PyTorch raised ``error`` because there is no process group."""
    said = error.args[0] if isinstance(error, ValueError) and error.args else ""
    return isinstance(said, str) and said.startswith(_NO_GROUP)


def find_distributed() -> Any:
    """Return PyTorch's package of process groups if there is a default group, else None."""
    package: Any = sys.modules.get("torch.distributed")
    begun = getattr(package, "is_initialized", None)
    return package if begun is not None and begun() else None


@contextlib.contextmanager
def _borrow(fd: int) -> Iterator[socket.socket]:
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
