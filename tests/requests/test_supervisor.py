"""One supervisor is started for a cluster; one that hangs is continued or replaced."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.requests.conftest import has_started
from tests.waiting import until
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.run.model import RunKind
from workbench.core.run.run_options import RunOptions
from workbench.core.supervisor.heartbeat import Heartbeat, heartbeat_text
from workbench.errors import MachineError
from workbench.requests.cluster import ask_down
from workbench.requests.run import ask_run
from workbench.requests.supervisor import (
    HEARTBEAT_NAME,
    LOCK_NAME,
    LOG_NAME,
    birth,
    boot_id,
    keep_awake,
    rouse,
    supervisor_is_awake,
    wake_supervisor,
)
from workbench.store.paths import cluster_directory

CELL = {"kind": RunKind.CELL, "source": "pass"}
Start = Callable[..., "subprocess.Popen[str]"]
PROGRAM = Path(__file__).with_name("still.py")


def test_no_second_supervisor_is_started(store, home, awake) -> None:
    assert supervisor_is_awake("default")

    wake_supervisor("default")
    ask_run(store, **CELL, options=RunOptions(ranks=1))

    assert not has_started(home)


def test_a_supervisor_that_has_let_go_of_its_lock_is_not_awake(home) -> None:
    assert not supervisor_is_awake("default")

    with (cluster_directory("default") / LOCK_NAME).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert supervisor_is_awake("default")

    assert not supervisor_is_awake("default")


def test_looking_whether_one_is_awake_does_not_get_in_its_way(home) -> None:
    with (cluster_directory("default") / LOCK_NAME).open("wb") as file:
        assert not supervisor_is_awake("default")

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

        assert supervisor_is_awake("default")


def test_another_who_looks_at_the_same_moment_is_not_taken_for_a_supervisor(home) -> None:
    with (cluster_directory("default") / LOCK_NAME).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)

        assert not supervisor_is_awake("default")


def test_a_supervisor_that_cannot_be_started_is_reported_with_its_log(home) -> None:
    log = cluster_directory("default") / LOG_NAME
    log.mkdir()

    with pytest.raises(MachineError) as refusal:
        wake_supervisor("default")

    assert str(refusal.value).startswith("The supervisor of cluster 'default' could not be started")
    assert str(refusal.value).endswith(f"see {log}.")


def test_a_cluster_without_a_supervisor_is_not_ready_before_the_next_has_looked(
    store, home
) -> None:
    store.wish_cluster("default", up=True, ranks=2)
    store.put_cluster_fact(ClusterFact("default", ClusterState.READY, 2, 3, newest=4))
    (cluster_directory("default") / LOG_NAME).mkdir()  # so that none can be started

    with pytest.raises(MachineError):
        keep_awake(store, "default")

    fact = store.cluster_fact("default")
    assert (fact.state, fact.ranks) == (ClusterState.STARTING, 0)
    assert (fact.generation, fact.newest) == (3, 4)


def test_a_cluster_that_is_down_wakes_no_one_to_go_down(store, home) -> None:
    store.wish_cluster("default", up=True, ranks=1)

    ask_down(store)

    assert store.cluster_wish("default").up is False
    assert not has_started(home)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a process that holds the lock, and whose last heartbeat is old."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    folder = cluster_directory("default")
    started = []

    def start(how: str, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(PROGRAM), str(folder / LOCK_NAME), how, *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        # On a busy machine it may yet have to come to its rest.
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_SLEEPING)
        beat = Heartbeat(
            *(boot_id(), process.pid, birth(process.pid)),
            *(time.monotonic() - 100.0, 20.0, 0.0, 0.0),
        )
        (folder / HEARTBEAT_NAME).write_text(heartbeat_text(beat))
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


OURS = ("workbench.supervisor", "default")


def test_one_that_hangs_makes_way(start: Start) -> None:
    process = start("idle", *OURS)

    done = rouse("default")

    assert done == "The supervisor did not move for 102 s, and was replaced."
    assert process.wait(5.0) == -signal.SIGKILL
    assert not supervisor_is_awake("default")


def test_one_that_was_stopped_continues(start: Start) -> None:
    process = start("busy", *OURS)
    process.send_signal(signal.SIGSTOP)
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)

    assert rouse("default") == "The supervisor was stopped for 100 s, and was continued."

    until(lambda: psutil.Process(process.pid).status() != psutil.STATUS_STOPPED)


@pytest.mark.parametrize(
    ("how", "words"),
    [("busy", OURS), ("idle", ("workbench.supervisor", "other")), ("idle", ("a", "default"))],
    ids=["moves", "another cluster's", "another program"],
)
def test_any_other_is_left_alone(start: Start, how: str, words: tuple[str, ...]) -> None:
    process = start(how, *words)

    assert rouse("default") == ""
    assert process.poll() is None


def test_a_process_that_got_the_number_later_is_left_alone(start: Start) -> None:
    process = start("idle", *OURS)
    path = cluster_directory("default") / HEARTBEAT_NAME
    path.write_text(path.read_text().replace(str(birth(process.pid)), "1"))

    assert rouse("default") == ""


def test_no_one_is_roused_where_a_person_debugs(start: Start, monkeypatch) -> None:
    start("idle", *OURS)
    monkeypatch.setenv("WORKBENCH_WATCHDOG", "off")

    assert rouse("default") == ""


def test_a_heartbeat_of_an_earlier_start_of_the_machine_says_nothing(start: Start) -> None:
    process = start("idle", *OURS)
    beat = replace(Heartbeat("", process.pid, birth(process.pid), 0, 0, 0, 0), boot="another")
    (cluster_directory("default") / HEARTBEAT_NAME).write_text(heartbeat_text(beat))

    assert rouse("default") == ""
