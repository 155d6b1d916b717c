"""A run is followed to its end, whatever becomes of its supervisor and its cluster."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.waiting import until
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.run.model import Run, RunState
from workbench.errors import ClusterError, RunFailed
from workbench.requests import supervisor as requests_supervisor
from workbench.requests.supervisor import (
    BIRTH_SECONDS,
    CARE_SECONDS,
    LOG_NAME,
    MOST_WAKINGS,
    WAKING_SECONDS,
    WOKEN,
    SupervisorMonitor,
)
from workbench.store.paths import cluster_directory
from workbench.view.following import (
    ASKED,
    CONTINUES,
    LIVE,
    LOOK_SECONDS,
    NOTE_SECONDS,
    STOPPING,
    DiskRoom,
    FollowPace,
    Interrupts,
    check_success,
    follow,
)
from workbench.view.run_record import RunRecord


class Notebook:
    """A view that notes what happens to it, and lets the test act whenever it is drawn."""

    pace = LIVE

    def __init__(self, run: Run, act: Callable[[], None] = lambda: None) -> None:
        self.record = RunRecord(run)
        self.notes: list[str] = []
        self.output = ""
        self.finished = False
        self._act = act

    def read(self, store, now) -> None:
        for rows in self.record.read(store, now):
            self.output += "".join(row.text for row in rows)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def draw(self, now: float) -> None:
        self._act()

    def finish(self, store, now) -> None:
        self.finished = True


@pytest.fixture
def wakings(monkeypatch) -> list[str]:
    """Count wakings of a supervisor that is always found dead."""
    found: list[str] = []
    monkeypatch.setattr(requests_supervisor, "supervisor_is_awake", lambda cluster: False)
    monkeypatch.setattr(requests_supervisor, "wake_supervisor", found.append)
    return found


def test_a_run_is_followed_to_its_end_and_its_last_output(store, supervisor, queue, report):
    run = queue("digits")

    def end() -> None:
        report(run, 0, "hello\n")
        supervisor.put_run_fact(run.id, state=RunState.FINISHED)

    view = Notebook(run, end)

    assert follow(store, view).fact.state is RunState.FINISHED
    assert (view.output, view.finished) == ("hello\n", True)


def test_an_interrupt_asks_for_the_run_to_stop_and_says_so(store, supervisor, queue):
    run = queue("digits")

    def obey() -> None:
        if supervisor.run(run.id).wish.stop:
            supervisor.put_run_fact(run.id, state=RunState.STOPPED)

    view = Notebook(run, obey)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)

        ended = follow(store, view, interrupts=interrupts)

    assert (ended.fact.state, view.notes) == (RunState.STOPPED, [ASKED])


def test_an_interrupt_ends_a_long_pause(store, queue):
    """The kernel of a long run sleeps, and its user presses stop."""
    view = Notebook(queue("digits"))
    view.pace = FollowPace(look=30.0, read=30.0)
    with Interrupts() as interrupts:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()

        interrupts.wait(30.0)
        follow(store, view, interrupts=interrupts, left=lambda: bool(view.notes))

    assert time.monotonic() - begun < 10
    assert store.run(view.record.run.id).wish.stop


def test_an_interrupt_that_may_be_a_restart_is_said_at_once_and_written_later(store, queue):
    run, begun = queue("digits"), time.monotonic()
    wished = []
    view = Notebook(run, lambda: wished.append(store.run(run.id).wish.stop))
    with Interrupts(reprieve=3 * NOTE_SECONDS) as interrupts:
        os.kill(os.getpid(), signal.SIGINT)

        follow(store, view, interrupts=interrupts, left=lambda: view.notes[-1:] == [ASKED])

    assert view.notes == [STOPPING, ASKED]
    assert wished.count(False) > 2
    assert time.monotonic() - begun < 6 * NOTE_SECONDS


def test_an_interrupt_before_the_end_of_the_kernel_leaves_the_run_alone(store, queue):
    view = Notebook(queue("digits"))
    with Interrupts(reprieve=2 * NOTE_SECONDS) as interrupts:
        os.kill(os.getpid(), signal.SIGINT)

        follow(store, view, interrupts=interrupts, left=lambda: bool(view.notes))

    assert view.notes == [STOPPING, CONTINUES]
    assert not store.run(view.record.run.id).wish.stop


def test_an_interrupt_waits_until_all_that_the_kernel_was_sent_is_heard(store, queue):
    asked: list[float] = []

    def is_settled() -> bool:
        asked.append(time.monotonic())
        return len(asked) > 3

    view = Notebook(queue("digits"))
    with Interrupts(0.01, is_settled) as interrupts:
        os.kill(os.getpid(), signal.SIGINT)

        follow(store, view, interrupts=interrupts, left=lambda: bool(view.notes))

    assert len(asked) == 4
    assert store.run(view.record.run.id).wish.stop


def test_a_second_interrupt_means_at_once(store, queue):
    view = Notebook(queue("digits"))
    with Interrupts(reprieve=60) as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

        follow(store, view, interrupts=interrupts, left=lambda: ASKED in view.notes)

    assert store.run(view.record.run.id).wish.stop


def test_an_interrupt_after_the_run_is_asked_to_stop_leaves(store, queue):
    with Interrupts() as interrupts:
        view = Notebook(queue("digits"), lambda: os.kill(os.getpid(), signal.SIGINT))

        with pytest.raises(KeyboardInterrupt):
            follow(store, view, interrupts=interrupts)

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupts_do_nothing_in_a_thread_that_gets_no_signals():
    handlers = []

    def enter() -> None:
        with Interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()

    assert handlers == [signal.default_int_handler]


def test_a_run_that_cannot_begin_is_given_up_and_wished_for_no_longer(store, supervisor, queue):
    run = queue("digits")
    failed = ClusterFact("default", ClusterState.FAILED, message="No mpiexec.", updated=9e9)
    supervisor.put_cluster_fact(failed)

    with pytest.raises(ClusterError, match=r"No mpiexec\."):
        follow(store, Notebook(run))

    assert store.run(run.id).wish.stop


def test_a_view_can_be_left_while_the_run_continues(store, queue):
    view = Notebook(queue("digits"))

    assert follow(store, view, left=lambda: True).fact.state is RunState.QUEUED
    assert not view.finished


def test_a_supervisor_that_died_is_woken_and_this_is_said(store, supervisor, queue, wakings):
    run = queue("digits")

    def end() -> None:
        if wakings:
            supervisor.put_run_fact(run.id, state=RunState.FINISHED)

    view = Notebook(run, end)

    follow(store, view, waking=0.0)

    assert view.notes[0] == WOKEN


def test_a_supervisor_gets_a_moment_to_wake(wakings):
    watch = SupervisorMonitor("default", 0.0)

    assert not watch.look(WAKING_SECONDS - 1)
    assert watch.look(WAKING_SECONDS)
    assert not watch.look(WAKING_SECONDS + CARE_SECONDS)


@contextlib.contextmanager
def starting(log: Path) -> Iterator[None]:
    """Run a process that looks like a supervisor of cluster "slow" which has not begun."""
    program = [sys.executable, "-c", "input()", "workbench.supervisor", "slow"]
    with (
        log.open("ab") as file,
        subprocess.Popen(program, stdin=subprocess.PIPE, stdout=file) as process,
    ):
        command = Path(f"/proc/{process.pid}/cmdline")
        until(lambda: b"workbench.supervisor" in command.read_bytes(), what="its own command")
        yield
        assert process.stdin
        process.stdin.close()


def test_a_supervisor_that_starts_slowly_is_not_said_to_have_ended(wakings, home):
    watch = SupervisorMonitor("slow", 0.0)
    with starting(cluster_directory("slow") / LOG_NAME):
        assert not watch.look(WAKING_SECONDS + 1)
        assert watch.look(BIRTH_SECONDS + 1)
    assert wakings == ["slow"]


def test_a_cluster_of_the_same_name_in_another_home_is_not_waited_for(wakings, home, tmp_path):
    with starting(tmp_path / LOG_NAME):
        assert SupervisorMonitor("slow", 0.0).look(WAKING_SECONDS + 1)
    assert wakings == ["slow"]


def test_a_supervisor_that_will_not_live_is_given_up(wakings):
    watch = SupervisorMonitor("mine", 0.0)
    moments = [WAKING_SECONDS * i for i in range(1, MOST_WAKINGS + 2)]

    with pytest.raises(
        ClusterError, match="see why with `workbench logs --supervisor --cluster mine`"
    ):
        [watch.look(now) for now in moments]

    assert wakings == ["mine"] * MOST_WAKINGS


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"state": RunState.FAILED, "failed_rank": 1, "failed_host": "here"}, r"rank 1 \(here\)"),
        ({"state": RunState.FAILED, "message": "Rank 1 failed: no."}, "Rank 1 failed: no"),
        ({"state": RunState.LOST}, "Run 'digits' was lost"),
    ],
)
def test_a_run_that_failed_or_was_lost_is_an_error(store, queue, facts, words):
    run = queue("digits")
    store.put_run_fact(run.id, **facts)

    with pytest.raises(RunFailed, match=words):
        check_success(store.run(run.id))


def test_a_full_disk_and_its_end_are_reported_once_each(tmp_path, monkeypatch) -> None:
    room, free, said = DiskRoom(tmp_path / "store.sqlite3"), [1 << 40], []
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: SimpleNamespace(free=free[0], total=1 << 41)
    )

    for moment, free[0] in enumerate([1 << 40, 0, 0, 0, 1 << 40, 1 << 40]):
        said.append(room.look(moment * LOOK_SECONDS))

    assert [bool(sentence) for sentence in said] == [False, True, False, False, True, False]
    assert said[1].startswith(f"The disk of {tmp_path} is full: ")
    assert said[4] == f"The disk of {tmp_path} has free space again."
