"""The texts that Slurm's commands read and write, of versions 22.05 and later.

Their JSON differs from version to version; their ``%`` codes have stayed the same.
"""

from __future__ import annotations

import calendar
import json
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.quote import one_line
from workbench.errors import CloudError

JOBS = "%i|%T|%r|%N|%S|%e|%D|%C|%B|%P|%j|%k"
"""What `squeue` prints of a job; its comment comes last, because it may have any character."""
PARTITIONS = "%P|%a|%l|%D|%c|%m|%G|%C"
"""What `sinfo` prints of a partition's nodes that are alike."""
JOB_VARIABLE = "SLURM_JOB_ID"
"""Is set inside of a job."""
PREFIX = "workbench"
"""Begins the names of our jobs."""
UNKNOWN = frozenset({"", "N/A", "n/a", "NONE", "None", "INVALID", "UNLIMITED", "(null)", "Unknown"})
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",
                     "RESV_DEL_HOLD", "SPECIAL_EXIT"})  # fmt: skip
RUNNING = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
# What each end means to a reader; other states are shown as Slurm has them.
ENDS = {
    "PREEMPTED": "Slurm preempted its job",
    "TIMEOUT": "its job reached its time limit",
    "DEADLINE": "its job reached its deadline",
    "NODE_FAIL": "Slurm took it: node failure",
    "CANCELLED": "its job was cancelled",
    "OUT_OF_MEMORY": "its job needed more memory than it had asked for",
    "FAILED": "its job failed",
    "COMPLETED": "its job ended by itself",
}
TAKEN = frozenset({"PREEMPTED", "TIMEOUT", "DEADLINE"})
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_GPUS = re.compile(r"gpu(?::([^:,()]*))?:(\d+)")
_GROUP = re.compile(r"\[([^\]]*)\]")
_SECONDS = {"infinite": 0.0, "UNLIMITED": 0.0, "n/a": 0.0}
_MOST_NAMES = 4096

_PARTITION, _FEATURE = "name one that `sinfo` lists with --partition.", "correct --constraint."
_SMALLER = "ask for less with --vcpus, --memory, --gpus or --gres, or for another --partition."
NO_SITE = "configuration source"
"""Slurm's commands are installed here, and no more."""
NO_NODE = "unable to allocate"
NO_PROGRAM = "execve"
# A part of what `sbatch` says, the kind of the error, and the remedy.
_REFUSALS: tuple[tuple[str, ErrorKind, str], ...] = (
    ("invalid partition", ErrorKind.CONFIGURATION, _PARTITION),
    ("no partition specified", ErrorKind.CONFIGURATION, _PARTITION),
    ("not permitted to use this partition", ErrorKind.PERMISSION, _PARTITION),
    ("invalid feature", ErrorKind.CONFIGURATION, _FEATURE),
    ("invalid generic resource", ErrorKind.CONFIGURATION, "correct --gres or --gpus."),
    ("memory specification", ErrorKind.CONFIGURATION, "ask for less with --memory."),
    ("invalid account", ErrorKind.PERMISSION, "name one of yours with --account."),
    ("invalid qos", ErrorKind.PERMISSION, "correct --qos."),
    ("time limit", ErrorKind.CONFIGURATION, "ask for less with --walltime."),
    ("accounting/qos policy", ErrorKind.QUOTA, "ask for fewer nodes, or another --qos."),
    ("node configuration", ErrorKind.CONFIGURATION, _SMALLER),
    ("more processors", ErrorKind.CONFIGURATION, _SMALLER),
    ("node count", ErrorKind.CONFIGURATION, "ask for fewer nodes with --nodes."),
    ("invalid node name", ErrorKind.CONFIGURATION, "correct --sbatch."),
    ("unrecognized option", ErrorKind.CONFIGURATION, "correct --sbatch."),
    ("invalid option", ErrorKind.CONFIGURATION, "correct --sbatch."),
    (NO_SITE, ErrorKind.CONFIGURATION, "run workbench on a login node of the site."),
    (NO_NODE, ErrorKind.CAPACITY, "try again later."),
    (NO_PROGRAM, ErrorKind.CONFIGURATION, "install it on a disk that the nodes see."),
    ("permission denied", ErrorKind.PERMISSION, "ask the site whether you may submit jobs here."),
)


@dataclass(frozen=True)
class SlurmJob:
    """One job, as `squeue` prints it.

    Args:
        reason: Why it waits, in Slurm's word.
        names: Of its nodes.
        start: Epoch seconds at which it started, or is predicted to; 0 if unknown.
        end: Epoch seconds at which its time is over; 0 if unknown.
        count: Its nodes, or those that it asks for.
        cpus: Of all its nodes.
        comment: What we wrote, see ``comment_text``.
    """

    id: str
    state: str
    reason: str = ""
    names: tuple[str, ...] = ()
    start: float = 0.0
    end: float = 0.0
    count: int = 1
    cpus: int = 1
    batch_host: str = ""
    partition: str = ""
    name: str = ""
    comment: str = ""

    @property
    def tags(self) -> dict[str, str]:
        """The tags of our jobs; empty for another job."""
        try:
            found = json.loads(self.comment)
        except ValueError:
            return {}
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    @property
    def waits(self) -> str:
        """What it waits for, as a sentence; empty if it does not."""
        if self.state not in WAITING:
            return ""
        if self.state == "CONFIGURING":
            return "Slurm prepares its computers."
        then = f"; Slurm expects it to start about {_moment(self.start)}" if self.start else ""
        return f"Job {self.id} waits in Slurm's queue ({self.reason or 'no reason yet'}){then}."


@dataclass(frozen=True)
class Partition:
    """Nodes of a partition that are alike, as `sinfo` prints them.

    Args:
        is_usual: Whether jobs go there that name none.
        limit: The longest time of a job in seconds; 0 for no limit.
        memory: GiB of each node.
        gpus: Of each node.
        idle: CPUs that no job has.
    """

    name: str
    is_usual: bool
    is_up: bool
    limit: float
    nodes: int
    cpus: int
    memory: float
    gpus: int = 0
    gpu: str = ""
    idle: int = 0


def read_jobs(text: str) -> tuple[SlurmJob, ...]:
    """Return the jobs that `squeue` printed; other lines are left out."""
    found = []
    for line in text.splitlines():
        parts = line.strip().split("|", 11)
        if len(parts) == 12 and parts[0]:
            id_, state, reason, names, start, end, count, cpus, host, partition, name, note = parts
            found.append(
                SlurmJob(
                    id_, state.split()[0] if state else "", "" if reason in UNKNOWN else reason,
                    expand(names), epoch(start), epoch(end), number(count) or 1, number(cpus) or 1,
                    "" if host in UNKNOWN else host, partition, name, note,
                )
            )  # fmt: skip
    return tuple(found)


def read_partitions(text: str) -> tuple[Partition, ...]:
    """Return what `sinfo` printed of partitions; other lines are left out."""
    found = []
    for line in text.splitlines():
        parts = line.strip().split("|")
        if len(parts) == 8:
            name, up, limit, nodes, cpus, mebibytes, gres, use = parts
            gpus = _GPUS.search(gres)
            idle = use.split("/")
            found.append(
                Partition(
                    name.rstrip("*"), name.endswith("*"), up == "up", duration(limit),
                    number(nodes), number(cpus), number(mebibytes) / 1024,
                    int(gpus[2]) if gpus else 0, (gpus[1] or "GPU") if gpus else "",
                    number(idle[1]) if len(idle) == 4 else 0,
                )
            )  # fmt: skip
    return tuple(found)


def read_start(text: str) -> float:
    """Return when `sbatch --test-only` expects a job to start, in epoch seconds; 0 if unknown."""
    found = re.search(rf"to start at ({_TIME.pattern})", text)
    return epoch(found[1]) if found else 0.0


def describe_start(start: float, now: float) -> str:
    """Return when Slurm expects to start a job, as a sentence."""
    if not start:
        return "Slurm does not say when it would start the job."
    at = "now" if start <= now + 60 else f"about {_moment(start)}"
    return f"Slurm would start the job {at}."


def describe_end(end: float) -> str:
    """Return until when a job runs, as the end of a sentence."""
    return f"until {_moment(end)}" if end else "which has no time limit"


def read_setting(text: str, name: str) -> str:
    """Return a setting that `scontrol show` printed; empty if it is not there."""
    found = re.search(rf"^(?:.* )?{re.escape(name)}(?: *= +|=)(\S*)", text, re.MULTILINE)
    return "" if found is None or found[1] in UNKNOWN else found[1]


def expand(text: str) -> tuple[str, ...]:
    """Return the names of a list such as ``a[01-03,7],b``."""
    if text in UNKNOWN:
        return ()
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        pieces = _GROUP.split(part)
        choices = [_members(piece) if i % 2 else [piece] for i, piece in enumerate(pieces)]
        names += ["".join(chosen) for chosen in product(*choices)][:_MOST_NAMES]
    return tuple(names)


def epoch(text: str) -> float:
    """Return a time in UTC as Slurm prints it, in epoch seconds; 0 if it is unknown."""
    return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))) if (
        _TIME.fullmatch(text)
    ) else 0.0  # fmt: skip


def duration(text: str) -> float:
    """Return a limit such as ``2-12:00:00`` in seconds; 0 for none."""
    if text in _SECONDS or not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", text):
        return 0.0
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if days:  # days-hours:minutes:seconds
        parts = [*parts, 0, 0][:3]
    elif len(parts) < 3:  # minutes:seconds
        parts = [0, *parts, 0][:3]
    return float(int(days or 0) * 86400 + parts[0] * 3600 + parts[1] * 60 + parts[2])


def number(text: str) -> int:
    """Return the whole number with which a text such as ``4+`` begins; 0 for none."""
    found = re.match(r"\d+", text)
    return int(found[0]) if found else 0


def time_limit(seconds: float) -> str:
    """Return a time limit as `sbatch` reads it, in whole minutes."""
    minutes = max(1, round(seconds / 60))
    return f"{minutes // 1440}-{minutes // 60 % 24:02d}:{minutes % 60:02d}:00"


def job_name(cluster: str, token: str) -> str:
    """Return the name of a purchase's job: a repeated purchase is found by it."""
    return f"{PREFIX}-{cluster}-{token[:16]}"


def comment_text(tags: Iterable[tuple[str, str]]) -> str:
    """Return the comment of a job, which has its tags."""
    return json.dumps(dict(tags), separators=(",", ":"), sort_keys=True)


def job_script(python: str, settings: str) -> str:
    """Return the script of a job: an agent on each node, with ``settings`` as standard input.

    The step survives the loss of a node (``--no-kill``), of an agent (``--kill-on-bad-exit=0
    --wait=0``), and lets steps of the user's own run beside it (``--overlap``).
    """
    return (
        "#!/bin/sh\n"
        "cpus=$(echo \"$SLURM_JOB_CPUS_PER_NODE\" | tr ',' '\\n' | cut -d'(' -f1 | sort -n"
        " | head -n 1)\n"
        'exec srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" '
        '--ntasks-per-node=1 --cpus-per-task="$cpus" '
        "--overlap --no-kill --kill-on-bad-exit=0 --wait=0 "
        f"{shlex.quote(python)} -m workbench.cloud.slurm.job_agent <<'END'\n{settings}\nEND\n"
    )


def refusal(command: Sequence[str], said: str) -> CloudError:
    """Return the error for what a command of Slurm's said."""
    lines = [line for line in said.strip().splitlines() if line.strip()]
    last = one_line(lines[-1] if lines else "no message")
    text = re.sub(r"^\w+: (error: )?", "", last)
    for part, kind, remedy in _REFUSALS:
        if any(part in line.lower() for line in lines):
            line = next(line for line in lines if part in line.lower())
            why = re.sub(r"^\w+: (error: )?(Batch job submission failed: )?", "", one_line(line))
            return CloudError(f"Slurm refuses the job ({why.strip()})", kind, part, remedy=remedy)
    remedy = "it is tried again."
    return CloudError(f"Slurm's {command[0]} failed ({text})", ErrorKind.THROTTLING, remedy=remedy)


def _moment(epoch_seconds: float) -> str:
    return time.strftime("%a %H:%M", time.localtime(epoch_seconds))


def _members(text: str) -> list[str]:
    """Return the numbers of a range list such as ``01-03,7``, with their leading zeros."""
    found: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if last.isdigit() and first.isdigit():
            width = len(first)
            end = min(int(last), int(first) + _MOST_NAMES)
            found += [f"{i:0{width}d}" for i in range(int(first), end + 1)]
        else:
            found.append(part)
    return found
