"""The supervisor's side of the agents that keep the nodes' snapshots."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from workbench.cloud.hosts.local_session import LocalSession
from workbench.core.node.snapshot_protocol import (
    ASK,
    BEGIN,
    END,
    LIST,
    PIECE,
    SEND,
    TAKEN,
    Acknowledged,
    Answer,
    Failed,
    Piece,
    read_answer,
    texts,
)
from workbench.core.node.staging import is_bucket
from workbench.core.node.transfer_protocol import line
from workbench.core.recovery.snapshots import SnapshotManifest, decode_manifest, encode_manifest
from workbench.core.world.remote import RemoteProcess, Session, python_of
from workbench.core.world.world import Host
from workbench.errors import MachineError, ProtocolError, WorkbenchError
from workbench.supervisor.data.staging import bucket_environment

ANSWER_SECONDS = 30.0
# S3, or a shared disk, may take its time.
LONG_SECONDS = 1800.0
STALL_SECONDS = 60.0
LOOK_SECONDS = 0.005

HERE = ""
"""This machine's key among the addresses of nodes."""
AGENT = ("-m", "workbench.node.snapshot_agent")
Reach = Callable[[Host], Session | None]

Interrupted = Callable[[], bool]
"""Whether what is being done has to end at once."""


class Broken(MachineError):
    """An agent did not answer, or answered nonsense; it has to be started again."""


class SnapshotClient:
    """The snapshot agent on one node; it answers one request after another.

    Args:
        received: Called with the bytes of each piece that came.
    """

    def __init__(
        self,
        address: str,
        session: Session,
        process: RemoteProcess,
        received: Callable[[int], None],
    ) -> None:
        self.address = address
        self._session, self._process, self._received = session, process, received
        self._number = 0

    def __repr__(self) -> str:
        return f"<SnapshotClient of {self.name}>"

    @property
    def name(self) -> str:
        """The name of its node, for messages."""
        return self.address or "this machine"

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, or its node is unreachable."""
        return self._process.status is not None or not self._session.is_open

    def end(self) -> None:
        """End it."""
        with contextlib.suppress(WorkbenchError):
            self._process.end(force=True)

    def ask(
        self,
        kind: str,
        *values: Any,
        seconds: float = ANSWER_SECONDS,
        interrupted: Interrupted = lambda: False,
    ) -> Any:
        """Return the answer to a request.

        Raises:
            Broken: None came in time, or the node is gone.
            MachineError: The node could not do it.
        """
        number = self.post(kind, *values)
        deadline = time.monotonic() + seconds
        while True:
            for found in self.messages():
                if isinstance(found, Answer) and found.number == number:
                    return found.value
                if isinstance(found, Failed) and found.number == number:
                    raise MachineError(found.why)
            if time.monotonic() > deadline or interrupted():
                raise self.broken("it did not answer")
            time.sleep(LOOK_SECONDS)

    def broken(self, why: str) -> Broken:
        """End the agent, and return the error that says why; another is started when needed."""
        self.end()
        return Broken(f"{self.name}: {why.rstrip('.')}")

    def post(self, kind: str, *values: Any) -> int:
        """Send a request, and return its number."""
        self._number += 1
        self.write(line(ASK, self._number, kind, *values))
        return self._number

    def write(self, text: str) -> None:
        """Send a line."""
        self._process.write(text)

    def messages(self) -> list[Piece | Acknowledged | Answer | Failed]:
        """Return what has come, without waiting.

        Raises:
            Broken: The node is gone, or broke the protocol.
        """
        is_gone, lines = self.is_gone, self._process.lines()
        try:
            found = [one for text in lines if (one := read_answer(text)) is not None]
        except ProtocolError as error:
            raise self.broken(str(error)) from error
        self._received(sum(len(text) + 1 for text in lines))
        if is_gone and not found:
            raise self.broken("it is gone")
        return found

    def manifests(self, run: str, folder: str) -> list[SnapshotManifest]:
        """Return what the node has of a run.

        Raises:
            MachineError: It could not say it.
        """
        try:
            found = [decode_manifest(one) for one in texts(LIST, self.ask(LIST, run, folder))]
        except (ProtocolError, ValueError) as error:
            raise self.broken(str(error)) from error
        return [one for one in found if one.run == run]


def transfer(
    manifest: SnapshotManifest,
    source: SnapshotClient,
    source_folder: str,
    target: SnapshotClient,
    target_folder: str,
    *,
    share: float,
    interrupted: Interrupted = lambda: False,
) -> None:
    """Bring a snapshot from one node to another, through this process.

    Args:
        share: Of what the connection carries.

    Raises:
        Broken: A node is gone, or it was interrupted.
        MachineError: It is damaged, or cannot be stored.
    """
    run = manifest.run
    target.ask(BEGIN, run, target_folder, encode_manifest(manifest))
    number = source.post(SEND, run, source_folder, manifest.name, share)
    moved, left = time.monotonic(), sum(file.nbytes for file in manifest.files)
    while True:
        if interrupted():
            raise source.broken("a run that waits goes first")
        news = source.messages()
        left -= sum(one.nbytes for one in news if isinstance(one, Piece))
        if left < 0:
            raise source.broken(f"it sent more than there is of {manifest.name}")
        for found in news:
            if isinstance(found, Piece):
                target.write(line(PIECE, found.path, found.data))
            elif isinstance(found, Failed) and found.number == number:
                raise MachineError(found.why)
            elif isinstance(found, Answer) and found.number == number:
                target.ask(END, run, target_folder, seconds=LONG_SECONDS)
                return
        taken = [one.nbytes for one in target.messages() if isinstance(one, Acknowledged)]
        if taken:
            source.write(line(TAKEN, taken[-1]))
        if news or taken:
            moved = time.monotonic()
        elif time.monotonic() - moved > STALL_SECONDS:
            raise source.broken("it sends nothing more")
        else:
            time.sleep(LOOK_SECONDS)


class SnapshotAgents:
    """The agents on the nodes of a cluster, each started when it is needed; for one thread.

    Args:
        reach: Returns the session with a host; None for this machine.
    """

    def __init__(self, cluster: str, reach: Reach) -> None:
        self._cluster, self._reach = cluster, reach
        self._lock = threading.Lock()
        self._received: Counter[str] = Counter()
        self._clients: dict[tuple[str, str], SnapshotClient] = {}
        self._here: LocalSession | None = None

    def __repr__(self) -> str:
        return f"<SnapshotAgents of {self._cluster}: {len(self._clients)}>"

    def of(self, address: str, durable: str = "") -> SnapshotClient:
        """Return the agent on a node.

        Args:
            durable: A folder or ``s3://bucket/prefix`` for all clusters; empty for none.

        Raises:
            MachineError: The node cannot be reached.
        """
        client = self._clients.get((address, durable))
        if client is not None and not client.is_gone:
            return client
        session = self._session(address)
        if not session.is_open:
            raise MachineError(f"There is no session with {address}")
        words = [python_of(session), *AGENT]
        if durable:
            environment = bucket_environment(session) if is_bucket(durable) else []
            words = [*environment, *words, f"{durable.rstrip('/')}/{self._cluster}"]

        def received(nbytes: int) -> None:
            with self._lock:
                self._received[address] += nbytes

        client = SnapshotClient(address, session, session.start(words), received)
        self._clients[address, durable] = client
        return client

    def start(self, addresses: Iterable[str], durable: str = "") -> None:
        """Start the agents of nodes at the same time, where they can be reached, for requests."""
        for address in addresses:
            with contextlib.suppress(MachineError):  # the request meets the same error
                self.of(address, "" if address == HERE else durable)

    def drop(self, client: SnapshotClient) -> None:
        """End an agent; the next request starts another."""
        client.end()
        self._clients = {key: one for key, one in self._clients.items() if one is not client}

    def end_all(self) -> None:
        """End all agents; the next request to one starts it again."""
        for client in [*self._clients.values()]:
            self.drop(client)

    def take_received(self) -> dict[str, int]:
        """Return the bytes received from each other node since the last call; on any thread."""
        with self._lock:
            received, self._received = self._received, Counter()
        return {address: nbytes for address, nbytes in received.items() if address != HERE}

    def close(self) -> None:
        """End all agents."""
        self.end_all()
        if self._here is not None:
            self._here.close()

    def _session(self, address: str) -> Session:
        session = self._reach(Host(address, 1)) if address != HERE else None
        if session is not None:
            return session
        if self._here is None:
            self._here = LocalSession(Host("localhost", 1), Path.home())
        return self._here
