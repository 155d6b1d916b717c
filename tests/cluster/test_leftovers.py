"""Processes that a world's ranks leave are ended with it, and its memory is removed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.waiting import until
from workbench.cluster import leftovers
from workbench.cluster.leftovers import (
    GRACE_SECONDS,
    LeftoverProcesses,
    left_marks,
    main,
    mark_of,
    segment_folder,
    segment_settings,
)
from workbench.core.world.world import WORLD_VARIABLE

# Other tests run beside this one, and look for processes with their own marks.
MARK = mark_of(f"{os.getpid():012x}", 3)
OTHER = mark_of(f"{os.getpid():012x}", 4)
STUBBORN = (
    "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint(1, flush=True)\ntime.sleep(99)"
)
DEADLINE = 10.0
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process with an environment; it is ended after the test."""
    with contextlib.ExitStack() as stack:

        def start(command: list[str], **environment: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                command,
                env={"PATH": os.environ["PATH"], **environment},
                stdout=subprocess.PIPE,
                process_group=0,
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


def press(remains: LeftoverProcesses) -> None:
    until(lambda: remains.press(time.monotonic()), what="the end", seconds=DEADLINE)


def test_what_carries_the_worlds_mark_is_ended(start) -> None:
    left = start(["sleep", "99"], **{WORLD_VARIABLE: MARK})

    press(LeftoverProcesses(MARK))

    assert left.wait(1) == -signal.SIGTERM


def test_what_ignores_the_polite_signal_is_ended_by_force(start) -> None:
    left = start([sys.executable, "-c", STUBBORN], **{WORLD_VARIABLE: MARK})
    assert left.stdout is not None
    left.stdout.readline()

    press(LeftoverProcesses(MARK))

    assert left.wait(1) == -signal.SIGKILL


@pytest.mark.parametrize("mark", ["", OTHER, mark_of("ba9876543210", 3)])
def test_what_has_another_mark_or_none_continues(start, mark) -> None:
    other = start(["sleep", "99"], **({WORLD_VARIABLE: mark} if mark else {}))

    press(LeftoverProcesses(MARK))
    press(LeftoverProcesses(""))

    assert other.poll() is None


ORPHAN = "sleep 99 & echo $!"


def test_what_had_its_environment_cleared_is_known_by_the_group_of_its_rank(start) -> None:
    rank = start(["sh", "-c", ORPHAN])
    assert rank.stdout is not None
    orphan = psutil.Process(int(rank.stdout.readline()))
    rank.wait(1)

    press(LeftoverProcesses(MARK, [rank.pid]))

    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE


def test_a_group_whose_leader_is_there_is_someone_elses(start) -> None:
    other = start(["sh", "-c", f"{ORPHAN}; exec sleep 99"])
    assert other.stdout is not None
    orphan = psutil.Process(int(other.stdout.readline()))

    press(LeftoverProcesses(MARK, [other.pid]))

    assert orphan.is_running()
    orphan.kill()


def test_force_waits_for_what_tidies_up(start) -> None:
    left = start([sys.executable, "-c", STUBBORN], **{WORLD_VARIABLE: MARK})
    assert left.stdout is not None
    left.stdout.readline()
    remains = LeftoverProcesses(MARK)

    remains.press(0.0)
    remains.press(GRACE_SECONDS / 2)

    assert left.poll() is None


def test_on_another_host_a_program_does_it(start) -> None:
    left = start(["sleep", "99"], **{WORLD_VARIABLE: MARK})

    assert main([MARK]) == 0

    assert left.wait(1) == -signal.SIGTERM


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", tmp_path)
    return tmp_path


def test_a_worlds_segments_have_a_folder_that_only_its_owner_reads() -> None:
    settings = segment_settings(MARK)

    folder = segment_folder(MARK)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert settings["OMPI_MCA_btl_sm_backing_directory"] == str(folder)
    assert segment_settings(MARK) == settings  # by the next rank


def test_a_folder_that_others_may_enter_is_not_used() -> None:
    segment_folder(MARK).mkdir(mode=0o755)

    assert segment_settings(MARK) == {}


def test_a_link_is_not_used(tmp_path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    segment_folder(MARK).symlink_to(tmp_path / "elsewhere")

    assert segment_settings(MARK) == {}


def test_without_shared_memory_open_mpi_chooses_itself(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", tmp_path / "absent")

    assert segment_settings(MARK) == {}


def test_segments_go_with_the_last_process_of_their_world() -> None:
    segment_settings(MARK)
    (segment_folder(MARK) / "sm_segment").touch()
    segment_settings(OTHER)

    assert LeftoverProcesses(MARK).press(0.0)
    assert LeftoverProcesses("").press(0.0)

    assert not segment_folder(MARK).exists()
    assert segment_folder(OTHER).exists()


def test_the_worlds_of_one_cluster_that_left_a_folder_are_found() -> None:
    segment_folder(f"{MARK}.1").mkdir()
    segment_folder(f"{MARK}.12").mkdir()
    try:
        assert left_marks(MARK) == [f"{MARK}.1", f"{MARK}.12"]
        assert left_marks(f"{MARK}.1") == []
    finally:
        segment_folder(f"{MARK}.1").rmdir()
        segment_folder(f"{MARK}.12").rmdir()
