"""Hosts for the tests of this folder; where they are impossible, tests skip with the reason."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearsal.bare import debian
from tests.rehearsal.bare.debian import Debian
from tests.rehearsal.ec2.endpoint import Endpoint
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


@pytest.fixture(scope="session")
def one_endpoint(possible: None) -> Iterator[Endpoint]:
    """Give the rehearsal's EC2 with a host behind each instance; who uses it resets it first."""
    with Endpoint(machines=True) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def bare(possible: None) -> Iterator[Debian]:
    """Give Debian's base system, made once; a folder of ``WORKBENCH_BARE`` stays for the next."""
    if reason := debian.why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    kept = os.environ.get("WORKBENCH_BARE")
    folder = Path(kept or tempfile.mkdtemp(prefix="bare-"))
    try:
        made = Debian(folder)
        made.make()
        yield made
    finally:
        if not kept:
            shutil.rmtree(folder)
