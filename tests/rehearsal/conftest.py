"""Hosts for the tests of this folder; where there can be none, the tests say why."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.rehearsal.hosts import Hosts, why_not


@pytest.fixture(scope="session")
def possible() -> None:
    """Skip where there can be no hosts; in CI, where there must be, fail."""
    if reason := why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@pytest.fixture
def hosts(possible: None) -> Iterator[Hosts]:
    """Give a network without hosts yet."""
    with Hosts() as hosts:
        yield hosts
