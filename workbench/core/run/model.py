"""A run's desired state (wish) and observed state (fact), as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from unicodedata import category

from workbench.core.cluster.model import DEFAULT_CLUSTER
from workbench.core.quote import quote_value
from workbench.core.run.origin import NOWHERE, Origin
from workbench.core.run.run_options import NO_OPTIONS, RunOptions
from workbench.core.run_id import execution_id
from workbench.errors import InputError

MOST_NAME = 80
MOST_USUAL = 60  # characters of a name that was not chosen


class RunKind(StrEnum):
    """What a run executes on every rank."""

    CELL = "cell"
    SCRIPT = "script"
    SETUP = "setup"
    MEASUREMENT = "measurement"
    REPLAY = "replay"

    @property
    def prepares(self) -> bool:
        """Whether it only brings ranks to where a run can begin, and was not requested itself."""
        return self in (RunKind.SETUP, RunKind.REPLAY)


class RunState(StrEnum):
    """The state of a run."""

    QUEUED = "queued"
    SUBMITTED = "submitted"
    RUNNING = "running"
    STOPPING = "stopping"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self in ENDED


ENDED = frozenset({RunState.FINISHED, RunState.FAILED, RunState.STOPPED, RunState.LOST})


@dataclass(frozen=True)
class RunWish:
    """One cell or script, to be run on every rank.

    Args:
        id: Unique over machines; see ``new_run_id``.
        name: Name for the user; unique among the runs of the store.
        source: The cell's text, or the script's text.
        path: The script's absolute path; empty for a cell.
        folder: The working directory of every rank; empty to leave it as it is.
        options: What its user chose.
        stop: Whether a stop was requested.
        setup: The set-up cell's own name; empty for every other run.
        replays: The id of the run that it repeats; empty for every other run.
        origin: Where it was requested.
    """

    id: str
    name: str
    kind: RunKind
    source: str
    cluster: str = DEFAULT_CLUSTER
    path: str = ""
    folder: str = ""
    options: RunOptions = NO_OPTIONS
    created: float = 0.0
    stop: bool = False
    setup: str = ""
    replays: str = ""
    origin: Origin = NOWHERE

    @property
    def is_process(self) -> bool:
        """Whether it is a script, also where it is repeated: its ranks begin and end with it."""
        return bool(self.path)

    @property
    def restarts(self) -> bool:
        """Whether it is a script that is started again from its top, as torchrun's users do.

        Such a script loads the newest checkpoint of its own at its start. It has no snapshots of
        ours: after a loss, a notice or a resize it is started again on the new ranks, and never
        beside the old ones, which may still write a checkpoint.
        """
        return self.kind is RunKind.SCRIPT and self.options.restart


@dataclass(frozen=True)
class RunFact:
    """The observed state of a run.

    Args:
        ranks: World size it ran on; 0 before it was submitted.
        started: Epoch seconds at which the first rank began; 0 before.
        ended: Epoch seconds at which the run ended; 0 before.
        iteration: Iterations done, by the rank that is furthest.
        iterations_total: Total iterations; 0 if unknown.
        epoch: Epochs done (fractional).
        epochs_total: Total epochs; 0 if unknown.
        failed_rank: The first rank that failed; -1 if none did.
        error: That rank's own traceback.
        message: The whole message for the user, in sentences.
        failure: The last line of that rank's own error; empty in old rows.
        stopped_at: The iteration at which it was stopped; -1 if it was not, or in old rows.
        remark: The rest of ``message``: why it was stopped, and what is lost.
        hang: Which rank waits for which, now or at the end, as encoded by ``core.run.hang``.
        traceback: The failed rank's own traceback with the frames that ``error`` leaves out.
        attempt: 1 for the run's first start, and one more for each time that it was resumed.
        resumed_at: The iteration of the snapshot that the attempt continues from, once its ranks
            have read it; -1 before, and in a first attempt. Of a script that is started again, the
            one before the first that rank 0 reports.
        resumed: Epoch seconds at which that was reported; 0 before.
        ranks_before: Number of ranks of the attempt before; 0 in a first attempt.
        hindrance: Why it could not leave its ranks for others now, in sentences; empty if it could.
        trained_before: Seconds that the earlier attempts took, without waiting between them.
    """

    id: str
    state: RunState = RunState.QUEUED
    generation: int = 0
    ranks: int = 0
    started: float = 0.0
    ended: float = 0.0
    iteration: int = 0
    iterations_total: int = 0
    epoch: float = 0.0
    epochs_total: float = 0.0
    failed_rank: int = -1
    failed_host: str = ""
    error: str = ""
    message: str = ""
    failure: str = ""
    stopped_at: int = -1
    remark: str = ""
    hang: str = ""
    traceback: str = ""
    attempt: int = 1
    resumed_at: int = -1
    resumed: float = 0.0
    ranks_before: int = 0
    trained_before: float = 0.0
    hindrance: str = ""


@dataclass(frozen=True)
class Run:
    """A run's wish and fact together."""

    wish: RunWish
    fact: RunFact

    @property
    def id(self) -> str:
        """The run's id."""
        return self.wish.id

    @property
    def execution(self) -> str:
        """The id of its present attempt, which its ranks' messages have."""
        return execution_id(self.wish.id, self.fact.attempt)

    def __repr__(self) -> str:
        return f"<Run {self.wish.name}: {self.fact.state}, iteration {self.fact.iteration}>"


@dataclass(frozen=True)
class Assignment:
    """The execution of a run on one generation.

    Args:
        environment: Variables that are set for as long as it lasts; None for one that is not set.
        ranks: World size.
        directory: Folder of the rank's append-only log of this run.
        master_port: A port on rank 0's host that ``torch.distributed`` may listen on.
        data: Folder of the data on each rank; ``~`` is the rank's own home.
        output: Folder for the run's output, likewise; created by the rank.
        attempt: 1 for the run's first start, and one more for each time that it was resumed.
        snapshots: Folder for the run's snapshots on each rank's host, likewise; empty for none.
        resume: Whether the run continues from its newest complete snapshot.
        begins_again: Whether it begins at iteration 0 if there is none.
        insists: Whether it ends with an error if none can be read: its user has resumed it.
        losses: How often the run has lost its ranks.
        lived: Seconds from its first attempt's beginning until its last one's end.
        continues: Folder of the rank's logs of that run if this execution waits at the edge of its
            training, to continue as the run's next attempt; empty otherwise.
        is_beside: Whether its ranks are beside those of other runs on the same hosts.
    """

    wish: RunWish
    environment: tuple[tuple[str, str | None], ...] = ()
    ranks: int = 0
    directory: str = ""
    master_port: int = 0
    data: str = ""
    output: str = ""
    attempt: int = 1
    snapshots: str = ""
    resume: bool = False
    begins_again: bool = False
    insists: bool = False
    losses: int = 0
    lived: float = 0.0
    continues: str = ""
    is_beside: bool = False

    @property
    def execution(self) -> str:
        """The id of this attempt, which the messages of its ranks have."""
        return execution_id(self.wish.id, self.attempt)

    @property
    def is_restart(self) -> bool:
        """Whether a script starts again here that loads its own state."""
        return self.attempt > 1 and self.wish.options.restart


def only_printed(run: Run, has_values: bool) -> bool:
    """Return whether ``run`` is a cell or script that finished without a value to draw.

    Args:
        has_values: Whether it reported any.
    """
    is_measurement = run.wish.kind is RunKind.MEASUREMENT
    return run.fact.state is RunState.FINISHED and not has_values and not is_measurement


def length(seconds: float) -> str:
    """Return a length of time in its largest whole unit, such as ``7 d``."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def check_run_name(name: str) -> str:
    """Return ``name`` if it is valid.

    Raises:
        InputError: The name is empty, too long or has characters that break a listing.
    """
    if not (0 < len(name) <= MOST_NAME and name[0].isalnum() and all(map(_is_of_a_name, name))):
        raise InputError(
            f"{quote_value(name)} cannot name a run",
            f"use 1 to {MOST_NAME} letters and digits of any script, spaces or any of _ . + = -, "
            "with a letter or digit first.",
        )
    return name


def usual_name(path: str) -> str:
    """Return the name of a run that was given none: its script's, or ``cell``.

    Args:
        path: The script's path; empty for a cell.
    """
    stem = PurePath(path).stem
    name = "".join(one if _is_of_a_name(one) else "-" for one in stem)
    while name and not name[0].isalnum():
        name = name[1:]
    return name[:MOST_USUAL].rstrip(" -") or ("script" if path else "cell")


def _is_of_a_name(character: str) -> bool:
    # Many scripts write vowels as marks on a letter.
    return category(character)[0] in "LMN" or character in " _.+=-"


def check_restart(kind: RunKind, *, restart: bool) -> None:
    """Refuse the choice for a cell, which is not started again.

    Raises:
        InputError: It is chosen for a cell.
    """
    if restart and kind is not RunKind.SCRIPT:
        raise InputError(
            f"--restart is for scripts that load their own checkpoints, and this is a {kind}",
            "save the cell as a script, or leave --restart out.",
        )


def torchelastic_environment(run: Run) -> tuple[tuple[str, str], ...]:
    """Return the variables with which torchrun reports restarts; none for other runs.

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html, "Environment Variables".
    """
    if not run.wish.restarts:
        return ()
    return (
        ("TORCHELASTIC_RUN_ID", run.id),
        ("TORCHELASTIC_RESTART_COUNT", str(run.fact.attempt - 1)),
        ("TORCHELASTIC_MAX_RESTARTS", str(run.wish.options.retries)),
    )
