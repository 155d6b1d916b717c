"""The messages between the supervisor and a node's agent; ``frames`` carries them.

A request opens a call. What its docstring calls the reply ends it; the messages that it names come
and go until then. An agent ends with its input, and the ranks that it watched continue: the next
session starts another agent, and asks again.

Paths and the text of files are bytes, because a node's file names need not be valid text.
"""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Union

import msgspec
from msgspec import Meta

from workbench.core.messages import (
    PATH_NBYTES,
    Amount,
    BaseMessage,
    Count,
    Pid,
    Time,
    decode,
    unpack,
)
from workbench.core.node.staging import StagingEntry
from workbench.errors import ProtocolError

MOST_TEXT_NBYTES = 1 << 16
MOST_SLOTS = 4_096  # a node reports its slots, and is not trusted
PIECE_NBYTES = 256 << 10
FILES_AT_ONCE = 200  # a path may have 4 kB, and a frame 1 MB
NEEDED_AT_ONCE = 2_000

PathBytes = Annotated[bytes, Meta(max_length=PATH_NBYTES)]
TextBytes = Annotated[bytes, Meta(max_length=MOST_TEXT_NBYTES)]
RunId = Annotated[str, Meta(pattern=r"^[0-9]{6}-[0-9]{6}-[a-z2-7]{4}\Z")]
Address = Annotated[str, Meta(max_length=255)]
Port = Annotated[int, Meta(ge=1, lt=2**16)]
Token = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Digest = Annotated[str, Meta(max_length=64)]


class AgentMessage(BaseMessage, frozen=True, tag=True, array_like=True):
    """The base of all messages: an array that begins with the name of its class."""


class AgentRequest(AgentMessage, frozen=True):
    """The base of what opens a call."""


class ToNode(AgentMessage, frozen=True):
    """The base of what the supervisor says within a call."""


class FromNode(AgentMessage, frozen=True):
    """The base of what a node says."""


# -- the node


class NodeFacts(FromNode, frozen=True):
    """The hardware and the software of a node.

    Args:
        host: The node's own name.
        cores: Cores that our processes may use.
        gpus: The name of each, as its driver says.
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
    cores: Count = 0
    gpus: tuple[str, ...] = ()
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


class AskFacts(AgentRequest, frozen=True):
    """Ask for the node's facts; the reply is ``NodeFacts``."""


class ReadFile(AgentRequest, frozen=True):
    """Ask for the end of a small file, such as the trace of a crash; the reply is ``FileEnd``.

    Args:
        path: Absolute, or relative to the home of the user who logs in there.
        most_nbytes: Largest number of bytes from its end.
        remove: Whether to delete it afterwards.
    """

    path: PathBytes
    most_nbytes: Annotated[int, Meta(ge=0, le=MOST_TEXT_NBYTES)] = MOST_TEXT_NBYTES
    remove: bool = False


class FileEnd(FromNode, frozen=True):
    """The end of a file; empty if there is none."""

    text: TextBytes


class TakeOver(AgentRequest, frozen=True):
    """End the login before this one, which may still hold the cluster's ports; replies nothing.

    A node whose connection has broken does not notice it for minutes.

    Args:
        folder: The cluster's, absolute; it has the login of the session that served it last.
    """

    folder: PathBytes


class TryNode(AgentRequest, frozen=True):
    """Ask whether another node is there, from this one; the reply is ``NodeTried``."""

    address: Address
    port: Port


class NodeTried(FromNode, frozen=True):
    """Whether the other node's sshd has answered."""

    answers: bool


class RenewLease(AgentRequest, frozen=True):
    """Renew the cluster's lease for ``seconds`` from now.

    Args:
        folder: Where the lease keeps its state; empty for the default.
    """

    cluster: str
    seconds: Amount
    folder: str = ""


class WatchNotices(AgentRequest, frozen=True):
    """Query the provider for interruption notices, and send each as a ``Notice``; never ends."""


class Notice(FromNode, frozen=True):
    """A provider's notice about the node; sent once.

    Args:
        kind: ``terminate``, ``stop`` or ``hibernate``; or ``rebalance``, a recommendation to leave
            while there is no such notice. Others are ignored.
        at: Epoch seconds of the event, or of the recommendation.
    """

    kind: str
    at: Time


# -- its processes


class WatchProcesses(AgentRequest, frozen=True):
    """Take ``Watch``, ``Unwatch`` and ``Signal``, and send ``Gone``; never ends."""


class Watch(ToNode, frozen=True):
    """Request a message when one of these processes ends; at once if it has ended already."""

    pids: tuple[Pid, ...]


class Unwatch(ToNode, frozen=True):
    """Stop watching these processes."""

    pids: tuple[Pid, ...]


class Signal(ToNode, frozen=True):
    """Send a signal to those of these processes that are watched and unchanged."""

    pids: tuple[Pid, ...]
    number: Annotated[int, Meta(ge=1, le=64)]


class Gone(FromNode, frozen=True):
    """These watched processes have ended, and are no longer watched."""

    pids: tuple[Pid, ...]


class KeepForks(AgentRequest, frozen=True):
    """Keep a fork server until ``AllSent``, and send ``Forks``, ``RankEnded`` and ``LogLine``.

    Args:
        folder: Of its socket and its log; relative to the user's home.
    """

    folder: PathBytes


class Forks(FromNode, frozen=True):
    """Where ranks of this node can be forked; sent once by the fork server's keeper.

    Args:
        path: Of the fork server's socket; empty where ranks start by themselves.
        stub: Path of the program that stands for a forked rank.
    """

    path: Annotated[str, Meta(max_length=PATH_NBYTES)]
    stub: Annotated[str, Meta(max_length=PATH_NBYTES)]


class RankEnded(FromNode, frozen=True):
    """A forked rank has ended, with this wait status."""

    pid: Pid
    status: Annotated[int, Meta(ge=0, lt=1 << 16)]

    def __post_init__(self) -> None:
        """Refuse a status with which no process ends, by ``<sys/wait.h>``."""
        is_signal = 0 < self.status < 1 << 8 and 1 <= self.status & 0x7F <= 64
        if self.status & 0xFF and not is_signal:
            raise ValueError(f"{self.status} is not a wait status")


class LogLine(FromNode, frozen=True):
    """A sentence of the node for the supervisor's log."""

    text: Annotated[str, Meta(max_length=10_000)]


# -- files, in both directions


class Piece(ToNode, FromNode, frozen=True):
    """A part of a file, in order.

    Args:
        path: From the folder that is copied, with ``/`` between the names.
        data: Its next bytes.
        offset: Where they begin.
        digest: Of the whole file, if this is the last part; see ``copying``.
        run: The run whose output it is; empty for other files.
    """

    path: PathBytes
    data: Annotated[bytes, Meta(max_length=PIECE_NBYTES)]
    offset: Count = 0
    digest: Digest = ""
    run: Annotated[str, Meta(max_length=40)] = ""


class FileKept(ToNode, frozen=True):
    """A file of a run's output has come; or, with ``why``, it could not be kept."""

    run: RunId
    path: PathBytes
    why: str = ""


class AllSent(ToNode, frozen=True):
    """Nothing more is sent in this call, or in this round of files."""


# -- data, to the node


class StageData(AgentRequest, frozen=True):
    """Send data to a folder of the node, which then has these files and no older ones.

    The supervisor lists ``Files`` until ``Listed``. The node sends ``Needed`` until one is
    empty; then the supervisor sends these files, and ``AllSent``, or says ``TakeFrom``. The node
    answers with those that came damaged, or not at all, ``Damaged``, for another round, or with the
    reply. While it takes them from another node, it sends ``FetchProgress``.
    """

    folder: PathBytes


class GiveData(AgentRequest, frozen=True):
    """Give the data of a folder to other nodes that know the token, until the call is cancelled.

    The node first sends ``Giving``.
    """

    folder: PathBytes
    token: Token


class Giving(FromNode, frozen=True):
    """Where a node gives data: its own addresses, and a port.

    The data is not encrypted between nodes, as MPI's messages are not.
    """

    addresses: Annotated[tuple[Address, ...], Meta(max_length=64)]
    port: Port


class TakeFrom(ToNode, frozen=True):
    """Take the needed files from another node; see ``Giving``."""

    addresses: tuple[Address, ...]
    port: Port
    token: Token


class DataFile(BaseMessage, frozen=True, array_like=True):
    """One file of the data; see ``staging.StagingEntry``."""

    path: PathBytes
    nbytes: Count
    digest: Digest


class Files(ToNode, frozen=True):
    """A part of the list of files."""

    files: tuple[DataFile, ...]


class Listed(ToNode, frozen=True):
    """The list is complete."""


class Needed(FromNode, frozen=True):
    """Number and offset of files that the node lacks; the last one is empty."""

    files: tuple[tuple[Count, Count], ...]


class Damaged(FromNode, frozen=True):
    """The numbers of files that came damaged."""

    files: tuple[Count, ...]


class FetchData(AgentRequest, frozen=True):
    """Let the node fetch data from S3 by itself; it sends ``FetchProgress`` until the reply.

    Args:
        environment: Variables of this machine for its S3 client.
    """

    folder: PathBytes
    url: str
    environment: tuple[tuple[str, str], ...] = ()


class FetchProgress(FromNode, frozen=True):
    """Bytes that are there, bytes in all, and bytes per second."""

    done: Count
    total: Count
    rate: Amount


# -- output, from the node


class SendOutputs(AgentRequest, frozen=True):
    """Send the files of runs as they change, as ``Piece``, or to a bucket; never ends.

    The supervisor sends ``OutputBegun``, ``LogAdded``, ``KeyGiven``, ``OutputOver``, ``Flush`` and
    ``FileKept``; the node also ``KeyWanted``, ``Trouble``, ``OutputSent`` and ``Flushed``.

    Args:
        url: The bucket and prefix; empty to send the files to the supervisor.
    """

    url: str = ""
    environment: tuple[tuple[str, str], ...] = ()


class OutputBegun(ToNode, frozen=True):
    """A run writes to this folder of the node."""

    run: RunId
    folder: PathBytes


class LogAdded(ToNode, frozen=True):
    """Write into a file that we add to the run; offset 0 truncates it."""

    run: RunId
    name: str
    offset: Count
    text: bytes


class KeyWanted(FromNode, frozen=True):
    """The node requests the key of a run's file in the bucket."""

    run: RunId
    path: PathBytes


class KeyGiven(ToNode, frozen=True):
    """The key of a run's file in the bucket."""

    run: RunId
    path: PathBytes
    key: PathBytes


class OutputOver(ToNode, frozen=True):
    """A run has ended: what it left is complete."""

    run: RunId


class OutputSent(FromNode, frozen=True):
    """All output of a run that is over is sent."""

    run: RunId


class Flush(ToNode, frozen=True):
    """Send everything now, and say so with this number."""

    number: Count


class Flushed(FromNode, frozen=True):
    """All output that existed at the time of a request, by its number, is sent."""

    number: Count


class Trouble(FromNode, frozen=True):
    """Why files cannot be sent; empty once they can."""

    why: Annotated[str, Meta(max_length=100_000)]


# -- snapshots, in both directions


class ListSnapshots(AgentRequest, frozen=True):
    """Ask for the ``Manifest`` of each complete snapshot in a folder."""

    run: RunId
    folder: PathBytes


class Manifest(FromNode, frozen=True):
    """The manifest of a snapshot; see ``core.run.snapshots``."""

    text: str


class SendSnapshot(AgentRequest, frozen=True):
    """Ask for the files of a snapshot, as ``Piece``.

    Args:
        share: Of what the connection carries.
    """

    run: RunId
    folder: PathBytes
    name: str
    share: Annotated[float, Meta(gt=0, le=1)]


class ReceiveSnapshot(AgentRequest, frozen=True):
    """Send the files of a snapshot, then ``AllSent``; it is there once the reply comes."""

    run: RunId
    folder: PathBytes
    manifest: str


class StoreSnapshot(AgentRequest, frozen=True):
    """Store a snapshot of the node in a durable place."""

    place: str
    run: RunId
    folder: PathBytes
    name: str
    environment: tuple[tuple[str, str], ...] = ()


class FetchSnapshots(AgentRequest, frozen=True):
    """Claim a durable place for an attempt, and bring what it needs to the node."""

    place: str
    run: RunId
    folder: PathBytes
    attempt: Count
    environment: tuple[tuple[str, str], ...] = ()


class RemoveSnapshots(AgentRequest, frozen=True):
    """Remove a run's snapshots from the node, and from the durable place if there is one."""

    place: str
    run: RunId
    folder: PathBytes
    environment: tuple[tuple[str, str], ...] = ()


class LimitSnapshots(AgentRequest, frozen=True):
    """Remove the snapshots of the oldest ended runs beyond a share of the disk."""

    root: PathBytes
    share: Annotated[float, Meta(ge=0, le=1)]
    ended: tuple[str, ...]


REQUESTS: Any = Union[tuple(AgentRequest.__subclasses__())]  # noqa: UP007  # made of the classes
TO_NODE: Any = Union[tuple(ToNode.__subclasses__())]  # noqa: UP007  # likewise
FROM_NODE: Any = Union[tuple(FromNode.__subclasses__())]  # noqa: UP007  # likewise


def encode_message(message: AgentMessage) -> bytes:
    """Return the bytes of a message."""
    return msgspec.msgpack.encode(message)


def decode_request(data: bytes) -> AgentRequest:
    """Return what the supervisor asks.

    Raises:
        ProtocolError: It is not a request of this version.
    """
    found: AgentRequest = unpack(REQUESTS, data)
    return found


def decode_to_node(data: bytes) -> ToNode:
    """Return what the supervisor says within a call.

    Raises:
        ProtocolError: It is not a message of this version.
    """
    found: ToNode = unpack(TO_NODE, data)
    return found


def decode_from_node(data: bytes) -> FromNode:
    """Return what a node says.

    Raises:
        ProtocolError: It is not a message, or a value of it is out of its bounds.
    """
    found: FromNode = unpack(FROM_NODE, data)
    return found


def encode_path(path: str) -> bytes:
    """Return a path as bytes, also one that is not valid text."""
    return path.encode(errors="surrogateescape")


def decode_path(path: bytes) -> str:
    """Return the path that ``encode_path`` encoded."""
    return path.decode(errors="surrogateescape")


def facts_line(facts: NodeFacts) -> str:
    """Return the facts as one line of JSON, for a command that prints them."""
    return msgspec.json.encode(facts).decode() + "\n"


def read_facts(text: str) -> NodeFacts | None:
    """Return the facts in the output of a command; None if there are none."""
    for line in text.splitlines():
        with contextlib.suppress(ProtocolError):
            return decode(NodeFacts, line)
    return None


def encode_entries(entries: tuple[StagingEntry, ...]) -> Files:
    """Return a part of a list of files as a message."""
    return Files(tuple(DataFile(encode_path(e.path), e.nbytes, e.digest) for e in entries))


def decode_entries(files: Files) -> list[StagingEntry]:
    """Return the part of the list that ``encode_entries`` encoded."""
    return [StagingEntry(decode_path(file.path), file.nbytes, file.digest) for file in files.files]
