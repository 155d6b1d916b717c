"""The first job: where login nodes forbid long processes, the supervisors run in a job of one core.

Run as ``python -m workbench.cloud.slurm.first_job`` in that job; standard input has its settings.
The store is on a disk that the node shares with the login node, and one machine at a time uses it:
commands that are typed on the login node run as a step of the job. Before the job's time is over,
it asks for the next one, and leaves the store to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

from workbench.cloud.slurm.commands import command_environment, list_jobs, logs_folder, run_slurm
from workbench.cloud.slurm.texts import (
    JOB_VARIABLE,
    RUNNING,
    SlurmJob,
    describe_end,
    number,
)
from workbench.core.messages import decode
from workbench.errors import CloudError, MachineError, StateError
from workbench.node.launch import adopt_orphans, end_children
from workbench.store.claim import give_up
from workbench.store.paths import ELSEWHERE_NAME, KEPT_VARIABLE, home_path, owner_id, write_private

SECONDS, LOOK_SECONDS = 1.0, 30.0
# The next job is asked for so long before, and takes over when it runs; at the latest, this one
# leaves the store so long before its end.
AHEAD_SECONDS, LEAVE_SECONDS = 1800.0, 60.0
TERMINATED = 143
T = TypeVar("T")
AGAIN = "`workbench up --slurm --in-job` starts the next one"


@dataclass(frozen=True)
class FirstJob:
    """The settings of a first job.

    Args:
        home: The folder of workbench's data.
        words: Options of `sbatch`.
        former: Id of the job that it follows, and the name of its node; empty for the very first.
    """

    home: str
    words: tuple[str, ...]
    former: str = ""
    former_node: str = ""


def start_first_job(words: Sequence[str], say: Callable[[str], object]) -> None:
    """Ask for the job in which supervisors run, and wait until it does; none is asked for twice.

    Nothing is done inside of a job: supervisors run there anyway.

    Args:
        words: Options of `sbatch`.
        say: Shows a sentence.

    Raises:
        CloudError: Slurm refuses it.
        MachineError: It ended at once.
    """
    if JOB_VARIABLE in os.environ:
        return
    marker = home_path() / ELSEWHERE_NAME
    found = _find_jobs()
    if not found:
        settings = FirstJob(str(home_path()), tuple(words))
        give_up(home_path(), socket.gethostname())
        write_private(marker, "slurm")
        try:
            id_ = _submit(settings)
        except CloudError:
            marker.unlink()
            raise
        say(f"The supervisors run in job {id_} of one core, because login nodes may forbid them.")
    waits, due = "", 0.0
    while len(_read_marker()) < 3:
        if time.monotonic() >= due:
            due = time.monotonic() + LOOK_SECONDS
            found = _find_jobs()
            if not found:
                marker.unlink(missing_ok=True)
                raise MachineError(
                    "The job of the supervisors ended at once",
                    f"its last words are in the newest file of {logs_folder()}.",
                )
            if found[0].waits not in ("", waits):
                waits = found[0].waits
                say(waits)
        time.sleep(SECONDS / 2)
    say(where_supervisors_run(_find_jobs()))


def run_in_first_job(words: Sequence[str]) -> None:
    """Run a command in the job of the supervisors; return only if it is this one, or is gone.

    Raises:
        StateError: The job waits in the queue.
    """
    found = _find_jobs()
    noted = _read_marker()
    job = next((one for one in found if one.state in RUNNING and one.id == noted[-1]), None)
    if job is not None and os.environ.get(JOB_VARIABLE) == job.id:
        os.environ[KEPT_VARIABLE] = "1"  # what a step starts ends with it
        return
    if job is None and found:
        raise StateError(
            f"The supervisors' job does not run yet: {found[0].waits or 'it is starting.'}",
            f"wait for it, or give it up with `scancel {found[0].id}`.",
        )
    os.environ[KEPT_VARIABLE] = "1"
    if job is None:
        give_up(home_path(), *noted[1:2] or [socket.gethostname()])
        print(f"The job in which the supervisors ran has ended; {AGAIN}.", file=sys.stderr)
        return
    is_typed = all(stream.isatty() for stream in (sys.stdin, sys.stdout))
    command = [
        "srun", f"--jobid={job.id}", "--overlap", "--nodes=1", "--ntasks=1", "--quiet",
        *(["--pty"] if is_typed else ["--unbuffered"]), *words,
    ]  # fmt: skip
    clean = command_environment() | {n: os.environ[n] for n in ("LC_ALL", "TZ") if n in os.environ}
    os.execvpe(command[0], command, clean | {KEPT_VARIABLE: "1"})


def where_supervisors_run(jobs: Sequence[SlurmJob]) -> str:
    """Return in which job supervisors run that are started from here, as a sentence; or empty."""
    inside = os.environ.get(JOB_VARIABLE)
    first = next((one for one in jobs if one.state in RUNNING), None)
    if first is not None:
        return (
            f"The supervisors run in job {first.id} on {first.batch_host}, "
            f"{describe_end(first.end)}; the next such job is asked for before."
        )
    if not inside:
        return ""
    here = next(iter(list_jobs("-j", inside)), None)
    return f"The supervisor runs in job {inside}, {describe_end(here.end)}." if here else ""


def say_where() -> str:
    """Return in which job supervisors run that are started from here, as a sentence; or empty."""
    return where_supervisors_run(_find_jobs())


def main() -> None:
    """Keep the supervisors awake in this job, until none has work or its time is over."""
    settings = decode(FirstJob, sys.stdin.read())
    os.environ["WORKBENCH_HOME"] = settings.home
    os.environ.pop(KEPT_VARIABLE, None)
    job = os.environ[JOB_VARIABLE]
    if not (home_path() / ELSEWHERE_NAME).exists():
        sys.exit(f"{settings.home} is not there on {socket.gethostname()}: put WORKBENCH_HOME on "
                 "a disk that the nodes share with the login node.")  # fmt: skip
    # What a supervisor starts stays a descendant, so that Slurm ends it, and so does this process.
    adopt_orphans()
    while settings.former and any(one.id == settings.former for one in _ask(_find_jobs)):
        time.sleep(LOOK_SECONDS / 3)
    give_up(home_path(), settings.former_node)
    write_private(home_path() / ELSEWHERE_NAME, f"slurm {socket.gethostname()} {job}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # Slurm takes the job
    keeper = subprocess.Popen([sys.executable, "-m", "workbench.supervisor.wake"])
    try:
        is_over = _wait(keeper, replace(settings, former=job, former_node=socket.gethostname()))
    finally:
        end_children()
    if is_over:
        (home_path() / ELSEWHERE_NAME).unlink(missing_ok=True)
        give_up(home_path(), socket.gethostname())
        for one in _find_jobs():
            if one.id != job:
                run_slurm(["scancel", one.id])


def _wait(keeper: subprocess.Popen[bytes], following: FirstJob) -> bool:
    """Wait until nothing is left to do, and return true; or until the next job is to follow."""
    [here] = _ask(lambda: list_jobs("-j", following.former))
    ahead = min(AHEAD_SECONDS, (here.end - here.start) / 3)
    follower, due = "", 0.0
    while keeper.poll() is None:
        time.sleep(SECONDS)
        left = here.end - time.time() if here.end else AHEAD_SECONDS * 2
        if left <= min(LEAVE_SECONDS, ahead / 2):
            return False
        if left > ahead or time.monotonic() < due:
            continue
        due = time.monotonic() + LOOK_SECONDS
        with contextlib.suppress(CloudError):  # it is tried again
            follower = follower or _submit(following)
            if any(one.id == follower and one.state in RUNNING for one in _find_jobs()):
                return False
    return keeper.returncode == 0


def _ask(question: Callable[[], T]) -> T:
    """Return what Slurm answers, as soon as it does."""
    while True:
        with contextlib.suppress(CloudError):
            return question()
        time.sleep(LOOK_SECONDS)


def _submit(settings: FirstJob) -> str:
    logs = logs_folder()
    command = [
        "sbatch", "--parsable", f"--job-name={_name()}", "--nodes=1", "--ntasks=1", "--no-requeue",
        f"--chdir={Path.home()}", f"--output={logs}/%j.log", *settings.words,
    ]  # fmt: skip
    words = f"exec {shlex.quote(sys.executable)} -m workbench.cloud.slurm.first_job"
    text = f"#!/bin/sh\n{words} <<'END'\n{json.dumps(asdict(settings))}\nEND\n"
    return run_slurm(command, text).strip().splitlines()[-1].partition(";")[0]


def _find_jobs() -> list[SlurmJob]:
    """Return the jobs of the supervisors that have not ended, the one that runs first."""
    found = list_jobs("-t", "PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING", "-n", _name())
    return sorted(found, key=lambda one: (one.state not in RUNNING, number(one.id)))


def _name() -> str:
    return f"workbench_{owner_id()}"


def _read_marker() -> list[str]:
    try:
        return (home_path() / ELSEWHERE_NAME).read_text(encoding="utf-8").split()
    except OSError:
        return []


if __name__ == "__main__":
    main()
