"""A node launches a command, waits for it, and ends all its processes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import until
from workbench.core.node.launch_protocol import (
    FOLDER,
    OUTPUT,
    Launch,
    Launched,
    launch_text,
    read_launched,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def ask(home: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    launch = Launch("w/g1", (("hosts", "a\n"),), command, tuple(environment.items()))
    return subprocess.run(
        [sys.executable, "-m", "workbench.node.launch"],
        input=launch_text(launch),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
        env={**os.environ, "HOME": str(home)},
    )


def gone(launched: Launched) -> bool:
    try:
        return psutil.Process(launched.pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_command_continues_when_its_caller_is_gone(home) -> None:
    done = ask(home, "sh", "-c", f"cat {FOLDER}/hosts; echo $SECRET; sleep 60", SECRET="xyz")

    launched = read_launched(done.stdout)
    output = Path(launched.folder) / OUTPUT

    until(lambda: output.read_text() == "a\nxyz\n")
    assert not gone(launched)
    os.kill(launched.pid, signal.SIGTERM)
    until(lambda: gone(launched))


def test_only_the_owner_may_look_at_what_is_there(home) -> None:
    launched = read_launched(ask(home, "true").stdout)

    folder = Path(launched.folder)
    until(lambda: gone(launched))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "], ids=["obedient", "stubborn"])
def test_at_the_end_nothing_of_it_is_left(home, stubborn) -> None:
    orphan = f"{stubborn}setsid sh -c '{stubborn}echo $$ > {FOLDER}/orphan; sleep 60' & wait; wait"
    launched = read_launched(ask(home, "sh", "-c", orphan).stdout)
    file = Path(launched.folder) / "orphan"
    until(lambda: file.exists() and file.read_text().strip())

    os.kill(launched.pid, signal.SIGTERM)

    until(lambda: gone(launched))
    assert not psutil.pid_exists(int(file.read_text()))


def test_a_command_that_is_not_there_is_reported_in_one_line(home) -> None:
    done = ask(home, "/no/such/mpiexec")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "/no/such/mpiexec: No such file or directory\n"
