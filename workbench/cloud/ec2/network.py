"""Find the VPC and subnets for nodes, and check that this computer can reach nodes there."""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from workbench.cloud.ec2.api import Ec2Api, build_error
from workbench.cloud.ec2.description import AUTO, is_public
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.errors import CloudError, InputError

METADATA = "http://169.254.169.254"
ANSWER_SECONDS = 1.0

EVERYWHERE = "0.0.0.0/0"
GATEWAY = "igw-"


@dataclass(frozen=True)
class Subnet:
    """A subnet for the nodes of one zone.

    Args:
        public: Whether machines in it get a public IPv4 address by default.
    """

    id: str
    public: bool


@dataclass(frozen=True)
class Network:
    """A VPC with a subnet per zone, for nodes.

    Args:
        places: Zone to the subnet in it.
    """

    vpc: str
    places: Mapping[str, Subnet]

    @property
    def subnets(self) -> dict[str, str]:
        """Zone to the subnet's id."""
        return {zone: subnet.id for zone, subnet in self.places.items()}

    def within(self, zone: str) -> Mapping[str, Subnet]:
        """Return the subnets of one zone, or all of them if ``zone`` is empty."""
        return {zone: self.places[zone]} if zone in self.places else self.places


def find_network(calls: Ec2Api, wished: Sequence[str] = ()) -> Network:
    """Return the region's default network, or that of the given subnets.

    Args:
        wished: Ids of subnets: of one VPC, at most one per zone.

    Raises:
        InputError: The subnets are of several VPCs, or two are in one zone.
        CloudError: There is no such network, or EC2 does not answer.
    """
    return _find_named(calls, wished) if wished else _default(calls)


def check_reach(calls: Ec2Api, network: Network, zone: str = "") -> None:
    """Check that a public address in these subnets can be reached from the internet.

    A public address alone is not enough: the subnet's route has to lead to an internet gateway
    (VPC guide, "Enable internet access for a VPC using internet gateways").

    Raises:
        CloudError: It cannot, or EC2 does not answer. Without the right to read routes, nothing
            is checked.
    """
    try:
        tables = list(
            calls.rows("ec2", "describe_route_tables", "RouteTables", Filters=_of(network.vpc))
        )
    except CloudError as error:
        if error.kind != ErrorKind.PERMISSION:
            raise
        return
    for place, subnet in sorted(network.within(zone).items()):
        if not _leads_out(tables, subnet.id):
            raise CloudError(
                f"The subnet {subnet.id} of {place} has no route to an internet gateway, so nodes "
                "in it cannot be reached from here",
                ErrorKind.CONFIGURATION,
                remedy="name a public subnet (--subnet subnet-…), or the private network by which "
                "this computer reaches them (--ssh-from 10.8.0.0/16).",
            )


def _default(calls: Ec2Api) -> Network:
    default = [{"Name": "is-default", "Values": ["true"]}]
    vpcs = list(calls.rows("ec2", "describe_vpcs", "Vpcs", Filters=default))
    if not vpcs:
        raise build_error("VPCIdNotSpecified", f"{calls.region} has no default VPC")
    vpc = str(vpcs[0]["VpcId"])
    filters = [*_of(vpc), {"Name": "default-for-az", "Values": ["true"]}]
    rows = list(calls.rows("ec2", "describe_subnets", "Subnets", Filters=filters))
    if not rows:
        raise build_error("InvalidSubnetID.NotFound", f"{vpc} has no default subnet in any zone")
    return Network(vpc, {row["AvailabilityZone"]: _parse_subnet(row) for row in rows})


def _find_named(calls: Ec2Api, wished: Sequence[str]) -> Network:
    rows = list(calls.rows("ec2", "describe_subnets", "Subnets", SubnetIds=list(wished)))
    if len(vpcs := sorted({str(row["VpcId"]) for row in rows})) != 1:
        raise InputError(
            f"The subnets {', '.join(wished)} are of {', '.join(vpcs) or 'no VPC'}",
            "name subnets of one.",
        )
    places: dict[str, Subnet] = {}
    for row in rows:
        subnet, zone = _parse_subnet(row), str(row["AvailabilityZone"])
        if (other := places.setdefault(zone, subnet)) != subnet:
            raise InputError(
                f"The subnets {other.id} and {subnet.id} are both in {zone}", "name one of a zone."
            )
    return Network(vpcs[0], places)


def _parse_subnet(row: Mapping[str, Any]) -> Subnet:
    return Subnet(str(row["SubnetId"]), bool(row.get("MapPublicIpOnLaunch")))


def _of(vpc: str) -> list[dict[str, object]]:
    return [{"Name": "vpc-id", "Values": [vpc]}]


def _leads_out(tables: Sequence[Mapping[str, Any]], subnet: str) -> bool:
    """Return whether the subnet's own route table, or else the main one, has an internet route."""
    own = [table for table in tables if _has(table, "SubnetId", subnet)]
    main = [table for table in tables if _has(table, "Main", True)]
    return any(
        route.get("DestinationCidrBlock") == EVERYWHERE
        and str(route.get("GatewayId", "")).startswith(GATEWAY)
        and route.get("State") != "blackhole"
        for table in (own or main)
        for route in table.get("Routes", ())
    )


def _has(table: Mapping[str, Any], field: str, value: object) -> bool:
    return any(one.get(field) == value for one in table.get("Associations", ()))


@dataclass(frozen=True)
class OwnLocation:
    """This computer's VPC and private address; empty if it is not an EC2 instance."""

    vpc: str = ""
    address: str = ""


def own_location(environment: Mapping[str, str] = os.environ) -> OwnLocation:
    """Return this computer's location, unless AWS's own setting disables the metadata service."""
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return OwnLocation()
    base = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or METADATA
    try:
        return _query_metadata(base)
    except (OSError, HTTPException):
        return OwnLocation()


def own_ssh_source(vpc: str, region: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return this computer's own address in the nodes' network, as a network.

    Raises:
        CloudError: It is not in that network, so its address is unknown.
    """
    location = own_location(environment)
    if location.vpc == vpc and location.address:
        return f"{location.address}/32"
    raise CloudError(
        f"This computer is not in {vpc}, the network of {region}, from which nodes accept ssh",
        ErrorKind.CONFIGURATION,
        remedy="let in this computer's public address (--ssh-from auto), or the private network "
        "by which it reaches them (--ssh-from 10.8.0.0/16).",
    )


# AWS's own service that answers with the caller's public address; docs/ec2.md has the variables.
ADDRESS_URL, ADDRESS_VARIABLE = "https://checkip.amazonaws.com", "WORKBENCH_ADDRESS_URL"
# Servers that answer anybody at port 22.
SSH_SERVERS = "git-codecommit.{region}.amazonaws.com:22,github.com:22"
SSH_VARIABLE = "WORKBENCH_SSH_SERVERS"
ADDRESS_SECONDS = 60.0  # a computer changes its network more rarely
CONNECT_SECONDS = 4.0
_LAST_LINES, _LONGEST_LINE = 4, 160


class WayOut:
    """This computer's way to nodes with public addresses: its own address, and port 22 outward.

    A pair of questions to others, at most once a minute. What gets no answer is unknown, and
    forbids nothing.

    Args:
        region: Of the nodes.
        environment: May name other servers to ask.
        clock: Returns seconds.
    """

    def __init__(
        self,
        region: str,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = environment.get(ADDRESS_VARIABLE) or ADDRESS_URL
        servers = environment.get(SSH_VARIABLE) or SSH_SERVERS.format(region=region)
        self._servers = servers.split(",")
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[float, str] | None = None

    def __repr__(self) -> str:
        return f"<WayOut by {self._url}>"

    def address(self) -> str:
        """Return this computer's public IPv4 address, at most a minute old; empty if unknown."""
        with self._lock:
            if self._known is None or self._clock() - self._known[0] >= ADDRESS_SECONDS:
                self._known = (self._clock(), _own_address(self._url))
            return self._known[1]

    def sources(self, ssh_sources: Sequence[str]) -> tuple[str, ...]:
        """Return the networks that may use ssh, with this computer's address for ``auto``.

        Raises:
            CloudError: That address is unknown.
        """
        if AUTO not in ssh_sources:
            return tuple(ssh_sources)
        if not (own := self.address()):
            raise CloudError(
                f"This computer's public address is unknown, as {self._url} does not answer",
                ErrorKind.BUSY,
                remedy="name it (--ssh-from 203.0.113.7).",
            )
        return tuple(dict.fromkeys(f"{own}/32" if s == AUTO else s for s in ssh_sources))

    def fault(self, ssh_sources: Sequence[str]) -> CloudError | None:
        """Return why ssh from here would reach no node; None if no reason is known.

        Args:
            ssh_sources: As for ``sources``.
        """
        if not is_public(ssh_sources) or not (own := self.address()):
            return None
        networks = [ipaddress.ip_network(one) for one in self.sources(ssh_sources)]
        if not any(ipaddress.ip_address(own) in network for network in networks):
            return CloudError(
                f"This computer's public address is now {own}, and nodes accept ssh from "
                f"{' and '.join(map(str, networks))} alone",
                ErrorKind.BUSY,
                remedy="let it in: `workbench up --ssh-from auto`, or with both addresses, "
                "separated by a comma.",
            )
        if self._is_closed():
            return CloudError(
                f"No connection to port 22 leaves this computer's network (neither "
                f"{' nor '.join(self._servers)} can be reached), so no node can",
                ErrorKind.BUSY,
                remedy="use another network or a VPN, have its firewall opened, or work on a "
                "machine inside AWS.",
            )
        return None

    def explain(self, ssh_sources: Sequence[str]) -> str:
        """Return why no node answers, if the reason is on this side; empty otherwise."""
        if not is_public(ssh_sources):
            networks = " and ".join(ssh_sources)
            return f"Nodes accept ssh from {networks}: check that this computer's VPN is up."
        if not self.address():
            return f"This computer may be offline: {self._url} does not answer either."
        return str(self.fault(ssh_sources) or "")

    def _is_closed(self) -> bool:
        """Return whether no server can be reached, though their names are known."""
        for server in self._servers:
            name, _, port = server.rpartition(":")
            try:
                socket.create_connection((name, int(port)), CONNECT_SECONDS).close()
            except socket.gaierror:
                return False
            except OSError:
                continue
            return False
        return True


def last_words(calls: Ec2Api, id_: str) -> str:
    """Return the last lines on a machine's console, joined by ``/``; empty if there are none.

    The newest lines are available for the types of the last years alone.
    """
    for latest in ({"Latest": True}, {}):
        try:
            answer = calls.call("ec2", "get_console_output", InstanceId=id_, **latest)
        except CloudError:
            continue
        text = answer.get("Output") or ""  # botocore has decoded it
        plain = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
        lines = [line.strip()[:_LONGEST_LINE] for line in plain.splitlines() if line.strip()]
        if lines:
            return " / ".join(lines[-_LAST_LINES:])
    return ""


def _own_address(url: str) -> str:
    place = urlsplit(url)
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    service = kind(place.hostname or "", place.port, timeout=CONNECT_SECONDS)
    try:
        return str(ipaddress.IPv4Address(_response(service, "GET", place.path or "/", {})))
    except (OSError, HTTPException, ValueError):
        return ""
    finally:
        service.close()


def _query_metadata(base: str) -> OwnLocation:
    place = urlsplit(base)
    service = HTTPConnection(place.hostname or "", place.port or 80, timeout=ANSWER_SECONDS)
    try:
        lives = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token = _response(service, "PUT", "/latest/api/token", lives)
        known = {"X-aws-ec2-metadata-token": token}
        mac = _response(service, "GET", "/latest/meta-data/mac", known)
        card = f"/latest/meta-data/network/interfaces/macs/{mac}"
        return OwnLocation(
            _response(service, "GET", f"{card}/vpc-id", known),
            _response(service, "GET", "/latest/meta-data/local-ipv4", known),
        )
    finally:
        service.close()


def _response(service: HTTPConnection, method: str, path: str, headers: Mapping[str, str]) -> str:
    service.request(method, path, headers=dict(headers))
    answer = service.getresponse()
    text = answer.read(4096).decode("ascii", "replace").strip()
    if answer.status != 200:
        raise HTTPException(f"{answer.status} for {path}")
    return text
