"""Restrict the mpiexec of a world on this machine to the loopback interface.

Both prterun and hydra listen on all addresses, and have no option to restrict that. A socket filter
drops packets from elsewhere, before any of their code sees them.
"""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import struct

import psutil

log = logging.getLogger("workbench.supervisor")

_PIDFD_GETFD = 438  # <asm-generic/unistd.h>, the same on every machine
_SO_ATTACH_FILTER = 26
_ALL = ("0.0.0.0", "::")
_NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF of <linux/filter.h>
_PROGRAM = (
    (0x30, 0, 0, _NETWORK_HEADER),  # the first byte of the packet
    (0x54, 0, 0, 0xF0),
    (0x15, 0, 3, 0x40),  # is IPv4, or else dropped
    (0x20, 0, 0, _NETWORK_HEADER + 12),  # its source
    (0x54, 0, 0, 0xFF000000),
    (0x15, 1, 0, 127 << 24),  # is in 127.0.0.0/8
    (0x06, 0, 0, 0),
    (0x06, 0, 0, 0xFFFFFFFF),
)


def hear_loopback_alone(pid: int) -> int:
    """Restrict a process's listening sockets to loopback; return how many were restricted.

    A container may forbid it; then they stay open, and the log has a warning.
    """
    try:
        found = psutil.Process(pid).net_connections("inet")
        open_ = [c.fd for c in found if c.status == psutil.CONN_LISTEN and c.laddr.ip in _ALL]
        for descriptor in open_:
            _filter(pid, descriptor)
    except (OSError, psutil.Error) as error:
        log.warning("mpiexec stays reachable from other machines, except for a firewall: %s", error)
        return 0
    return len(open_)


def _filter(pid: int, descriptor: int) -> None:
    code = b"".join(struct.pack("HBBI", *step) for step in _PROGRAM)
    kept = ctypes.create_string_buffer(code)
    program = struct.pack("HL", len(_PROGRAM), ctypes.addressof(kept))
    with socket.socket(fileno=_copy(pid, descriptor)) as copy:
        copy.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


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
