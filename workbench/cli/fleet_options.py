"""Parse the options about nodes: requirements, provider max price and budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from workbench.core.fleet.provider import choose_provider, provider_choices
from workbench.core.fleet.request import FleetRequest, Spelling
from workbench.core.option import is_given
from workbench.core.options.table import collect_settings, options_of
from workbench.core.world.hostfile import parse_hosts
from workbench.core.world.world import Host
from workbench.errors import InputError
from workbench.requests.cluster import check_data, check_output

_TYPED = {one.name: one.spellings[-1] for one in options_of("up")}
SPELLING = Spelling(
    lambda name: _TYPED.get(name, f"--{name.replace('_', '-')}"),
    lambda: provider_choices(lambda place: place.has_nodes),
)
MOST_SCRIPT_NBYTES = 64 << 10


def read_request(given: Mapping[str, Any]) -> FleetRequest:
    """Return the requested nodes, from the options of a line or the fields of a job file.

    Raises:
        InputError: A file cannot be read, or more than one provider is named.
    """
    hosts = read_hosts(given.get("host_file"), given.get("hosts", ()))
    names = {one.name for one in fields(FleetRequest)} - {"settings"}
    values = {name: given[name] for name in names if is_given(given.get(name))}
    if values.get("prepare"):
        values["prepare"] = read_text(values["prepare"], "The script")
    if values.get("data"):
        values["data"] = check_data(values["data"])
    if values.get("output"):
        values["output"] = check_output(values["output"])
    provider = choose_provider({**given, "hosts": hosts})
    values["settings"] = collect_settings(given)
    return FleetRequest(**values | {"provider": provider, "hosts": hosts})


def read_hosts(path: str | None, lines: tuple[str, ...]) -> tuple[Host, ...]:
    """Return the hosts of a host file, of its names in place of a file, and of single lines.

    Raises:
        InputError: The file cannot be read, or a line is not valid.
    """
    if path is None:
        return parse_hosts("\n".join(lines))
    if lines:
        raise InputError("--hosts and --host were both given", "write all hosts into the file.")
    if "," in path and not Path(path).exists():
        return parse_hosts(path.replace(",", "\n"))
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
