"""Nodes to have sessions with."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.rehearsal.hosts import Hosts, why_not
from workbench.cloud.ssh import SshSession, open_session
from workbench.core.world import Host


@pytest.fixture(scope="session")
def possible() -> None:
    """Skip where there can be no hosts; in CI, where there must be, fail."""
    if reason := why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@pytest.fixture(scope="module")
def hosts(possible: None) -> Iterator[Hosts]:
    """Give two hosts that a test must leave as they are."""
    with Hosts(2) as hosts:
        yield hosts


def log_in(hosts: Hosts, number: int = 0) -> SshSession:
    """Open a session with one of the hosts, as with a node that was bought."""
    host = hosts[number]
    return open_session(Host(host.address, 1, user="root"), [host.known_hosts], hosts.key)
