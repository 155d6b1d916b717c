"""The job in which supervisors run: who finds it, and what is done where it is not there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from workbench.cloud.slurm import first_job
from workbench.cloud.slurm.description import PROVIDER
from workbench.cloud.slurm.first_job import run_in_first_job, where_supervisors_run
from workbench.cloud.slurm.texts import SlurmJob
from workbench.core.node.disks import Mount
from workbench.errors import StateError
from workbench.store.claim import ClaimingMachine, claim
from workbench.store.paths import ELSEWHERE_NAME, KEPT_VARIABLE, home_directory

JOB = SlurmJob("12", "RUNNING", batch_host="n7", end=2e9)
WAITING = SlurmJob("13", "PENDING", "Priority")
WORDS = ["python", "-m", "workbench.cli", "status"]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Collect the commands that would take the place of this process."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    (tmp_path / ELSEWHERE_NAME).write_text("slurm n7 12")
    monkeypatch.setenv(KEPT_VARIABLE, "")
    monkeypatch.delenv(KEPT_VARIABLE)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    found: list[list[str]] = []
    monkeypatch.setattr(os, "execvpe", lambda _, command, __: found.append(command))
    return found


def listed(monkeypatch: pytest.MonkeyPatch, *jobs: SlurmJob) -> None:
    """Let Slurm list these jobs."""
    monkeypatch.setattr(first_job, "list_jobs", lambda *_: jobs)


def test_a_command_runs_as_a_step_of_the_job(typed, monkeypatch) -> None:
    listed(monkeypatch, WAITING, JOB)

    run_in_first_job(WORDS)

    [command] = typed
    assert command[:3] == ["srun", "--jobid=12", "--overlap"]
    assert command[-4:] == WORDS


def test_inside_the_job_it_runs_at_once_and_starts_no_supervisor(typed, monkeypatch) -> None:
    listed(monkeypatch, JOB)
    monkeypatch.setenv("SLURM_JOB_ID", "12")

    run_in_first_job(WORDS)

    assert typed == []
    assert os.environ[KEPT_VARIABLE] == "1"


@pytest.mark.parametrize("jobs", [(WAITING,), (replace(JOB, id="14"), WAITING)])
def test_a_job_that_has_not_the_store_yet_is_waited_for(typed, monkeypatch, jobs) -> None:
    listed(monkeypatch, *jobs)

    with pytest.raises(StateError, match="does not run yet"):
        run_in_first_job(WORDS)


def test_after_its_end_the_store_is_free_and_no_supervisor_starts(
    typed, monkeypatch, capsys
) -> None:
    listed(monkeypatch)
    claim(home_directory(), Mount("/home", "nfs4"), ClaimingMachine("n7", "a", "b"))

    run_in_first_job(WORDS)

    assert typed == []
    assert os.environ[KEPT_VARIABLE] == "1"
    assert not (home_directory() / "machine").exists()
    assert "`workbench up --slurm --in-job` starts the next one." in capsys.readouterr().err


def test_it_is_said_in_which_job_supervisors_run_and_until_when(monkeypatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    listed(monkeypatch, replace(JOB, id="9", end=0.0))

    assert where_supervisors_run([JOB]).startswith("The supervisors run in job 12 on n7, until ")
    assert where_supervisors_run([]) == ""
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    said = where_supervisors_run([])
    assert said == "The supervisor runs in job 9, which has no time limit."


def test_settings_ask_for_the_job_on_a_login_node_alone(monkeypatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    asked = (("in_job", True),)

    assert PROVIDER.moves(asked)
    assert not PROVIDER.moves(())
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    assert not PROVIDER.moves(asked)
