"""The messages between the supervisor and a node's agent, and their wire format.

One message is one line of JSON. An agent begins with the node's facts. It ends with its input,
and the ranks that it watched go on: the next session starts another one, and asks again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from workbench.core.node.validation import built, fitted, parsed, take
from workbench.errors import MachineError

MOST_NBYTES = 1 << 16
MOST_SLOTS = 4_096  # a node says how many it has, and could say anything


@dataclass(frozen=True)
class Gpu:
    """One GPU, as its driver names it."""

    name: str
    nbytes: int


@dataclass(frozen=True)
class NodeFacts:
    """What a node is and has.

    Args:
        host: Its own name of itself.
        now: Its clock, in epoch seconds.
        cores: That a process of ours may use.
        nbytes: Of memory; ``free_nbytes`` of it could be had at once.
        gpu_error: Why there are no GPUs though there is a driver's tool; empty otherwise.
        versions: Distribution name to version.
        mpi: Its launcher's version line; empty when there is none.
        mpiexec: The launcher's path.
        nccl: Version of NCCL, or where it was found; empty when there is none.
        path: PATH of a command that is run there by ssh; ``library_path`` likewise.
        interfaces: Name and IPv4 address of each that is up, loopback left out.
        network_driver: Of the interface that carries the default route or else the first one.
        vendor: Whose machine it is, such as ``Amazon EC2``.
    """

    host: str
    now: float
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
        """Ranks that it carries: one a GPU, or one a core where there is no GPU."""
        return min(len(self.gpus) or max(1, self.cores), MOST_SLOTS)


@dataclass(frozen=True)
class AskFacts:
    """Tell the facts again."""


@dataclass(frozen=True)
class Watch:
    """Say when one of these processes is gone; one that is gone already is reported at once."""

    pids: tuple[int, ...]


@dataclass(frozen=True)
class Unwatch:
    """Say no more of these processes."""

    pids: tuple[int, ...]


@dataclass(frozen=True)
class Signal:
    """Send a signal to those of these processes that are watched and still the same."""

    pids: tuple[int, ...]
    number: int


@dataclass(frozen=True)
class Read:
    """Tell the end of a small file, such as what a crash left.

    Args:
        path: Absolute, or relative to the home of the user who logs in there.
        most_nbytes: No more than as many from its end.
        remove: Whether it is removed after that.
    """

    path: str
    most_nbytes: int = MOST_NBYTES
    remove: bool = False


@dataclass(frozen=True)
class Follow:
    """Tell what is in a file from ``offset`` on, and what is added to it, until ``Unfollow``."""

    path: str
    offset: int = 0


@dataclass(frozen=True)
class Unfollow:
    """Tell no more of a file."""

    path: str


@dataclass(frozen=True)
class Renew:
    """Let the cluster's lease run ``seconds`` from now.

    Args:
        folder: Where the lease keeps its state; empty for the usual place.
    """

    cluster: str
    seconds: float
    folder: str = ""


@dataclass(frozen=True)
class Heed:
    """Begin to ask the place for notices of interruption; asked again, tell all of them again."""


@dataclass(frozen=True)
class Alive:
    """A sign of life, every few seconds; ``now`` is the node's clock."""

    now: float


@dataclass(frozen=True)
class Gone:
    """These watched processes are gone, and are watched no more."""

    pids: tuple[int, ...]


@dataclass(frozen=True)
class Text:
    """The end of a file; empty when there is none."""

    path: str
    text: str


@dataclass(frozen=True)
class Added:
    """What a followed file holds next.

    Args:
        offset: Where the next one will begin.
    """

    path: str
    text: str
    offset: int


@dataclass(frozen=True)
class Renewed:
    """The lease runs as long as was asked for; or, with an ``error``, is as it was."""

    cluster: str
    seconds: float
    error: str = ""


@dataclass(frozen=True)
class Notice:
    """What the place has said that it will do with the node; reported once.

    Args:
        kind: ``terminate``, ``stop`` or ``hibernate``; or ``rebalance``, which is a
            recommendation to leave while there is no such notice.
        at: Epoch seconds at which it will be done, or was recommended.
    """

    kind: str
    at: float


Request = AskFacts | Watch | Unwatch | Signal | Read | Follow | Unfollow | Renew | Heed
Event = NodeFacts | Alive | Gone | Text | Added | Renewed | Notice

_REQUESTS = {
    kind.__name__: kind
    for kind in (AskFacts, Watch, Unwatch, Signal, Read, Follow, Unfollow, Renew, Heed)
}
_EVENTS = {kind.__name__: kind for kind in (NodeFacts, Alive, Gone, Text, Added, Renewed, Notice)}


def line_of(message: Request | Event) -> str:
    """Return a message as one line, with its end."""
    body = [type(message).__name__, asdict(message)]
    return json.dumps(body, separators=(",", ":")) + "\n"


def read_request(line: str) -> Request | None:
    """Return the request that a line holds; None when it holds none."""
    found: Request | None = _read(line, _REQUESTS)
    return found


def read_event(line: str) -> Event | None:
    """Return the event that a line holds; None when it holds none, such as a stray print."""
    found: Event | None = _read(line, _EVENTS)
    return found


def _read(line: str, kinds: dict[str, Any]) -> Any:
    try:
        name, body = take("message", fitted(list, parsed(line)), str, dict)
        return built(kinds[name], body) if name in kinds else None
    except MachineError:
        return None
