"""Read and write host files in the forms that mpiexec reads."""

from __future__ import annotations

import ipaddress
import re

from workbench.core.world.world import MAX_RANKS, Host
from workbench.errors import InputError

# Open MPI uses slots, the older LAM used cpu; max_slots is a limit on oversubscription.
_SLOTS = {"slots", "cpu", "cpus", "max_slots", "max-slots"}
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?")
_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_ZONE = re.compile(r"[A-Za-z0-9_.-]{1,15}")  # the name of an interface, as Linux allows it
_EXAMPLE = "write for example 172.31.41.13 slots=1, or user@host:2222 slots=4"


def parse_hosts(text: str) -> tuple[Host, ...]:
    """Return the hosts of ``text``, one per line; what a line does not give is 0.

    The forms are ``address slots=1``, ``address cpu=1``, ``user@address:port slots=4``, and MPICH's
    ``address:4``, where the number is slots; with ``slots=`` or a user it is a port. A ``#`` begins
    a comment. An IPv6 address with a number is in brackets.

    Raises:
        InputError: A line has none of these forms, or a host is named twice.
    """
    hosts: dict[str, tuple[int, Host]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        host = _host(words, number)
        if host.address in hosts:
            raise InputError(
                f"Line {number}: {host.address} is already in line {hosts[host.address][0]}",
                "name it once, with all its slots.",
            )
        hosts[host.address] = number, host
    return tuple(host for _, host in hosts.values())


def hosts_text(hosts: tuple[Host, ...]) -> str:
    """Return the text from which ``parse_hosts`` reads ``hosts``."""
    return "".join(f"{_line(host)}\n" for host in hosts)


def _host(words: list[str], line: int) -> Host:
    place, *settings = words
    found = _settings(settings, line)
    user, at, rest = place.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise InputError(f"Line {line}: {user!r} is not a user name", f"{_EXAMPLE}.")
    address, port = _address(rest, line)
    if port is not None and found is None and not at:
        return Host(address, _number(port, "slots", MAX_RANKS, line))
    reached = 0 if port is None else _number(port, "port", 65535, line)
    return Host(address, found or 0, user, reached)


def _settings(words: list[str], line: int) -> int | None:
    """Return the given slots; ``max_slots`` alone gives them too."""
    found: dict[str, int] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _SLOTS or not equals:
            raise InputError(f"Line {line}: {word!r} is not a known setting", f"{_EXAMPLE}.")
        found[name] = _number(value, name, MAX_RANKS, line)
    bounds = [found.pop(name) for name in ("max_slots", "max-slots") if name in found]
    if len(set(found.values())) > 1:
        raise InputError(
            f"Line {line}: {' '.join(words)} contradict each other", "keep one of them."
        )
    return next(iter(found.values()), bounds[0] if bounds else None)


def _address(text: str, line: int) -> tuple[str, str | None]:
    bracketed = re.fullmatch(r"\[(.*)\](?::(.*))?", text)
    if bracketed:
        address, port = bracketed[1], bracketed[2]
    elif text.count(":") > 1:
        address, port = text, None
    else:
        address, colon, after = text.partition(":")
        port = after if colon else None
    if ":" in address:
        number, percent, zone = address.partition("%")
        if not _is_ipv6(number) or (percent and not _ZONE.fullmatch(zone)):
            raise InputError(f"Line {line}: {address!r} is not an IPv6 address", f"{_EXAMPLE}.")
    elif not _NAME.fullmatch(address) or not _is_whole(address):
        raise InputError(f"Line {line}: {address!r} is not a host address", f"{_EXAMPLE}.")
    return address, port


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_whole(address: str) -> bool:
    """Return whether an address is complete, unlike 172.31.41 or 10.0.0.300."""
    if not re.fullmatch(r"[0-9.]+", address):
        return True
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        return False
    return True


def _number(text: str, name: str, most: int, line: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= most:
        raise InputError(
            f"Line {line}: {name} must be a whole number from 1 to {most}, not {text!r}",
            f"{_EXAMPLE}.",
        )
    return int(text)


def _line(host: Host) -> str:
    address = f"[{host.address}]" if ":" in host.address and host.port else host.address
    place = f"{host.user}@{address}" if host.user else address
    if host.port:
        # Without slots on the line, MPICH would read the port as slots.
        place = f"{place}:{host.port}"
    return f"{place} slots={host.slots}" if host.slots else place
