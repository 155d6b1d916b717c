"""A forked rank is, to mpiexec and to itself, what it would be if mpiexec had started it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import until
from workbench.cluster.launcher import through_stub
from workbench.node.fork_server import IDLE_SECONDS
from workbench.node.warm_ranks import WarmRanks

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
SECONDS = 30.0
IMPORT_SECONDS = 120.0


@pytest.fixture(scope="module", autouse=True)
def programs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(PROGRAMS)]))
        yield


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmRanks]:
    with serving(tmp_path_factory.mktemp("forks" * 20), "json", "numpy") as warm:
        yield warm


@contextmanager
def serving(folder: Path, *names: str, later: Sequence[str] = ()) -> Iterator[WarmRanks]:
    warm = WarmRanks(folder, names, later)
    warm.start()
    try:
        yield warm
    finally:
        warm.close()


def command(path: str, *arguments: str) -> list[str]:
    return through_stub([sys.executable, "-m", "forked_rank", *arguments], path)


def run(path: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    line = command(path, *arguments)
    return subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=SECONDS, **options
    )


@contextmanager
def standing(path: str, *modules: str) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """Have a rank that has imported modules, and waits for signals."""
    line = command(path, "wait", "", *modules)
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as stub:
        assert stub.stdout is not None
        rank = psutil.Process(int(stub.stdout.readline()))
        try:
            assert rank.pid != stub.pid  # else its parent is this process, which tests would end
            yield stub, rank
        finally:
            stub.kill()


def unlike_others() -> None:
    """Give a program a place of its own, as a launcher may."""
    os.umask(0o027)
    os.nice(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 22, resource.RLIM_INFINITY))
    Path("/proc/self/oom_score_adj").write_text("123")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})


def test_a_forked_rank_has_all_that_a_plain_one_has(forks: WarmRanks, tmp_path: Path) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    environment = {**os.environ, "OMPI_MARK": "ä 1\n2", "OPENBLAS_NUM_THREADS": "2"}
    options = {
        "preexec_fn": unlike_others, "cwd": tmp_path, "env": environment, "pass_fds": [opened],
    }  # fmt: skip

    plain, forked = (run(path, "show", str(opened), "ä b", **options) for path in ("", forks.path))

    os.close(opened)
    found = json.loads(forked.stdout)
    assert found["stub"]
    assert {**found, "stub": ""} == json.loads(plain.stdout)
    assert (forked.stderr, forked.returncode) == ("a warning\n", 0)


def test_a_rank_is_forked_indeed_and_says_which_process_stands_for_it(forks: WarmRanks) -> None:
    with standing(forks.path) as (stub, rank):
        assert rank.pid != stub.pid
        assert rank.environ()["WORKBENCH_STUB"] == f"{stub.pid} {os.getpid()}"
        assert os.getpgid(rank.pid) == rank.pid


def test_a_rank_whose_program_is_imported_already_warns_of_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, "wave", "tests.node.programs.forked_rank") as warm:
        line = command(warm.path, "modules")
        line[line.index("forked_rank")] = "tests.node.programs.forked_rank"
        found = subprocess.run(line, capture_output=True, text=True, check=True, timeout=SECONDS)

    assert "tests.node.programs.forked_rank" in found.stdout.split()
    assert found.stderr == ""


@pytest.mark.parametrize("status", [0, 3, 255])
def test_the_exit_status_is_passed_on(forks: WarmRanks, status: int) -> None:
    assert run(forks.path, "exit", "", str(status)).returncode == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT])
def test_death_by_a_signal_is_passed_on(forks: WarmRanks, number: int) -> None:
    assert run(forks.path, "end", "", str(int(number))).returncode == -number


def test_a_keeper_hears_how_a_rank_ended(forks: WarmRanks) -> None:
    with standing(forks.path) as (_, rank):
        rank.kill()
        until(lambda: forks.look() or rank.pid in forks.statuses)

    assert forks.statuses[rank.pid] == signal.SIGKILL


def test_standard_input_reaches_the_rank(forks: WarmRanks) -> None:
    assert run(forks.path, "read", "", input="abc").stdout == "cba\n"


def test_forked_ranks_draw_random_numbers_of_their_own(forks: WarmRanks) -> None:
    assert run(forks.path, "draw", "").stdout != run(forks.path, "draw", "").stdout


def test_signals_to_the_stub_reach_the_rank(forks: WarmRanks) -> None:
    with standing(forks.path) as (stub, _):
        assert stub.stdout is not None
        stub.send_signal(signal.SIGUSR1)
        assert stub.stdout.readline() == "heard\n"
        stub.terminate()
        assert stub.wait(SECONDS) == 7


def test_the_rank_ends_with_its_stub(forks: WarmRanks) -> None:
    with standing(forks.path) as (stub, rank):
        stub.kill()
        until(lambda: not rank.is_running())


def test_a_rank_outlives_the_keeper_and_ends_the_server(tmp_path: Path) -> None:
    warm = WarmRanks(tmp_path, ["json"], ())
    warm.start()
    with standing(warm.path) as (stub, rank):
        server = rank.parent()
        assert server is not None
        stranger = WarmRanks(tmp_path, ["json"], ())
        stranger.start()  # as a supervisor that takes over
        warm.leave()
        assert rank.is_running()
        assert server.pid == rank.ppid()
        stub.terminate()
        assert stub.wait(SECONDS) == 7
    stranger.close()
    warm.close()
    until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)


def test_a_server_that_was_killed_leaves_its_rank_alone(tmp_path: Path) -> None:
    with serving(tmp_path, "json") as warm, standing(warm.path) as (stub, rank):
        server = rank.parent()
        assert server is not None
        server.kill()
        server.wait(SECONDS)
        assert rank.is_running()
        rank.kill()
        assert stub.wait(SECONDS) == 1


def test_a_server_that_answers_nothing_is_ended_too(tmp_path: Path) -> None:
    with serving(tmp_path) as warm:
        server = psutil.Process(warm.process)
        server.suspend()

        warm.close()

    assert not server.is_running()


@pytest.mark.parametrize("path", ["/nowhere/forks", ""])
def test_without_a_server_a_rank_starts_by_itself(path: str) -> None:
    assert run(path, "exit", "", "3").returncode == 3


def test_a_rank_with_another_setting_of_python_starts_by_itself(forks: WarmRanks) -> None:
    done = run(forks.path, "show", "", env={**os.environ, "PYTHONHASHSEED": "7"})

    assert json.loads(done.stdout)["stub"] == ""


def test_after_a_change_of_a_module_the_next_rank_has_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "changed_module.py"
    module.write_text("")
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)])
    monkeypatch.setenv("PYTHONPATH", path)
    with serving(tmp_path / "forks", "changed_module") as warm:
        with standing(warm.path) as (_, rank):
            first = rank.ppid()
            module.write_text("changed = True")
            until(lambda: run(warm.path, "exit", "", "3").returncode == 3 and changed(warm))
        with standing(warm.path) as (_, rank):
            assert rank.ppid() != first


def changed(warm: WarmRanks) -> bool:
    """Let the cluster notice that its fork server has retired."""
    before = warm.process
    warm.look()
    return warm.process != before


def test_a_module_that_leaves_a_thread_is_left_to_the_ranks(tmp_path: Path) -> None:
    with serving(tmp_path, "leaves_thread", "json") as warm, standing(warm.path) as (_, rank):
        assert "WORKBENCH_STUB" in rank.environ()

    assert "Each rank imports leaves_thread itself" in (tmp_path / "fork-server.log").read_text()


def test_what_only_later_ranks_need_is_imported_after_the_first_has_started(tmp_path: Path) -> None:
    with serving(tmp_path, "json", later=["colorsys", "wave"]) as warm:
        assert not {"colorsys", "wave"} & modules(warm)
        until(lambda: {"colorsys", "wave"} <= modules(warm))


def test_a_late_module_that_leaves_a_thread_is_left_to_the_ranks(tmp_path: Path) -> None:
    with serving(tmp_path, "json", later=["leaves_thread", "wave"]) as warm:
        until(lambda: "wave" in modules(warm))
        assert "leaves_thread" not in modules(warm)
        with standing(warm.path) as (_, rank):
            assert "WORKBENCH_STUB" in rank.environ()

    assert "Each rank imports leaves_thread itself" in (tmp_path / "fork-server.log").read_text()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_server_that_ends_leaves_no_trial_behind(tmp_path: Path, is_killed: bool) -> None:
    with serving(tmp_path, "json", later=["never_imported"]) as warm, standing(warm.path) as found:
        rank = found[1]
        server = rank.parent()
        assert server is not None
        until(lambda: len(server.children()) == 2)
        trial = next(one for one in server.children() if one.pid != rank.pid)
        if is_killed:
            server.kill()
            rank.kill()  # which no server ends now
    until(lambda: not trial.is_running())


def modules(warm: WarmRanks) -> set[str]:
    """Return what a forked rank finds imported; the server is idle for longer than it waits."""
    time.sleep(1.1 * IDLE_SECONDS)
    return {*run(warm.path, "modules", "").stdout.split()}


@pytest.mark.torch
def test_a_module_that_a_rank_has_loaded_is_imported_for_the_next_ones(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is an extra that the tests do without")
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    with serving(tmp_path, "numpy") as warm:
        plain = run("", "torch", "", env=environment).stdout
        assert plain.startswith("2 ")
        with standing(warm.path, "torch"):
            until(lambda: "torch._dynamo" in modules(warm), seconds=IMPORT_SECONDS)
        assert run(warm.path, "torch", "", env=environment).stdout == plain
