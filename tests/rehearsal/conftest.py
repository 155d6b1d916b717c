"""Hosts for the tests of this folder; where they are impossible, tests skip with the reason."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.rehearsal import slurm
from tests.rehearsal.bare import debian
from tests.rehearsal.bare.debian import Debian
from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import Hosts, why_not
from tests.rehearsal.slurm import Site


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


@pytest.fixture
def far_endpoint(possible: None) -> Iterator[Endpoint]:
    """Give one whose hosts have public addresses, which a home line leads to."""
    with Endpoint(machines=True, far=True) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def debians(possible: None) -> Iterator[Callable[..., Debian]]:
    """Give base systems by release, each made once; ``WORKBENCH_BARE`` names a lasting folder."""
    if reason := debian.why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    kept = os.environ.get("WORKBENCH_BARE")
    folder = Path(kept or tempfile.mkdtemp(prefix="bare-"))

    def make(release: str, included: Sequence[str] = debian.INCLUDED) -> Debian:
        if reason := debian.why_not(release):
            pytest.skip(reason)  # what only Ubuntu's own machines have
        name = release if included is debian.INCLUDED else f"{release}-box"
        made = Debian(folder / name, release, included)
        made.make()
        return made

    try:
        yield make
    finally:
        if not kept:
            shutil.rmtree(folder)


@pytest.fixture(scope="session")
def bare(debians: Callable[[str], Debian]) -> Debian:
    """Give the base system whose own Python is this one, which nodes of EC2 copy."""
    return debians(debian.release_with(sys.version_info[:2]))


@pytest.fixture(scope="module")
def site(possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Give Slurm with three nodes, which share the home of the person."""
    with shared_site(tmp_path_factory.mktemp("home")) as site:
        yield site


@pytest.fixture
def own_site(possible: None, tmp_path: Path) -> Iterator[Site]:
    """Give such a Slurm to one test alone, which may end its nodes."""
    with shared_site(tmp_path / "home") as site:
        yield site


@pytest.fixture
def grouped_site(possible: None, tmp_path: Path) -> Iterator[Site]:
    """Give such a Slurm that tracks and limits jobs by control groups."""
    if reason := slurm.why_no_groups():
        pytest.skip(reason)
    with shared_site(tmp_path / "home", has_groups=True) as site:
        yield site


@contextlib.contextmanager
def shared_site(home: Path, *, has_groups: bool = False) -> Iterator[Site]:
    """Give Slurm with three nodes, which share a home."""
    if reason := slurm.why_not():
        pytest.skip(reason)
    home.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        with Hosts(3, shared=[home]) as hosts, slurm.slurm(hosts, has_groups=has_groups) as site:
            patch.setenv("SLURM_CONF", site.environment["SLURM_CONF"])
            yield site
