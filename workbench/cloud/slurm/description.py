"""What Slurm is as a provider: nodes are those of its jobs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workbench.cloud.slurm.texts import JOB_VARIABLE, time_limit
from workbench.core.fleet.form import HOUR, LEASE, LEASE_SECONDS, FieldKind, FormField, Settings
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.provider import NODE_OPTIONS, Provider
from workbench.core.option import DURATION, FLEET, Option
from workbench.core.option import PROVIDER as SECTION
from workbench.errors import InputError

IN_JOB = "in_job"
# What a job of ours says itself.
OURS = (
    "-J",
    "--job-name",
    "-N",
    "--nodes",
    "-n",
    "--ntasks",
    "-a",
    "--array",
    "--wrap",
    "--comment",
)


def check_word(text: str) -> None:
    """Check a word that becomes one of `sbatch`.

    Raises:
        ValueError: It is empty, or has a space.
    """
    if not text or text.split() != [text]:
        raise ValueError(f"one word, not {text!r}")


def check_options(text: str) -> None:
    """Check more options of `sbatch`.

    Raises:
        InputError: They cannot be read, or contradict what a job of ours has to have.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{text!r} cannot be read ({error})", "close its quotes.") from error
    for word in words:
        if word.partition("=")[0] in OURS:
            raise InputError(f"{word} is set by workbench itself", "leave it out.")


def check_walltime(seconds: float) -> None:
    """Check the time limit of a job.

    Raises:
        ValueError: It is too short for a node to start and to save.
    """
    if not 0 <= seconds < 366 * 86400 or 0 < seconds < 60:
        raise ValueError(f"at least 1 minute, not {seconds:g} s")


FIELDS = (
    FormField("partition", "Partition", "Slurm's partition", example="the site's usual one",
              is_folded=False, check=check_word),
    FormField("account", "Account", "Account that Slurm charges", example="physics",
              is_folded=False, check=check_word),
    FormField("qos", "QOS", "Slurm's quality of service", example="normal", check=check_word),
    FormField("constraint", "Constraint", "Features that each node has", example="a100&nvlink",
              check=check_word),
    FormField("gres", "GRES", "Generic resources of each node, such as GPUs of a kind",
              example="gpu:a100:2", check=check_word),
    FormField(
        "walltime", "Time limit, h", "Of each job; the next one is asked for before",
        FieldKind.NUMBER, scale=HOUR, is_folded=False, check=check_walltime,
        typed=Option(
            "walltime", "Time limit of each Slurm job; the next one is asked for before.",
            DURATION, on=FLEET, section=SECTION, shown="the partition's", example="4h",
        ),
    ),
    FormField("exclusive", "Whole nodes", "Ask for whole nodes, and be charged for them",
              FieldKind.SWITCH),
    FormField(
        IN_JOB, "Supervisor in a job",
        "Run the supervisor in a job of one core, for login nodes that forbid long processes",
        FieldKind.SWITCH,
    ),
    FormField("sbatch", "More options", "More options of sbatch, in quotes",
              example="--reservation=school", check=check_options),
    LEASE,
)  # fmt: skip


class SlurmSite(Provider):
    """A site whose nodes are those of Slurm's jobs."""

    def moves(self, settings: Settings) -> bool:
        """Return whether settings ask for the supervisors in a job, and this is none."""
        return bool(dict(settings).get(IN_JOB)) and JOB_VARIABLE not in os.environ

    def move(self, settings: Settings, say: Callable[[str], object]) -> None:
        """Ask for the job of the supervisors, and wait until it runs."""
        from workbench.cloud.slurm.first_job import start_first_job  # and Slurm's commands

        request = job_request(FleetWish(self.name, settings=settings))
        start_first_job(replace(request, gres="", constraint="", exclusive=False).words, say)

    def run_elsewhere(self, words: Sequence[str]) -> None:
        """Run a command in the job of the supervisors; return only if it is this one."""
        from workbench.cloud.slurm.first_job import run_in_first_job

        run_in_first_job(words)


PROVIDER = SlurmSite(
    name="slurm",
    label="Slurm",
    located="in Slurm's jobs",
    summary="Use nodes of Slurm's jobs, from a login node or from inside a job.",
    adapter="workbench.cloud.slurm.provider:open_slurm",
    flag="slurm",
    order=40,
    unit="core-hours",
    queues=True,
    common=NODE_OPTIONS | {"gpus", "memory", "vcpus", "budget"},
    fields=FIELDS,
    examines=True,
    program="sbatch",
)


@dataclass(frozen=True)
class JobRequest:
    """What a job asks for, beside its number of nodes.

    Args:
        walltime: Seconds; 0 for the partition's own limit.
        memory: GiB per node; 0 for Slurm's default.
        more: Options of the user's own, which come last.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    gres: str = ""
    walltime: float = 0.0
    cpus: int = 1
    memory: float = 0.0
    exclusive: bool = False
    more: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The options of `sbatch`; one that was not asked for is the site's to decide."""
        named = {
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "gres": self.gres,
            "time": time_limit(self.walltime) if self.walltime else "",
            "cpus-per-task": "" if self.exclusive else f"{self.cpus}",
            "mem": f"{self.memory * 1024:.0f}M" if self.memory else "",
        }
        words = [f"--{name}={value}" for name, value in named.items() if value]
        return [*words, *(["--exclusive"] if self.exclusive else []), *self.more]


def job_request(wish: FleetWish) -> JobRequest:
    """Return what each job of a wish asks for."""
    needs = wish.needs
    gres = wish.setting("gres", "") or (f"gpu:{needs.gpus}" if needs.gpus else "")
    return JobRequest(
        wish.setting("partition", ""),
        wish.setting("account", ""),
        wish.setting("qos", ""),
        wish.setting("constraint", ""),
        gres,
        wish.setting("walltime", 0.0),
        needs.vcpus or wish.slots or max(1, needs.gpus),
        needs.memory,
        wish.setting("exclusive", False),
        tuple(shlex.split(wish.setting("sbatch", ""))),
    )


def lease_of(wish: FleetWish) -> float:
    """Return for how many seconds nodes stay without the supervisor."""
    return wish.setting("lease", LEASE_SECONDS)
