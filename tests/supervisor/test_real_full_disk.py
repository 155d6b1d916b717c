"""A real cluster on a small disk that fills up: during a run, and during `down`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).parent / "programs" / "full_disk.py"
ON_A_DISK = 'mount -t tmpfs -o size=24m,mode=700 tmpfs "$WORKBENCH_HOME" && exec "$@"'


@pytest.mark.parametrize("place", [pytest.param("here", marks=pytest.mark.weekly), "rehearse"])
def test_runs_outlive_a_full_disk_and_everything_goes_from_it(tmp_path, place) -> None:
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    home = tmp_path / "home"
    home.mkdir()
    environment = os.environ | {"WORKBENCH_HOME": str(home)}
    small = [*unshare, "sh", "-c", ON_A_DISK, "sh"]
    there = {"env": environment}
    tried = shutil.which("unshare") and subprocess.run([*small, "true"], check=False, **there)
    if not tried or tried.returncode:
        pytest.skip("needs a mount of its own (unshare), which this machine forbids")

    arguments = [str(tmp_path), *(["rehearse"] if place == "rehearse" else [])]
    answer = subprocess.run(
        [*small, sys.executable, str(PROGRAM), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )

    assert answer.returncode == 0, answer.stderr
    seen = json.loads(answer.stdout)
    assert seen["beats"] > 30  # training went on
    assert seen["notice"].startswith(f"The disk of {home} is full: {home} (tmpfs, 25.2 MB with ")
    assert "its disk is full" in seen["refused"]
    assert seen["same supervisor"]
    assert (seen["state"], seen["points"]) == ("finished", [True, True])
    assert seen["reserve"]
    code, said, trouble = seen["down"]
    assert (code, said.startswith("Cluster 'full' is deleted")) == (0, True), trouble
    if place == "rehearse":
        assert "no resource of it is left" in said
    assert not seen["reserve afterwards"]
