"""The messages between the supervisor and a node's agent, and their wire format.

One message is one line of JSON. An agent first sends the node's facts. It ends with its input, and
the ranks that it watched continue: the next session starts another agent, and asks again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any, get_args

from workbench.core.node.validation import (
    Between,
    Moment,
    Path,
    Pid,
    WaitStatus,
    built,
    fitted,
    parsed,
    take,
)
from workbench.errors import MachineError

MOST_NBYTES = 1 << 16
MOST_SLOTS = 4_096  # a node reports its slots, and is not trusted


@dataclass(frozen=True)
class Gpu:
    """One GPU as named by its driver."""

    name: str
    nbytes: int


@dataclass(frozen=True)
class NodeFacts:
    """The hardware and the software of a node.

    Args:
        host: The node's own name.
        now: Its clock, in epoch seconds.
        cores: Cores that our processes may use.
        nbytes: Size of its memory; ``free_nbytes`` of it are available.
        gpu_error: Why a driver's tool reports no GPU; empty otherwise.
        versions: Distribution name to version.
        mpi: Version line of its MPI launcher; empty if there is none.
        mpiexec: Path of the launcher.
        nccl: Version of NCCL, or where it was found; empty if there is none.
        path: PATH of a command that is run there by ssh; ``library_path`` likewise.
        interfaces: Name and IPv4 address of each active interface but loopback.
        network_driver: Driver of the interface with the default route, or else of the first one.
        vendor: Vendor of the machine, such as ``Amazon EC2``.
    """

    host: str
    now: Moment
    user: str = ""
    cores: int = 0
    nbytes: int = 0
    free_nbytes: int = 0
    gpus: tuple[Gpu, ...] = ()
    gpu_error: str = ""
    python: str = ""
    executable: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    mpi: str = ""
    mpiexec: str = ""
    nccl: str = ""
    path: str = ""
    library_path: str = ""
    interfaces: tuple[tuple[str, str], ...] = ()
    network_driver: str = ""
    vendor: str = ""

    @property
    def slots(self) -> int:
        """Ranks that it carries: one per GPU, or one per core without GPUs."""
        return min(len(self.gpus) or max(1, self.cores), MOST_SLOTS)


@dataclass(frozen=True)
class AskFacts:
    """Request the facts again."""


@dataclass(frozen=True)
class Watch:
    """Request a message when one of these processes ends; at once if it has ended already."""

    pids: tuple[Pid, ...]


@dataclass(frozen=True)
class Unwatch:
    """Stop watching these processes."""

    pids: tuple[Pid, ...]


@dataclass(frozen=True)
class Signal:
    """Send a signal to those of these processes that are watched and unchanged."""

    pids: tuple[Pid, ...]
    number: Annotated[int, Between(1, 64)]


@dataclass(frozen=True)
class Read:
    """Request the end of a small file, such as the trace of a crash.

    Args:
        path: Absolute, or relative to the home of the user who logs in there.
        most_nbytes: Largest number of bytes from its end.
        remove: Whether to delete it afterwards.
    """

    path: Path
    most_nbytes: int = MOST_NBYTES
    remove: bool = False


@dataclass(frozen=True)
class Follow:
    """Request the content of a file from ``offset`` on, and its growth, until ``Unfollow``."""

    path: Path
    offset: int = 0


@dataclass(frozen=True)
class Unfollow:
    """Stop following a file."""

    path: Path


@dataclass(frozen=True)
class Renew:
    """Renew the cluster's lease for ``seconds`` from now.

    Args:
        folder: Where the lease keeps its state; empty for the default.
    """

    cluster: str
    seconds: float
    folder: str = ""


@dataclass(frozen=True)
class Heed:
    """Query the provider for interruption notices from now on; repeated, send all again."""


@dataclass(frozen=True)
class Alive:
    """A sign of life, every few seconds; ``now`` is the node's clock."""

    now: Moment


@dataclass(frozen=True)
class Gone:
    """These watched processes have ended, and are no longer watched."""

    pids: tuple[Pid, ...]


@dataclass(frozen=True)
class Text:
    """The end of a file; empty if there is none."""

    path: Path
    text: str


@dataclass(frozen=True)
class Added:
    """The next part of a followed file.

    Args:
        offset: Where the next part begins.
    """

    path: Path
    text: str
    offset: int


@dataclass(frozen=True)
class Renewed:
    """The lease was renewed; or, with an ``error``, it is unchanged."""

    cluster: str
    seconds: float
    error: str = ""


@dataclass(frozen=True)
class Notice:
    """A provider's notice about the node; sent once.

    Args:
        kind: ``terminate``, ``stop`` or ``hibernate``; or ``rebalance``, a recommendation to leave
            while there is no such notice. Others are ignored.
        at: Epoch seconds of the event, or of the recommendation.
    """

    kind: str
    at: Moment


@dataclass(frozen=True)
class Forks:
    """Where ranks of this node can be forked; sent once by the fork server's keeper.

    Args:
        path: Of the fork server's socket; empty where ranks start by themselves.
        stub: Path of the program that stands for a forked rank.
    """

    path: Path
    stub: Path


@dataclass(frozen=True)
class RankEnded:
    """A forked rank has ended, with this wait status."""

    pid: Pid
    status: Annotated[int, WaitStatus()]


@dataclass(frozen=True)
class LogLine:
    """A sentence of the node for the supervisor's log."""

    text: str


Request = AskFacts | Watch | Unwatch | Signal | Read | Follow | Unfollow | Renew | Heed
Event = NodeFacts | Alive | Gone | Text | Added | Renewed | Notice | Forks | RankEnded | LogLine

_REQUESTS = {kind.__name__: kind for kind in get_args(Request)}
_EVENTS = {kind.__name__: kind for kind in get_args(Event)}


def line_of(message: Request | Event) -> str:
    """Return a message as one line with its line end."""
    body = [type(message).__name__, asdict(message)]
    return json.dumps(body, separators=(",", ":")) + "\n"


def read_request(line: str) -> Request | None:
    """Return the request in a line; None if there is none."""
    found: Request | None = _read(line, _REQUESTS)
    return found


def read_event(line: str) -> Event | None:
    """Return the event in a line; None if there is none, as in a stray print."""
    found: Event | None = _read(line, _EVENTS)
    return found


def _read(line: str, kinds: dict[str, Any]) -> Any:
    try:
        name, body = take("message", fitted(list, parsed(line)), str, dict)
        return built(kinds[name], body) if name in kinds else None
    except MachineError:
        return None
