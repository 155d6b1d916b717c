"""What a person wants of a run, and what is so, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from workbench.core.cluster import DEFAULT_CLUSTER
from workbench.errors import InputError

DEFAULT_GRACE = 5.0
_NAME = re.compile(r"[A-Za-z0-9][\w .+=-]{0,79}")
_ID = re.compile(r"[0-9]{6}-[0-9]{6}-[a-z2-7]{4}")


class RunKind(StrEnum):
    """What a run executes on every rank."""

    CELL = "cell"
    SCRIPT = "script"
    SETUP = "setup"
    MEASUREMENT = "measurement"


class RunState(StrEnum):
    """Where a run stands."""

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
        """Whether nothing more will come."""
        return self in ENDED


ENDED = frozenset({RunState.FINISHED, RunState.FAILED, RunState.STOPPED, RunState.LOST})


@dataclass(frozen=True)
class RunWish:
    """One cell or script, to be run on every rank.

    Args:
        id: Unique over machines; see ``new_run_id``.
        name: What people call it; unique among the runs of the store.
        source: The cell's text, or the script's text.
        path: The script's absolute path; empty for a cell.
        folder: The working directory of every rank; empty to leave it as it is.
        arguments: The script's arguments.
        parameters: Names that are set on every rank before the cell runs.
        ranks: Ranks to run on; 0 for all of the generation.
        grace: Seconds between asking the ranks to stop and ending them.
        stop: Whether someone asked for the run to stop.
        wall_clock_limit: Seconds after which the run is stopped; 0 for none.
    """

    id: str
    name: str
    kind: RunKind
    source: str
    cluster: str = DEFAULT_CLUSTER
    path: str = ""
    folder: str = ""
    arguments: tuple[str, ...] = ()
    parameters: tuple[tuple[str, object], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    ranks: int = 0
    grace: float = DEFAULT_GRACE
    wall_clock_limit: float = 0.0
    created: float = 0.0
    stop: bool = False


@dataclass(frozen=True)
class RunFact:
    """What was last seen of a run.

    Args:
        ranks: World size it ran on; 0 before it was submitted.
        started: Epoch seconds at which the first rank began; 0 before.
        ended: Epoch seconds at which the run ended; 0 before.
        iteration: Iterations done, by the rank that is furthest.
        iterations_total: Iterations to do, 0 when unknown.
        epoch: Epochs done (fractional).
        epochs_total: Epochs to do, 0 when unknown.
        failed_rank: The first rank that failed; -1 when none did.
        error: That rank's own traceback.
        message: One sentence for the reader.
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


@dataclass(frozen=True)
class Run:
    """A run's wish and fact together."""

    wish: RunWish
    fact: RunFact

    @property
    def id(self) -> str:
        """The run's id."""
        return self.wish.id

    def __repr__(self) -> str:
        return f"<Run {self.wish.name}: {self.fact.state}, iteration {self.fact.iteration}>"


@dataclass(frozen=True)
class Assignment:
    """What one generation is told to execute.

    Args:
        directory: Where the rank keeps its append-only log of this run.
        master_port: A port on rank 0's host that ``torch.distributed`` may listen on.
        data: Where each rank finds the data, from its own home where it begins with ``~``.
        output: Where it leaves what is to be kept, likewise; made by the rank.
    """

    run: str
    kind: RunKind
    source: str
    path: str
    folder: str
    arguments: tuple[str, ...]
    parameters: tuple[tuple[str, object], ...]
    environment: tuple[tuple[str, str], ...]
    ranks: int
    directory: str
    master_port: int = 0
    data: str = ""
    output: str = ""


def length(seconds: float) -> str:
    """Return a length of time in the largest unit that it has one of, such as ``7 d``."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def check_run_name(name: str) -> str:
    """Return ``name``, or refuse it with the remedy.

    Raises:
        InputError: The name is empty, too long or has characters that break a listing.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a run; use 1 to 80 letters, digits, spaces or any of _ . + = -"
        )
    return name


def is_run_id(text: str) -> bool:
    """Whether ``text`` has the form of a run id (and so cannot leave its folder)."""
    return bool(_ID.fullmatch(text))
