"""Ask the nodes of a cluster about snapshots, and bring them from one node to another."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from workbench.cloud.hosts.local_session import LocalSession
from workbench.cluster.node_agent import agent_of
from workbench.core.node.agent_protocol import (
    AgentRequest,
    AllSent,
    ListSnapshots,
    Manifest,
    Piece,
    ReceiveSnapshot,
    SendSnapshot,
    encode_path,
)
from workbench.core.recovery.snapshots import SnapshotManifest, decode_manifest, encode_manifest
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import MachineError, ProtocolError
from workbench.node.stream import Call, StreamLost

ANSWER_SECONDS = 30.0
# S3, or a shared disk, may take its time.
LONG_SECONDS = 1800.0
STALL_SECONDS = 60.0
MOST_MANIFESTS = 10_000

HERE = ""
"""This machine's key among the addresses of nodes."""
Reach = Callable[[Host], Session | None]


class Interruption:
    """Breaks calls off at once, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._is_set = False

    def add(self, call: Call) -> Call:
        """Break this call off as well."""
        with self._lock:
            self._calls.append(call)
            is_set = self._is_set
        if is_set:
            call.cancel()
        return call

    def set(self) -> None:
        """Break all calls off, those of later too."""
        with self._lock:
            self._is_set, calls = True, [*self._calls]
        for call in calls:
            call.cancel()


class SnapshotClient:
    """The snapshots on one node.

    Args:
        received: Called with the bytes of each piece that came.
    """

    def __init__(self, address: str, session: Session, received: Callable[[int], None]) -> None:
        self.address = address
        self._session, self.received = session, received

    def __repr__(self) -> str:
        return f"<SnapshotClient of {self.name}>"

    @property
    def name(self) -> str:
        """The name of its node, for messages."""
        return self.address or "this machine"

    def begin(self) -> None:
        """Start the node's agent, unless it runs."""
        agent_of(self._session)

    def call(self, request: AgentRequest, interruption: Interruption | None = None) -> Call:
        """Open a call."""
        call = agent_of(self._session).call(request)
        return interruption.add(call) if interruption else call

    def ask(
        self,
        request: AgentRequest,
        seconds: float = ANSWER_SECONDS,
        interruption: Interruption | None = None,
    ) -> None:
        """Have the node do something, and wait for it.

        Raises:
            StreamLost: It did not answer in time, or is gone.
            MachineError: It could not do it.
        """
        with self.name_errors():
            call = self.call(request, interruption)
            try:
                call.result(seconds)
            finally:
                call.cancel()

    def manifests(self, run: str, folder: str) -> list[SnapshotManifest]:
        """Return what the node has of a run.

        Raises:
            MachineError: It could not say it.
        """
        found: list[SnapshotManifest] = []
        with self.name_errors():
            call = self.call(ListSnapshots(run, encode_path(folder)))
            try:
                for message in call.messages(ANSWER_SECONDS):
                    if not isinstance(message, Manifest) or len(found) >= MOST_MANIFESTS:
                        raise ProtocolError("it sent what is not a list of snapshots")
                    found.append(decode_manifest(message.text))
            except ValueError as error:
                raise ProtocolError(f"it sent a manifest that cannot be used: {error}") from error
            finally:
                call.cancel()
        return [one for one in found if one.run == run]

    @contextlib.contextmanager
    def name_errors(self) -> Iterator[None]:
        """Add the node's name to errors of the body."""
        try:
            yield
        except StreamLost as error:
            raise StreamLost(f"{self.name}: {str(error).rstrip('.')}") from error
        except MachineError as error:
            raise MachineError(f"{self.name}: {str(error).rstrip('.')}") from error


def transfer(
    manifest: SnapshotManifest,
    source: SnapshotClient,
    source_folder: str,
    target: SnapshotClient,
    target_folder: str,
    *,
    share: float,
    interruption: Interruption | None = None,
) -> None:
    """Bring a snapshot from one node to another, through this process.

    Args:
        share: Of what the connection carries.

    Raises:
        Cancelled: It was interrupted.
        StreamLost: A node is gone, or sends nothing more.
        MachineError: The snapshot is damaged, or cannot be stored.
    """
    run, left = manifest.run, sum(file.nbytes for file in manifest.files)
    there = ReceiveSnapshot(run, encode_path(target_folder), encode_manifest(manifest))
    here = SendSnapshot(run, encode_path(source_folder), manifest.name, share)
    into = target.call(there, interruption)
    try:
        out = source.call(here, interruption)
        try:
            for piece in out.messages(STALL_SECONDS):
                left -= len(piece.data) if isinstance(piece, Piece) else left + 1
                if left < 0:
                    with source.name_errors():
                        raise ProtocolError(f"it sent more than there is of {manifest.name}")
                source.received(len(piece.data))
                into.send(piece, STALL_SECONDS)
        finally:
            out.cancel()
        into.flush()
        into.post(AllSent())
        into.result(LONG_SECONDS)
    finally:
        into.cancel()


class SnapshotClients:
    """The snapshots on all nodes of a cluster.

    Args:
        reach: Returns the session with a host; None for this machine.
        here: The session with this machine; else one of its own is opened when it is needed.
    """

    def __init__(self, reach: Reach, here: LocalSession | None = None) -> None:
        self._reach = reach
        self._lock = threading.Lock()
        self._received: Counter[str] = Counter()
        self._here = here
        self._own: LocalSession | None = None

    def of(self, address: str) -> SnapshotClient:
        """Return what asks a node.

        Raises:
            MachineError: The node cannot be reached.
        """
        session = self.session(address)
        if not session.is_open:
            raise MachineError(f"There is no session with {address}")

        def received(nbytes: int) -> None:
            with self._lock:
                self._received[address] += nbytes

        return SnapshotClient(address, session, received)

    def start(self, addresses: Iterable[str]) -> None:
        """Start the agents of nodes at the same time, where they can be reached, for requests."""
        for address in addresses:
            with contextlib.suppress(MachineError):  # the request meets the same error
                self.of(address).begin()

    def take_received(self) -> dict[str, int]:
        """Return the bytes received from each other node since the last call; on any thread."""
        with self._lock:
            received, self._received = self._received, Counter()
        return {address: nbytes for address, nbytes in received.items() if address != HERE}

    def close(self) -> None:
        """End what was started on this machine; sessions with others are not closed here."""
        if self._own is not None:
            self._own.close()

    def session(self, address: str) -> Session:
        """Return the session with a node, which may be lost."""
        session = self._reach(Host(address, 1)) if address != HERE else None
        if session is not None:
            return session
        if self._here is None:
            self._here = self._own = LocalSession(Host("localhost", 1), Path.home())
        return self._here
