"""Files of a real run in the data directory are private to their owner, whatever the umask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Only root becomes another user; one cluster serves all tests.
pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(200)]

PROGRAM = Path(__file__).parent / "programs" / "private.py"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What the program saw of a real cluster of two ranks."""
    folder = tmp_path_factory.mktemp("private")
    for above in (folder, *folder.parents[:2]):
        above.chmod(0o755)
    answer = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder)],
        env=os.environ | {"WORKBENCH_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_every_file_of_a_run_is_its_owners_alone(seen) -> None:
    assert seen["logs"] == 2
    assert seen["during"] == []
    assert seen["after"] == []


def test_what_the_users_program_writes_follows_its_own_umask(seen) -> None:
    assert seen["theirs"] == 0o666


def test_another_user_of_the_machine_finds_nothing(seen) -> None:
    assert seen["others"] == 0
