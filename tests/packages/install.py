"""Install a package of this folder where a test's processes find it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def installed_package(name: str, place: Path) -> Iterator[None]:
    """Have processes that start meanwhile, and this one, find a package installed."""
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    source = Path(__file__).parent / name
    command = [sys.executable, "-m", "pip", *install, "--target", place, source]
    subprocess.run(command, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)
        patch.syspath_prepend(place)
        yield
