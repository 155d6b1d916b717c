"""Close the listening sockets of MPI's daemons, once all ranks of their world are connected.

Both prterun and hydra listen for as long as they run, on all addresses or on loopback, and believe
who connects. A socket filter drops every packet before any of their code sees it; connections that
exist have sockets of their own, and stay. Some kernels forbid filters to all but root: there a key
that no process keeps does the same, because TCP drops what is not signed with it (RFC 2385).
"""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import struct

import psutil

from workbench.core.node.forking import STUB_VARIABLE
from workbench.core.world.world import DAEMONS

log = logging.getLogger("workbench.supervisor")

_PIDFD_GETFD = 438  # <asm-generic/unistd.h>, the same on every machine
_SO_ATTACH_FILTER = 26
_TCP_MD5SIG_EXT = 32
_EVERY_ADDRESS = 1  # the flag by which a length of the prefix counts, here 0
_IN_IPV6 = bytes(10) + b"\xff\xff" + bytes(4)  # an IPv4 address, as sockets of IPv6 see it
_DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # BPF_RET: nothing of the packet is kept


def close_below(mpiexec: int) -> None:
    """Close the listening sockets of a mpiexec on this machine, and of its daemons.

    A container may forbid it; then they stay open, and the log has a warning.
    """
    try:
        top = psutil.Process(mpiexec)
        for one in [top, *(p for p in top.children(recursive=True) if p.name() in DAEMONS)]:
            close_sockets(one)
    except (OSError, psutil.Error) as error:
        log.warning("%s", still_open(error))


def close_above() -> str:
    """Close the listening sockets of the daemons above this rank; return why that failed, or ""."""
    stub = os.environ.get(STUB_VARIABLE, "").partition(" ")[0]  # mpiexec's, of a forked rank
    try:
        for one in psutil.Process(int(stub) if stub else None).parents():
            if one.name() in DAEMONS:
                close_sockets(one)
    except (OSError, psutil.Error) as error:
        return still_open(error)
    return ""


def still_open(error: Exception) -> str:
    """Return the warning for daemons whose sockets stay open."""
    return (
        "Other users of this machine, and others in its network unless a firewall is between, "
        f"can connect to MPI's daemons: their sockets could not be closed ({error})."
    )


def close_sockets(process: psutil.Process) -> None:
    """Make all sockets on which a process listens refuse what is not connected yet.

    Raises:
        OSError: It is not allowed.
    """
    for connection in process.net_connections("inet"):
        if connection.status == psutil.CONN_LISTEN:
            _drop_all(process.pid, connection.fd)


def require_signatures(listening: socket.socket) -> None:
    """Make a listening socket drop what is not signed with a key that is forgotten at once.

    Raises:
        OSError: The kernel signs nothing.
    """
    key = os.urandom(16)
    is_ipv6 = listening.family is socket.AF_INET6
    addresses = [bytes(16), _IN_IPV6] if is_ipv6 else [bytes(4)]
    for address in addresses:
        # struct sockaddr_storage, then the rest of struct tcp_md5sig, of <linux/tcp.h>
        where = struct.pack("=HHI" if is_ipv6 else "=HH", listening.family, 0, *[0] * is_ipv6)
        of_all = struct.pack("=BBHi", _EVERY_ADDRESS, 0, len(key), 0)
        option = (where + address).ljust(128, b"\0") + of_all + key.ljust(80, b"\0")
        listening.setsockopt(socket.IPPROTO_TCP, _TCP_MD5SIG_EXT, option)


def _drop_all(pid: int, descriptor: int) -> None:
    kept = ctypes.create_string_buffer(_DROP_ALL)
    program = struct.pack("HL", 1, ctypes.addressof(kept))
    with socket.socket(fileno=_copy(pid, descriptor)) as copy:
        try:
            copy.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        except PermissionError:
            require_signatures(copy)


def _copy(pid: int, descriptor: int) -> int:
    """Return a duplicate, in this process, of another process's descriptor."""
    process = os.pidfd_open(pid)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        copy = int(libc.syscall(_PIDFD_GETFD, process, descriptor, 0))
    finally:
        os.close(process)
    if copy < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return copy
