"""Write known-hosts lines and the ssh configuration of mpiexec's agent."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence

from workbench.core.world.world import Host
from workbench.errors import InputError

SSH_PORT = 22
# Two missed keep-alive replies: a node that vanished is noticed within 10 s.
ALIVE_SECONDS = 5
ALIVE_COUNT = 2


def known_hosts_name(address: str, port: int = 0) -> str:
    """Return the name under which known_hosts lists sshd at ``port`` of ``address``."""
    return address if port in (0, SSH_PORT) else f"[{address}]:{port}"


def known_hosts_line(address: str, key: str, port: int = 0) -> str:
    """Return the one line that trusts ``key`` for this address and port, and nothing else.

    Args:
        key: A public host key as OpenSSH writes it; a comment in it is left out.

    Raises:
        InputError: The key or the address is invalid.
    """
    return check_line(" ".join([known_hosts_name(address, port), *key.split()[:2]]))


def check_line(line: str) -> str:
    """Return ``line`` without its comment if it trusts one key for one host.

    Raises:
        InputError: It is not exact (a pattern, a hash, a marker), or no known_hosts line.
    """
    words = line.split()
    shown = line.strip()[:60]
    if "\n" in line.strip() or len(words) < 3 or words[0].startswith(("@", "#", "|")):
        raise InputError(
            f"{shown!r} is not an exact line of known_hosts", "write 'ADDRESS KIND KEY'."
        )
    name, kind, key = words[:3]
    if any(sign in name for sign in "*?!,"):
        raise InputError(f"{name!r} names more than one host", "write one line for each.")
    if _kind_of(key) != kind:
        raise InputError(
            f"{shown!r} has no key of the kind {kind}",
            f"take the line from `ssh-keyscan {name}`, and compare its fingerprint.",
        )
    return f"{name} {kind} {key}"


def address_of(line: str) -> str:
    """Return the name or address in an exact line, without its port."""
    name = check_line(line).split()[0]
    return name[1:].rpartition("]:")[0] if name.startswith("[") else name


def line_for(line: str, address: str) -> str:
    """Return a line that trusts the key of another one for another address of that host."""
    name, kind, key = check_line(line).split()
    port = int(name.rpartition("]:")[2]) if name.startswith("[") else 0
    return known_hosts_line(address, f"{kind} {key}", port)


def fingerprint(line: str) -> str:
    """Return the fingerprint of an exact line's key, as ``ssh-keygen -l`` writes it."""
    key = b64decode(check_line(line).split()[2])
    return "SHA256:" + b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def known_hosts(lines: Sequence[str]) -> str:
    """Return the text of a known_hosts file, each line checked, repeated ones once.

    Raises:
        InputError: A line is not exact.
    """
    return "".join(f"{line}\n" for line in dict.fromkeys(map(check_line, lines)))


def agent_config(hosts: Sequence[Host], known_hosts_path: str, key_path: str = "") -> str:
    """Return the configuration with which the head's own ssh reaches the other nodes.

    Args:
        known_hosts_path: The file on the head; no other host key is trusted.
        key_path: The cluster's private key on the head; empty if the head's own keys are accepted
            by the other nodes.
    """
    blocks = []
    for host in hosts:
        lines = [f"Host {host.address}"]
        lines += [f"    User {host.user}"] if host.user else []
        lines += [f"    Port {host.port}"] if host.port else []
        blocks += lines if len(lines) > 1 else []
    keys = (
        [f"    IdentityFile {_quote_path(key_path)}", "    IdentitiesOnly yes"] if key_path else []
    )
    return "\n".join(
        [
            *blocks,
            "Host *",
            f"    UserKnownHostsFile {_quote_path(known_hosts_path)}",
            "    GlobalKnownHostsFile /dev/null",
            "    StrictHostKeyChecking yes",
            "    UpdateHostKeys no",
            *keys,
            "    BatchMode yes",
            "    ForwardAgent no",
            "    ControlMaster no",
            "    ControlPath none",
            "    ConnectTimeout 10",
            f"    ServerAliveInterval {ALIVE_SECONDS}",
            f"    ServerAliveCountMax {ALIVE_COUNT}",
            "    LogLevel ERROR",
            "",
        ]
    )


def _kind_of(key: str) -> str:
    """Return the kind in the key's own bytes, or empty."""
    try:
        blob = b64decode(key, validate=True)
    except (NotBase64, ValueError):
        return ""
    return blob[4 : 4 + int.from_bytes(blob[:4], "big")].decode("ascii", "replace")


def _quote_path(path: str) -> str:
    """Return a path in the syntax of ssh's configuration."""
    if '"' in path or "\n" in path:
        raise InputError(
            f"ssh's configuration cannot name the path {path!r}", "choose another one."
        )
    return f'"{path}"'
