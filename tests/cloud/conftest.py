"""Nodes to have sessions with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rehearsal.conftest import possible
from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import Hosts
from workbench.cloud.ssh import SshSession, open_session
from workbench.core.world import Host

__all__ = ["hosts", "log_in", "possible"]


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


def log_in(hosts: Hosts, number: int = 0) -> SshSession:
    """Open a session with one of the hosts, as with a node that was bought."""
    host = hosts[number]
    return open_session(Host(host.address, 1, user="root"), [host.known_hosts], hosts.key)
