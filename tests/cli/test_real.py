from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.waiting import until
from workbench.store import Store

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(180)]

GREET = "import sys\nprint('hello', *sys.argv[1:], factor)\n"
RAISE = "from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 1:\n    raise ValueError('no')\n"
LOOP = """\
import time
import workbench
for step in range(100_000):
    workbench.report(loss=1 / (step + 1))
    time.sleep(0.01)
"""


class Shell:
    """Calls the real command with a data directory of its own.

    Args:
        folder: The current folder; the data directory is in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.profile = folder / "ipython" / "profile_workbench"
        self.environment = {
            **os.environ,
            "WORKBENCH_HOME": str(self.home),
            "IPYTHONDIR": str(self.profile.parent),
        }

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "workbench.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.environment,
        )

    def call(self, *arguments: str) -> tuple[int, str, str]:
        process = self.begin(*arguments)
        output, errors = process.communicate(timeout=120)
        return process.returncode, output, errors

    def script(self, text: str) -> str:
        path = self.folder / "train.py"
        path.write_text(text)
        return str(path)

    def until_running(self, name: str) -> None:
        with Store(self.home / "store.sqlite3") as store:
            until(
                lambda: any(r.wish.name == name and r.fact.iteration > 5 for r in store.runs()),
                what=f"iteration 5 of {name}",
            )

    def left(self) -> list[str]:
        """Return the command lines of what still runs for this data directory after a moment.

        A supervisor that has let go of its lock still has to end as a process.
        """
        deadline = time.monotonic() + 5
        while (found := self._running()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _running(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("WORKBENCH_HOME") == str(self.home):
                    found.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return found


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Have a cluster of two real ranks for all tests here, and see that nothing is left."""
    shell = Shell(tmp_path_factory.mktemp("cli"))
    code, output, errors = shell.call("up", "2", "--oversubscribe")
    assert (code, output[:36]) == (0, "Cluster 'default' is ready: 2 ranks,"), errors
    yield shell
    assert shell.call("uninstall", "--yes")[0] == 0
    assert shell.left() == []


def test_a_script_gets_its_arguments_and_parameters(shell):
    code, output, errors = shell.call("run", "--param", "factor=2", shell.script(GREET), "a", "-b")

    assert (code, output) == (0, "[0-1] hello a -b 2\n"), errors


def test_a_rank_that_raises_is_named_with_its_traceback(shell):
    code, _, errors = shell.call("run", shell.script(RAISE))

    assert code == 1
    assert "Rank 1 on " in errors
    assert errors.rstrip().endswith("ValueError: no")
    assert "train.py" in errors


def test_ctrl_c_stops_the_run_at_an_iteration(shell):
    process = shell.begin("run", "--name", "interrupted", shell.script(LOOP))
    shell.until_running("interrupted")

    process.send_signal(signal.SIGINT)

    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert re.search(r"Run interrupted: stopped at iteration \d+ · 2 ranks", errors)


def test_stop_from_another_shell_ends_the_run_in_this_one(shell):
    process = shell.begin("run", "--name", "stopped", shell.script(LOOP))
    shell.until_running("stopped")

    code, output, _ = shell.call("stop")

    process.communicate(timeout=30)
    assert (code, process.returncode) == (0, 130)
    assert output.startswith("Run stopped: stopped at iteration ")


def test_a_run_ends_at_its_wall_clock_limit(shell):
    code, _, errors = shell.call("run", "--wall-clock-limit", "1s", shell.script(LOOP))

    assert code == 130
    assert "stopped at iteration" in errors
    assert "It reached its wall-clock limit of 1 s" in errors


def test_a_run_in_the_background_is_followed_by_logs(shell):
    shell.call(
        "run", "--background", "--name", "behind", "--param", "factor=3", shell.script(GREET)
    )

    code, output, _ = shell.call("logs", "-f", "behind")

    assert (code, output) == (0, "[0-1] hello 3\n")


def test_the_supervisor_says_what_it_did_and_the_controller_on_request(shell):
    code, output, _ = shell.call("logs", "--supervisor")
    raw = shell.call("logs", "--controller")[1]

    assert (code, "[IPController]" in raw) == (0, True)
    assert "2 ranks are ready (generation" in output
    assert "  Run 'behind' finished." in output
    # Neither what ipyparallel logs, nor bytes as Python writes them; a run's id may end with "b".
    raw_words = re.compile(r"queue::|(?<![\w-])b'")
    assert [line for line in output.splitlines() if raw_words.search(line)] == []


def test_the_cluster_takes_another_size(shell):
    code, output, errors = shell.call("resize", "1")

    assert (code, "is ready: 1 rank," in output) == (0, True), errors
    assert "1 of 1 rank" in shell.call("status")[1]


def test_the_demo_learns_and_leaves_nothing_running(tmp_path):
    shell = Shell(tmp_path)

    code, output, errors = shell.call("demo")

    assert code == 0, errors
    accuracy = re.search(r"Test accuracy ([\d.]+) %", output)
    assert accuracy is not None
    assert float(accuracy[1]) > 95
    assert len(list(shell.home.glob("runs/*/curve.png"))) == 1
    assert shell.left() == []


def test_uninstall_ends_the_cluster_and_leaves_the_package_alone(shell):
    """The last test here: it takes the others' cluster away."""
    assert (shell.home.exists(), shell.profile.exists()) == (True, True)

    code, output, errors = shell.call("uninstall", "--yes")

    assert code == 0, errors
    assert "Cluster 'default' is deleted; none of its processes is left." in output
    assert output.splitlines()[-1].startswith("Nothing of workbench is left here but the package")
    assert (shell.home.exists(), shell.profile.exists()) == (False, False)
    assert shell.left() == []
