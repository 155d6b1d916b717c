"""Answer one query about a provider: JSON on standard input, JSON on standard output.

Modules that only show or ask do not import the providers; they run this program with the name of
a query: ``python -m workbench.cloud offers``.
"""

from __future__ import annotations

import configparser
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Needs, Provider, Purchase
from workbench.core.fleet.request import check_region
from workbench.core.world.known_hosts import known_hosts_line
from workbench.core.world.world import Host
from workbench.errors import CloudError, InputError, WorkbenchError

if TYPE_CHECKING:
    from workbench.cloud.interface import Cloud

Question = Mapping[str, Any]
# Every account has it; it is only used to list the others.
ANY_REGION = "us-east-1"


def offers(asked: Question) -> object:
    """Return the region, and all offers there that meet the needs."""
    needs = asked["needs"]
    lists = {name: tuple(needs[name]) for name in ("types", "zones", "subnets")}
    region, cloud = _place(asked)
    found = cloud.offers(Needs(**{**needs, **lists}), asked["history_seconds"])
    return {"region": region, "offers": found}


def permissions(asked: Question) -> object:
    """Return the result of a dry run of every call."""
    purchase = asked["purchase"]
    _, cloud = _place(asked)
    return cloud.permissions(Purchase(**{**purchase, "types": tuple(purchase["types"])}))


def ssh_source(asked: Question) -> object:
    """Return the network from which nodes would accept ssh."""
    from workbench.cloud.ec2.provider import Ec2

    return Ec2(home_region(asked["region"]), subnets=asked["subnets"]).ssh_source(asked["wished"])


def contact(asked: Question) -> object:
    """Return the probe of each host."""
    from workbench.cloud.hosts.probe import contact_all

    return contact_all(_hosts(asked), asked["trusted"])


def doctor(asked: Question) -> object:
    """Return the problems that keep hosts from forming one cluster."""
    from workbench.cloud.hosts.probe import examine

    return examine(_hosts(asked), asked["trusted"])


def leftovers(asked: Question) -> object:
    """Return the resources that have the tags of a cluster."""
    return _place(asked)[1].leftovers(asked["cluster"])


def sweep(asked: Question) -> object:
    """Return the resources with our tags in all regions, and the regions that were not searched."""
    if asked["place"] == Provider.REHEARSAL:
        return {"left": _place(asked)[1].leftovers(), "refused": (), "denied": ()}
    from workbench.cloud.ec2 import provider

    only = [asked["region"]] if asked["region"] else []
    try:
        region = home_region(asked["region"])
    except InputError:
        region = ANY_REGION
    found = provider.sweep(region, only=only)
    return found


def clean(asked: Question) -> object:
    """Delete what can be deleted of a cluster now, and return what is left."""
    if asked["place"] == Provider.REHEARSAL:
        return _place(asked)[1].clean(asked["cluster"])
    from workbench.cloud.ec2.provider import Ec2

    ec2 = Ec2(asked["region"], owner=asked["owner"])
    return ec2.clean(asked["cluster"], images=asked["images"])


def policy(asked: Question) -> object:
    """Return the policy of one principal, as text, and the commands that create its role."""
    from workbench.cloud.ec2.policy import Principal, policy_text, role_commands

    principal = Principal(asked["principal"])
    commands = role_commands() if principal is Principal.NODE else ()
    return {"text": policy_text(principal, asked["store"]), "commands": commands}


def bake(asked: Question) -> object:
    """Begin to make an image of a node, and return its id."""
    from workbench.cloud.ec2.provider import Ec2
    from workbench.cloud.ec2.userdata import node_user
    from workbench.cloud.hosts.ssh import open_session

    node, cluster = asked["node"], asked["cluster"]
    ec2 = Ec2(asked["region"], owner=asked["owner"], ssh_sources=asked["ssh_sources"])
    reach = ec2.address(node, cluster)
    line = known_hosts_line(reach, asked["host_key"])
    with closing(open_session(Host(reach, 1, node_user()), [line], asked["key"])) as session:
        return ec2.bake(session, node, asked["name"], cluster)


def baked(asked: Question) -> object:
    """Return the progress of an image."""
    from workbench.cloud.ec2.provider import Ec2

    return Ec2(home_region(asked["region"])).image(asked["image"])


def discard(asked: Question) -> object:
    """Delete an image with its snapshots, and return their ids."""
    from workbench.cloud.ec2.provider import Ec2

    return Ec2(home_region(asked["region"])).discard(asked["image"])


def interrupt(asked: Question) -> object:
    """Interrupt a simulated node, and return its id."""
    from workbench.cloud.rehearsal.provider import RehearsalCloud

    RehearsalCloud(Path(asked["folder"])).interrupt(asked["node"], asked["notice"])
    return asked["node"]


ANSWERS: dict[str, Callable[[Question], object]] = {
    answer.__name__: answer
    for answer in (
        offers,
        permissions,
        ssh_source,
        contact,
        doctor,
        leftovers,
        sweep,
        clean,
        policy,
        bake,
        baked,
        discard,
        interrupt,
    )
}


def home_region(named: str = "", environment: Mapping[str, str] = os.environ) -> str:
    """Return the region that was named, or that AWS's own configuration names.

    Raises:
        InputError: No region is configured, or its partition is not supported.
    """
    region = named or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    region = region or _configured_region(environment)
    if not region:
        raise InputError(
            "No region is configured",
            "name one (in a shell: --region us-east-1), or set a default with "
            "aws configure set region us-east-1.",
        )
    return check_region(region)


def main(arguments: Sequence[str]) -> int:
    """Answer one query; an error is part of the answer."""
    if len(arguments) != 1 or arguments[0] not in ANSWERS:
        known = ", ".join(ANSWERS)
        print(f"python -m workbench.cloud answers {known}, not {arguments}.", file=sys.stderr)
        return 2
    answer: dict[str, object]
    try:
        answer = {"answer": _plain(ANSWERS[arguments[0]](json.load(sys.stdin)))}
    except CloudError as error:
        answer = _error(error, "CloudError") | {"kind": error.kind, "code": error.code}
    except InputError as error:
        answer = _error(error, "InputError")
    except WorkbenchError as error:
        answer = _error(error, "MachineError")
    json.dump(answer, sys.stdout)
    return 0


def _error(error: WorkbenchError, kind: str) -> dict[str, object]:
    return {"error": kind, "what": error.what, "remedy": error.remedy}


def _place(asked: Question) -> tuple[str, Cloud]:
    """Return the region and its provider; imports that provider alone."""
    if asked["place"] == Provider.REHEARSAL:
        from workbench.cloud.rehearsal.provider import RehearsalCloud

        return "", RehearsalCloud(Path(asked["folder"]))
    if asked["place"] != Provider.EC2:
        raise CloudError(
            f"No nodes are provided by {asked['place']!r}",
            ErrorKind.CONFIGURATION,
            remedy=f"choose {Provider.EC2} or {Provider.REHEARSAL}.",
        )
    from workbench.cloud.ec2.provider import Ec2

    region = home_region(asked["region"])
    types = Path(asked["types"]) if asked.get("types") else None
    nodes = asked.get("nodes", {})
    return region, Ec2(region, owner=asked["owner"], types=types, **nodes)


def _hosts(asked: Question) -> list[Host]:
    return [Host(**host) for host in asked["hosts"]]


def _configured_region(environment: Mapping[str, str]) -> str:
    path = Path(environment.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    profile = environment.get("AWS_PROFILE") or "default"
    section = profile if profile == "default" else f"profile {profile}"
    settings = configparser.RawConfigParser()
    try:
        settings.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return ""
    return settings.get(section, "region", fallback="")


def _plain(value: object) -> object:
    """Return the value as JSON types."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
