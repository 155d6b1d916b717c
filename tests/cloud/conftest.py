"""Fixtures: nodes for sessions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import boto3
import pytest

from tests.rehearsal.conftest import possible, site
from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import Hosts
from workbench.cloud.ec2.provider import Ec2
from workbench.cloud.hosts.ssh import SshSession, open_session
from workbench.core.fleet.model import Purchase
from workbench.core.world.world import Host

__all__ = ["connect", "hosts", "log_in", "possible", "purchase", "site"]
REGION, ZONE = "us-east-1", "us-east-1a"
tokens = (f"token{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def hosts(possible: None) -> Iterator[Hosts]:
    """Give two hosts that a test must leave as they are."""
    with Hosts(2) as hosts:
        yield hosts


@pytest.fixture(scope="session")
def one_endpoint() -> Iterator[Endpoint]:
    """Give the rehearsal's EC2, without machines behind its instances."""
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(one_endpoint: Endpoint) -> Endpoint:
    """Give the rehearsal's EC2 as it was at first."""
    one_endpoint.reset()
    return one_endpoint


@pytest.fixture
def waits() -> list[float]:
    """How long the adapter has waited, each time."""
    return []


@pytest.fixture
def ec2(endpoint: Endpoint, waits: list[float]) -> Ec2:
    """Give the adapter of the rehearsal's EC2, with which time passes only when it waits."""

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        endpoint.settings(ahead=sum(waits))

    return connect(endpoint, waits, sleep)


def connect(
    endpoint: Endpoint,
    waits: list[float],
    sleep: Callable[[float], None],
    known: MutableMapping[str, str] | None = None,
) -> Ec2:
    """Return an adapter whose clock advances by its own waits alone."""
    start = time.time()
    return Ec2(
        REGION,
        endpoint=endpoint.url,
        attempts=2,
        known=known,
        clock=lambda: start + sum(waits),
        sleep=sleep,
    )


@pytest.fixture
def api(endpoint: Endpoint) -> Any:
    """Give the account, as its owner changes it."""
    return boto3.client("ec2", region_name=REGION, endpoint_url=endpoint.url)


def purchase(**changes: Any) -> Purchase:
    """Return a purchase of a small type, with a token of its own."""
    asked = {"cluster": "one", "token": next(tokens), "number": 0, "count": 3, "min_nodes": 2}
    return Purchase(**(asked | {"types": ("c5.large",), "zone": ZONE} | changes))


def log_in(hosts: Hosts, number: int = 0) -> SshSession:
    """Open a session with one of the hosts, as with a node that was bought."""
    host = hosts[number]
    return open_session(Host(host.address, 1, user="root"), [host.known_hosts], hosts.key)
