"""Have PyTorch's groups listen on their world's addresses alone, not on all of the machine.

Neither its store nor gloo asks who connects. Settings of the user's own are left as they are, and
so is a store that is to listen at a name which other hosts may take for another address.
"""

from __future__ import annotations

import functools
import ipaddress
import os
import socket
from collections.abc import Callable, MutableMapping
from importlib import import_module
from typing import Any

import psutil

from workbench.core.fleet.connection_limits import NETWORK_VARIABLE

# NCCL takes a name for the first letters of one, unless a "=" is before it.
_SETTINGS = {"GLOO_SOCKET_IFNAME": "", "NCCL_SOCKET_IFNAME": "="}
_LOOPBACK = "127.0.0.0/8"
_PARAMETERS = (
    "host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers", "multi_tenant",
    "master_listen_fd", "use_libuv",
)  # fmt: skip


class GroupSockets:
    """Where groups of this process may listen.

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
        """Return the constructor of PyTorch's store, with a socket that is bound to its address."""

        @functools.wraps(original)
        def open_store(store: Any, *args: Any, **kwargs: Any) -> None:
            given = dict(zip(_PARAMETERS, args, strict=False)) | kwargs
            if given.get("is_master") and given.get("master_listen_fd") is None:
                bound = self._bind(given.get("host_name"), given.get("port"))
                if bound is not None:
                    # The store owns it from here on, also if the ranks do not come.
                    given["master_listen_fd"] = bound.detach()
                    return original(store, **given)
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
