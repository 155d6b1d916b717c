"""Find the VPC and subnets for nodes, and check that nodes can be reached there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from workbench.cloud.ec2.api import Ec2Api, build_error
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
        remedy="name this computer's own public address (--ssh-from 203.0.113.7; `curl -4 "
        "https://checkip.amazonaws.com` prints it), or the private network by which it reaches "
        "them (--ssh-from 10.8.0.0/16).",
    )


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
