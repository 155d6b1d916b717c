"""Parse the options about nodes: requirements, provider max price and budget."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from workbench.core.fleet.model import Provider
from workbench.core.fleet.request import FleetRequest, Spelling
from workbench.core.world.hostfile import parse_hosts
from workbench.core.world.world import Host
from workbench.errors import InputError
from workbench.requests.data_folders import checked_data, checked_output

_OPTIONS = {"types": "type", "zones": "zone", "subnets": "subnet", "hosts": "host"}
SPELLING = Spelling(
    lambda name: f"--{_OPTIONS.get(name, name).replace('_', '-')}",
    "--hosts FILE, --host ADDRESS, --ec2 or --rehearsal",
)
MOST_SCRIPT_NBYTES = 64 << 10


def amount(text: str) -> float:
    """Return a number of dollars, GiB or Gbit/s, from a text like ``2.5`` or ``$2.5``.

    Raises:
        InputError: It is not one.
    """
    plain = re.sub(r"(/h|GiB|Gbit/s)$", "", text.strip().removeprefix("$")).strip()
    try:
        value = float(plain)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"{text!r} is not an amount", "write a number of at least 0, such as 2.5.")
    return value


def read_request(given: dict[str, Any]) -> FleetRequest:
    """Return the requested nodes, from the options.

    Raises:
        InputError: A file cannot be read, or more than one provider is named.
    """
    hosts = read_hosts(given.get("host_file"), given.get("host_lines", ()))
    values = {
        name: given[name]
        for name in FleetRequest.__dataclass_fields__
        if given.get(name) not in (None, ()) and given[name] is not False  # a flag left out
    }
    if values.get("prepare"):
        values["prepare"] = read_text(values["prepare"], "The script")
    if values.get("data"):
        values["data"] = checked_data(values["data"])
    if values.get("output"):
        values["output"] = checked_output(values["output"])
    return FleetRequest(**values | {"provider": _provider(given, hosts), "hosts": hosts})


def read_hosts(path: str | None, lines: tuple[str, ...]) -> tuple[Host, ...]:
    """Return the hosts of a host file and of single lines.

    Raises:
        InputError: The file cannot be read, or a line is not valid.
    """
    if path is None:
        return parse_hosts("\n".join(lines))
    if lines:
        raise InputError("--hosts and --host were both given", "write all hosts into the file.")
    text = read_text(path, "The host file")
    try:
        hosts = parse_hosts(text)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if not hosts:
        raise InputError(
            f"{path} names no host", "write one per line, such as 172.31.41.13 slots=1."
        )
    return hosts


def read_text(path: str, what: str) -> str:
    """Return a small file's text.

    Raises:
        InputError: It cannot be read.
    """
    file = Path(path).expanduser()
    try:
        if file.stat().st_size > MOST_SCRIPT_NBYTES:
            raise InputError(f"{what} {path} is longer than 64 KiB", "let it download the rest.")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"{what} {path} cannot be read ({reason}).") from error


def _provider(given: dict[str, Any], hosts: tuple[Host, ...]) -> Provider | None:
    named = {
        Provider.HOSTS: bool(hosts),
        Provider.EC2: bool(given.get("ec2")),
        Provider.REHEARSAL: bool(given.get("rehearsal")),
        Provider.THIS_MACHINE: bool(given.get("here")),
    }
    providers = [provider for provider, is_named in named.items() if is_named]
    if len(providers) > 1:
        raise InputError(
            "A cluster has one provider",
            "keep one of --hosts (or --host), --ec2, --rehearsal and --here.",
        )
    return providers[0] if providers else None
