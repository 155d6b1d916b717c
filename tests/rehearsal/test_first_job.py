"""Where login nodes forbid long processes, the supervisor runs in the first job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.rehearsal.slurm import Site
from tests.waiting import until
from workbench.cloud.slurm.first_job import start_first_job
from workbench.store.paths import ELSEWHERE_NAME

pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(240)]

TRAINING = Path(__file__).parents[1] / "supervisor" / "programs" / "slow_training.py"
UP = ("up", "--slurm", "--in-job", "--nodes", "1", "--slots", "1", "--yes")
RUN = ("run", "--background", "train.py")


@pytest.fixture
def home(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a data directory that the nodes see too; all jobs are cancelled in the end."""
    folder = Path.home() / "data"
    folder.mkdir(exist_ok=True, mode=0o700)
    monkeypatch.setenv("WORKBENCH_HOME", str(folder))
    text = TRAINING.read_text(encoding="utf-8").replace('globals().get("epochs", 6)', "1_000")
    (Path.home() / "train.py").write_text(text, encoding="utf-8")
    yield folder
    type_command("delete", "--yes", "--no-wait")
    site.ask("scancel", "-u", "root")
    until(lambda: not site.jobs(), what="the end of all jobs", said=site.jobs)
    (folder / ELSEWHERE_NAME).unlink()


def type_command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the login node."""
    return subprocess.run(
        [sys.executable, "-m", "workbench.cli", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
        cwd=Path.home(), env=os.environ,
    )  # fmt: skip


def newest_run() -> dict[str, object]:
    """Return the newest run's facts, as the login node sees them; none while it cannot."""
    answer = type_command("runs", "--json").stdout
    found = json.loads(answer) if answer.startswith("[") else []
    return dict(found[0]["fact"]) if found else {}


def is_far(steps: int, attempt: int = 1) -> bool:
    """Return whether the newest run has done so many steps."""
    fact = newest_run()
    return int(str(fact.get("iteration", 0))) > steps and int(str(fact["attempt"])) >= attempt


def networks_of_supervisors() -> set[str]:
    """Return the network namespaces of all supervisors of this test's data directory."""
    found = set()
    for process in psutil.process_iter(["cmdline", "environ"]):
        words, environment = process.info["cmdline"] or [], process.info["environ"] or {}
        is_ours = environment.get("WORKBENCH_HOME") == os.environ["WORKBENCH_HOME"]
        if is_ours and words[1:3] == ["-m", "workbench.supervisor"]:
            found.add(os.readlink(f"/proc/{process.pid}/ns/net"))
    return found


def test_the_supervisor_runs_in_the_first_job(site: Site, home: Path) -> None:
    up = type_command(*UP)
    run = type_command(*RUN)
    until(lambda: is_far(5), what="steps", said=newest_run)
    networks = networks_of_supervisors()
    site.ask("scancel", (home / ELSEWHERE_NAME).read_text().split()[2])
    until(lambda: not networks_of_supervisors(), what="the end of the supervisor")
    after = type_command("status")

    assert up.returncode == run.returncode == after.returncode == 0, (up, run, after)
    assert "The job in which the supervisors ran has ended" in after.stderr
    assert not networks_of_supervisors()
    assert "The supervisors run in job " in up.stderr
    assert "The supervisors run in job " in up.stdout  # beside when Slurm would start the node
    assert len(networks) == 1
    assert os.readlink("/proc/self/ns/net") not in networks


@pytest.mark.weekly
@pytest.mark.timeout(400)
def test_the_next_first_job_takes_over_before_the_time_is_over(site: Site, home: Path) -> None:
    start_first_job(["--time=2"], print)
    [first] = site.jobs("%i")
    up = type_command(*UP)
    run = type_command(*RUN)
    until(lambda: is_far(5), what="steps", said=newest_run)
    before = newest_run()

    until(
        lambda: first not in site.jobs("%i"),
        what="the end of the first job",
        said=site.jobs,
        seconds=150.0,
    )
    far = int(str(newest_run().get("iteration", before["iteration"])))
    until(
        lambda: is_far(far + 20),
        what="steps under the next supervisor",
        said=newest_run,
        seconds=150.0,
    )

    assert up.returncode == run.returncode == 0, (up, run)
    assert (home / ELSEWHERE_NAME).read_text().split()[2] != first
    print(f"attempt {newest_run()['attempt']} after the supervisor has moved")
