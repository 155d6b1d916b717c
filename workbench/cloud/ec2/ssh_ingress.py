"""Determine the network from which nodes accept ssh, by default this computer's own address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.errors import CloudError

METADATA = "http://169.254.169.254"
ANSWER_SECONDS = 1.0


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
