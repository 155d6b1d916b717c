"""A rank's children are plain processes, their output is captured, and they end with the rank."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.waiting import until

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_SECONDS = 30.0
AsRank = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def as_rank(tmp_path: Path):
    """Start a text or a file in a process that is prepared as a rank's; its output is labelled."""
    started = []

    def start(source: str | Path, *arguments: str) -> subprocess.Popen[str]:
        path = source if isinstance(source, Path) else tmp_path / "cell.py"
        if isinstance(source, str):
            path.write_text(source)
        started.append(
            subprocess.Popen(
                [sys.executable, PROGRAMS / "as_rank.py", path, tmp_path, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=Path(__file__).parents[2],
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def said(as_rank: AsRank) -> Callable[..., str]:
    return lambda *program: as_rank(*program).communicate(timeout=PATIENCE_SECONDS)[0]


def wait_until_gone(pid: int) -> None:
    until(
        lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    )


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_find_what_a_script_defines_and_can_be_terminated(said, method) -> None:
    assert said(PROGRAMS / "pool.py", method) == "stdout: [2, 4]\n-15\n"


def test_an_executor_of_processes_ends(said) -> None:
    source = "import concurrent.futures as f\nwith f.ProcessPoolExecutor(2) as pool:\n"

    assert said(source + "    print([*pool.map(abs, [-3])])") == "stdout: [3]\n"


def test_what_the_rank_has_let_go_of_is_not_ended_in_a_child(said) -> None:
    assert said(PROGRAMS / "garbage.py") == "stdout: ended in the rank\n"


def test_what_is_written_past_print_comes_in_its_order(said) -> None:
    assert said(PROGRAMS / "writes.py") == (
        "stdout: first\nfrom write\nsecond\nfrom subprocess\nfrom its own stdout\nfrom system\n"
        "from libc\nfrom the buffer\nfrom fork\nlast\n"
    )


def test_an_incomplete_line_of_c_is_there_at_the_end(said) -> None:
    assert said("import ctypes\nctypes.CDLL(None).printf(b'no newline')") == "stdout: no newline"


def test_streams_that_a_library_bound_come_in_their_order(said) -> None:
    assert said(PROGRAMS / "bound_stream.py") == "stdout: first\nhalf a line of bytes\nlogged\n"


def test_errors_come_as_errors(said) -> None:
    assert said("import os\nos.write(2, b'wrong')") == "stderr: wrong"


def test_a_flood_is_taken_whole_and_its_file_freed(said) -> None:
    source = "import os, subprocess\nsubprocess.run('yes | head -c 20000000', shell=True)\n"
    source += "print(len('x'))\nimport glob; [f] = glob.glob(FOLDER + '/words-1-0.stdout')\n"

    text = said(source.replace("FOLDER", "__import__('sys').argv[2]"))

    assert text.count("y\n") >= 10_000_000


def test_a_forked_child_that_leaves_the_cell_ends_as_a_program_does(as_rank) -> None:
    rank = as_rank("import os\nif os.fork() == 0:\n    1 / 0\nprint(os.wait()[1] >> 8)")

    text = rank.communicate(timeout=PATIENCE_SECONDS)[0]

    assert "ZeroDivisionError" in text
    assert text.count("1\n") >= 1
    assert rank.returncode == 0


def test_a_child_ends_when_its_rank_is_killed(as_rank) -> None:
    rank = as_rank(
        "import os, sys, time\n"
        "child = os.fork()\n"
        "if child:\n    open(sys.argv[2] + '/child', 'w').write(f'{child}\\n')\n"
        "time.sleep(99)"
    )
    file = Path(str(rank.args[-1])) / "child"
    until(lambda: file.exists() and file.read_text().endswith("\n"), seconds=PATIENCE_SECONDS)

    os.kill(rank.pid, signal.SIGKILL)

    wait_until_gone(int(file.read_text()))


def test_a_child_whose_rank_was_killed_before_it_began_ends(as_rank) -> None:
    rank = as_rank(
        "import os\n"
        "known, os.getppid = os.getppid, lambda: 1\n"  # as if the rank were gone
        "child = os.fork()\n"
        "if not child:\n    os._exit(0)\n"
        "os.getppid = known\n"
        "print('ended by', os.waitpid(child, 0)[1])"
    )

    assert f"ended by {signal.SIGKILL:d}" in rank.communicate(timeout=PATIENCE_SECONDS)[0]
