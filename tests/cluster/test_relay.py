"""Daemons of MPI are started in the sessions of this machine, where hosts have no login."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from workbench.cloud.hosts.local_session import LocalSession
from workbench.cluster.relay import relay, relay_script
from workbench.core.world.world import Host


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Give the folder of a world on the first host."""
    folder = tmp_path / "g1"
    folder.mkdir()
    (folder / "pid").write_text("1")
    (tmp_path / "real").mkdir()
    (tmp_path / "env").symlink_to(tmp_path / "real")
    (folder / "relay").write_text(relay_script(str(folder), str(tmp_path / "env")))
    return folder


def ask(world: Path, host: str, *command: str) -> int:
    """Call the agent as mpiexec does."""
    return subprocess.run(["sh", world / "relay", host, *command], check=False).returncode


def test_each_host_gets_its_command_with_the_path_that_all_have(world: Path) -> None:
    head, other = (LocalSession(Host(name, 1), world.parent) for name in ("one", "two"))
    answer: list[int] = []
    real = (world.parent / "real").resolve()
    # It stays for longer than is waited for.
    command = ("echo", f"{real}/bin/prted", ">", str(world / "heard"), ";", "sleep", "3")
    caller = threading.Thread(target=lambda: answer.append(ask(world, "10.0.0.5", *command)))
    caller.start()

    relay(head, str(world), {"10.0.0.5": other})
    caller.join(30)

    assert answer == [0]
    assert (world / "heard").read_text().strip() == f"{world.parent}/env/bin/prted"
    head.close()
    other.close()


def test_a_daemon_that_does_not_start_fails_the_call_and_others_are_not_asked(world: Path) -> None:
    head, other = (LocalSession(Host(name, 1), world.parent) for name in ("one", "two"))
    answer: list[int] = []
    caller = threading.Thread(target=lambda: answer.append(ask(world, "10.0.0.5", "exit", "3")))
    caller.start()

    relay(head, str(world), {"10.0.0.5": other})
    caller.join(30)

    assert answer == [3]
    head.close()
    other.close()


def test_a_world_that_has_ended_is_waited_for_no_longer(world: Path) -> None:
    head = LocalSession(Host("one", 1), world.parent)
    (world / "pid").unlink()

    relay(head, str(world), {"10.0.0.5": head})

    head.close()
