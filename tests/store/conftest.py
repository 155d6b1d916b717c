"""A store and a data directory of the test's own, and disks that are full or read-only."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workbench.core.run.model import RunKind, RunWish
from workbench.store import Store

PROGRAMS = Path(__file__).parent / "programs"
ROOT = PROGRAMS.parents[2]
OnDisk = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite3") as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An unused data directory."""
    folder = tmp_path / "home"
    monkeypatch.setenv("WORKBENCH_HOME", str(folder))
    return folder


@pytest.fixture
def wish() -> Callable[..., RunWish]:
    """Make wishes that differ in their ids and in what the test names."""

    numbers = itertools.count()

    def make(name: str = "fit", **fields: object) -> RunWish:
        values = {"id": f"run-{next(numbers)}", "kind": RunKind.CELL, "source": "pass"} | fields
        return RunWish(name=name, **values)

    return make


@pytest.fixture
def run(store: Store, wish: Callable[..., RunWish]) -> str:
    """The id of a run that is queued."""
    return store.wish_run(wish()).id


@pytest.fixture
def on_disk(tmp_path: Path) -> OnDisk:
    """Run a program of ``programs`` in a small disk of its own, which goes away with it."""
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    disk = tmp_path / "disk"
    disk.mkdir()

    def run_there(program: str | Path, *, size: str = "1m", shell: str = "true") -> object:
        script = f'mount -t tmpfs -o size={size} tmpfs "$1" && cd "$1" && {shell} && exec "$2" "$3"'
        return subprocess.run(
            [*unshare, "sh", "-c", script, "sh", str(disk), sys.executable, PROGRAMS / program],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"WORKBENCH_HOME": str(disk), "PYTHONPATH": str(ROOT)},
        )

    if not shutil.which("unshare") or run_there(os.devnull).returncode:
        pytest.skip("needs a mount of its own (unshare), which this machine forbids")
    return run_there
