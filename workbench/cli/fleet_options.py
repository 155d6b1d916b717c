"""The words that say which nodes a cluster is to have, where from, and for how much."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from workbench.cli.options import SECONDS, Checked, Command
from workbench.core.fleet import Place
from workbench.core.fleetrequest import FleetRequest, Spelling
from workbench.core.hosts import parse_hosts
from workbench.core.world import Host
from workbench.errors import InputError
from workbench.store.folders import checked_data, checked_output

_OPTIONS = {"types": "type", "zones": "zone", "hosts": "host"}
SPELLING = Spelling(
    lambda name: f"--{_OPTIONS.get(name, name).replace('_', '-')}",
    "--hosts FILE, --host ADDRESS, --ec2 or --rehearse",
)
MOST_SCRIPT_NBYTES = 64 << 10


def amount(text: str) -> float:
    """Return a number of dollars, GiB or Gbit/s, from a text like ``2.5`` or ``$2.5``.

    Raises:
        InputError: It is none.
    """
    plain = re.sub(r"(/h|GiB|Gbit/s)$", "", text.strip().removeprefix("$")).strip()
    try:
        value = float(plain)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"{text!r} is not an amount; write a number from 0 up, such as 2.5.")
    return value


AMOUNT = Checked("amount", amount)

place_options = [
    click.option("--ec2", is_flag=True, help="Nodes from EC2's spot market."),
    click.option("--rehearse", is_flag=True, help="Pretended nodes: all as on EC2, no account."),
    click.option("--region", metavar="NAME", help="Where to buy; AWS's own setting, if not."),
]
size_options = [
    click.option("--nodes", type=int, metavar="N", help="How many; 0 keeps all but the nodes."),
    click.option("--least", type=int, metavar="N", help="Go on with as few; 1, if not."),
    click.option("--most", type=int, metavar="N", help="Grow to as many while runs wait."),
    click.option("--slots", type=int, metavar="N", help="Ranks a node; one a GPU or core, if not."),
]
need_options = [
    click.option("--gpus", type=int, metavar="N", help="GPUs a node, at least."),
    click.option("--gpu-memory", type=AMOUNT, metavar="GIB", help="Memory of each GPU, at least."),
    click.option("--memory", type=AMOUNT, metavar="GIB", help="Memory a node, at least."),
    click.option("--vcpus", type=int, metavar="N", help="vCPUs a node, at least."),
    click.option("--network", type=AMOUNT, metavar="GBITS", help="Sustained Gbit/s, at least."),
    click.option("--type", "types", multiple=True, metavar="T", help="Only this type; repeatable."),
    click.option("--zone", "zones", multiple=True, metavar="Z", help="Only this zone; repeatable."),
]
money_options = [
    click.option("--max-price", type=AMOUNT, metavar="$/H", help="All nodes together, at most."),
    click.option("--budget", type=AMOUNT, metavar="$", help="In all, at most; then all ends."),
    click.option(
        "--ttl", type=SECONDS, help="Delete everything after; 8h, if not, where it costs; 0 never."
    ),
]
host_options = [
    click.option("--hosts", "host_file", metavar="FILE", help="Your hosts, as mpiexec's file."),
    click.option(
        "--host", "host_lines", multiple=True, metavar="'ADDRESS slots=N'", help="One; repeatable."
    ),
    click.option("--here", is_flag=True, help="This machine alone, whatever it had before."),
]
node_options = [
    click.option("--data", metavar="PLACE", help="A folder or s3://bucket/prefix for every node."),
    click.option("--output", metavar="PLACE", help="A folder or s3://… for what runs leave."),
    click.option("--prepare", metavar="FILE", help="A script that each node runs first."),
    click.option("--image", metavar="AMI", help="What nodes boot; looked up, if not."),
    click.option(
        "--ssh-from", metavar="ADDRESS", help="Let ssh in from there; needed outside of EC2."
    ),
    click.option(
        "--link", type=AMOUNT, metavar="GBITS", help="A rehearsal's links; this machine's, if not."
    ),
]


def with_options(*groups: list[Any]) -> Callable[[Command], Command]:
    """Return what adds options to a command, in this order."""

    def add(command: Command) -> Command:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return add


def read_request(given: dict[str, Any]) -> FleetRequest:
    """Return what the options say about nodes.

    Raises:
        InputError: A file cannot be read, or more than one place is named.
    """
    hosts = read_hosts(given.get("host_file"), given.get("host_lines", ()))
    values = {
        name: given[name]
        for name in FleetRequest.__dataclass_fields__
        if given.get(name) not in (None, ())
    }
    if values.get("prepare"):
        values["prepare"] = read_text(values["prepare"], "The script")
    if values.get("data"):
        values["data"] = checked_data(values["data"])
    if values.get("output"):
        values["output"] = checked_output(values["output"])
    return FleetRequest(**values | {"where": _place(given, hosts), "hosts": hosts})


def read_hosts(path: str | None, lines: tuple[str, ...]) -> tuple[Host, ...]:
    """Return the hosts of a file and of single lines.

    Raises:
        InputError: The file cannot be read, or a line will not do.
    """
    if path is None:
        return parse_hosts("\n".join(lines))
    if lines:
        raise InputError("--hosts and --host both name hosts; write them all into the file.")
    text = read_text(path, "The host file")
    try:
        hosts = parse_hosts(text)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if not hosts:
        raise InputError(f"{path} names no host; write one a line, as in 172.31.41.13 slots=1.")
    return hosts


def read_text(path: str, what: str) -> str:
    """Return a small file's text.

    Raises:
        InputError: It cannot be read.
    """
    file = Path(path).expanduser()
    try:
        if file.stat().st_size > MOST_SCRIPT_NBYTES:
            raise InputError(f"{what} {path} is longer than 64 KiB; have it fetch the rest.")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"{what} {path} cannot be read ({reason}).") from error


def _place(given: dict[str, Any], hosts: tuple[Host, ...]) -> Place | None:
    named = {
        Place.HOSTS: bool(hosts),
        Place.EC2: bool(given.get("ec2")),
        Place.FAKE: bool(given.get("rehearse")),
        Place.LOCAL: bool(given.get("here")),
    }
    places = [place for place, is_named in named.items() if is_named]
    if len(places) > 1:
        raise InputError(
            "A cluster's nodes come from one place; keep one of --hosts (or --host), --ec2, "
            "--rehearse and --here."
        )
    return places[0] if places else None
