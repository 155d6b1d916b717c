"""Add the default network's internet gateway, which moto lacks."""

from __future__ import annotations

from typing import Any


def attach(backend: Any) -> None:
    """Attach an internet gateway and make the route to it, once for each network."""
    vpc = backend.default_vpc
    if vpc is None or getattr(vpc, "is_connected", False):
        return
    vpc.is_connected = True
    gateway = backend.create_internet_gateway()
    backend.attach_internet_gateway(gateway.id, vpc.id)
    main = backend.describe_route_tables(filters={"vpc-id": [vpc.id], "association.main": ["true"]})
    backend.create_route(main[0].id, "0.0.0.0/0", None, gateway_id=gateway.id)
