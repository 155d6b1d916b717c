"""The package as it is published: built once, or taken from the folder of WORKBENCH_DIST."""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path

import pytest

from tests.packaging.programs import run


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the sdist of this tree, and the pure wheel that the sdist makes."""
    if made := os.environ.get("WORKBENCH_DIST"):
        return Path(made)
    folder = tmp_path_factory.mktemp("dist")
    hatchling = (sys.executable, "-m", "hatchling", "build", "-d", folder)
    run(*hatchling, "-t", "sdist")
    run(*hatchling, "-t", "wheel", cwd=unpack(folder, folder))
    return folder


@pytest.fixture(scope="session")
def source(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the unpacked sdist."""
    return unpack(dist, tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    """Give the wheel for any platform."""
    return next(dist.glob("dist_workbench-*-py3-none-any.whl"))


def unpack(dist: Path, into: Path) -> Path:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        # Python 3.11.2, which is Debian 12's, has no filters.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        sdist.extractall(into, **safely)
    return next(into.glob("dist_workbench-*/"))
