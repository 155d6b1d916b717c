"""Slurm's own commands: run with a clean environment, in UTC, and rarely."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from workbench.cloud.slurm.texts import JOBS, SlurmJob, read_jobs, refusal
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.world.world import is_foreign
from workbench.errors import CloudError
from workbench.store.paths import account_name

COMMAND_SECONDS = 60.0
LOGS = Path("~/.local/state/workbench/slurm")
# What a site or a person sets for the commands; everything else of Slurm's is of a job around us.
KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SBATCH_")


def command_environment() -> dict[str, str]:
    """Return the variables for a command, without those of a job that we may be in."""
    return {
        **{
            name: value for name, value in os.environ.items()
            if not is_foreign(name) or name.startswith(KEPT)
        },
        "TZ": "UTC",
        "LC_ALL": "C",
    }  # fmt: skip


def run_slurm(command: Sequence[str], text: str = "", *, errors: bool = False) -> str:
    """Run one of Slurm's commands, and return what it wrote.

    Args:
        text: Its standard input.
        errors: Whether what it wrote to standard error is returned too.

    Raises:
        CloudError: It is not there, does not answer, or refuses.
    """
    try:
        done = subprocess.run(
            [*command], input=text, capture_output=True, text=True, check=False,
            timeout=COMMAND_SECONDS, env=command_environment(),
        )  # fmt: skip
    except OSError as error:
        raise CloudError(
            f"Slurm's {command[0]} is not here ({error.strerror})",
            ErrorKind.CONFIGURATION,
            remedy="run workbench on a login node of the site, or inside a job.",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise CloudError(
            f"Slurm's {command[0]} did not answer within {COMMAND_SECONDS:g} s",
            ErrorKind.THROTTLING,
            remedy="it is tried again.",
        ) from error
    if done.returncode:
        raise refusal(command, done.stderr or done.stdout)
    return done.stdout + (done.stderr if errors else "")


def list_jobs(*more: str) -> tuple[SlurmJob, ...]:
    """Return this user's jobs, as far as more options of `squeue` choose them.

    Raises:
        CloudError: Slurm does not answer.
    """
    user = account_name(os.getuid())
    return read_jobs(run_slurm(["squeue", "-h", "-u", user, "-o", JOBS, *more]))


def logs_folder() -> Path:
    """Return the folder of what jobs print, created if necessary."""
    folder = LOGS.expanduser()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
