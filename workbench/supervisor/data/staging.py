"""Prepare nodes for worlds: the data first, then the prepare script."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from workbench.cloud.hosts.local_session import LocalSession
from workbench.cluster.node_agent import agent_of, pass_over
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.node_provider import Report
from workbench.core.node.agent_protocol import (
    FILES_AT_ONCE,
    AllSent,
    Damaged,
    FetchData,
    FetchProgress,
    GiveData,
    Giving,
    Listed,
    Needed,
    StageData,
    TakeFrom,
    encode_entries,
    encode_path,
)
from workbench.core.node.staging import (
    DATA_VARIABLE,
    StagingEntry,
    ahead_nbytes,
    data_folder,
    is_bucket,
    progress_text,
    total_nbytes,
)
from workbench.core.world.remote import Session, python_of
from workbench.errors import InputError, MachineError, ProtocolError
from workbench.node.copying import send_file
from workbench.node.stream import Call, StreamLost
from workbench.supervisor.data.source import Source

PREPARE_SECONDS = 3600.0
REPORT_SECONDS = 1.0
TRIES = 4
GIVING_SECONDS = 10.0
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class Staging:
    """Prepares each node of a cluster before it may join.

    Args:
        cluster: The name of the cluster.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._sources: dict[str, Source] = {}
        self._givers: defaultdict[str, Giver] = defaultdict(Giver)

    def __repr__(self) -> str:
        return f"<Staging for {self._cluster}>"

    def prepare(self, session: Session, wish: FleetWish, report: Report) -> None:
        """Copy the data to a node, then run the prepare script there.

        Raises:
            InputError: The data's folder is invalid.
            MachineError: The node refuses it, or the session was lost.
        """
        if wish.data:
            self._stage(session, wish, report)
        run_prepare(session, wish, report, data_place(self._cluster, wish, session))

    def _stage(self, session: Session, wish: FleetWish, report: Report) -> None:
        place = data_place(self._cluster, wish, session)
        if is_bucket(wish.data):
            fetch(session, wish.data, place, report)
            return
        source = self._sources.setdefault(wish.data, Source(Path(wish.data)))
        entries = source.entries(report)
        if isinstance(session, LocalSession):
            if wish.place.lists_hosts:
                link(Path(data_folder_of(self._cluster, wish)).expanduser(), source.folder)
            return
        transfer = DataTransfer(session, source.folder, entries, place, report)
        if wish.place.lists_hosts:  # the network between them may be one that others read
            transfer.send()
        else:
            self._givers[wish.data].stage(session, transfer, place, report)


def data_folder_of(cluster: str, wish: FleetWish) -> str:
    """Return the folder of the data on other machines."""
    if is_bucket(wish.data):
        return data_folder(cluster, wish.data)
    return data_folder(cluster, f"{socket.gethostname()}:{wish.data}")


def data_place(cluster: str, wish: FleetWish, session: Session | None) -> str:
    """Return the folder of the data for a node's ranks; empty if there is none.

    Ranks on this machine use a folder of this machine directly.

    Args:
        session: With the node; None for this machine.
    """
    if not wish.data:
        return ""
    is_here = session is None or isinstance(session, LocalSession)
    if is_here and not is_bucket(wish.data):
        return wish.data
    return data_folder_of(cluster, wish)


def run_prepare(session: Session, wish: FleetWish, report: Report, data: str = "") -> None:
    """Run the prepare script on a node.

    Args:
        data: The folder of the data on the node; the script finds it in ``WORKBENCH_DATA``.

    Raises:
        MachineError: It failed, or took too long.
    """
    if not wish.prepare:
        return
    report("The prepare script runs.")
    command = ["sh", "-e"]
    if data:
        export = f'case $1 in "~/"*) set -- "$HOME/${{1#??}}";; esac; export {DATA_VARIABLE}="$1"'
        command = ["sh", "-c", f"{export}; exec sh -e", "sh", data]
    answer = session.run(command, input=wish.prepare, seconds=PREPARE_SECONDS)
    if answer.status:
        output = (answer.errors.strip() or answer.output.strip() or "no output").splitlines()
        raise MachineError(
            f"The prepare script ended with status {answer.status} on {session.host.address} "
            f"({output[-1]})",
            "correct it, then restart the node.",
        )


def link(place: Path, folder: Path) -> None:
    """Make ``place`` a link to the folder: this machine is one of the nodes.

    Raises:
        MachineError: The link cannot be created.
    """
    if place.is_dir() and place.samefile(folder):
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = place.with_name(f".{place.name}.{os.getpid()}")
        temporary.symlink_to(folder)
        os.replace(temporary, place)
    except OSError as error:
        raise MachineError(
            f"{place} cannot lead to {folder} ({error.strerror})", "remove what is there."
        ) from error


def fetch(session: Session, url: str, place: str, report: Report) -> None:
    """Let a node fetch data from S3 by itself.

    Raises:
        MachineError: It could not.
    """
    request = FetchData(encode_path(place), url, bucket_environment(session))
    report("Data: the node reads the list of files in S3.")
    with _name_errors(session):
        call = agent_of(session).call(request)
        try:
            for message in call.messages():
                if isinstance(message, FetchProgress):
                    report(f"{progress_text(message.done, message.total, message.rate)}.")
        finally:
            call.cancel()


def bucket_environment(session: Session) -> tuple[tuple[str, str], ...]:
    """Return the variables with which a node's S3 client uses this machine's endpoint.

    On AWS there are none. A custom endpoint of this machine is passed to the node.

    Raises:
        MachineError: The endpoint has a secret in it, which belongs into no variable of a node.
    """
    name = next((name for name in ENDPOINTS if os.environ.get(name)), "")
    if not name:
        return ()
    url = urlsplit(os.environ[name])
    if url.username or url.password or url.query:
        raise MachineError(
            f"{name} has a name, password or token in it, which other users of a node could read",
            "give keys by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    if url.hostname in ("127.0.0.1", "localhost") and url.port:
        session.bring([url.port])
    region = os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return ((name, os.environ[name]), ("AWS_DEFAULT_REGION", region))


class Giver:
    """The node that has the data first, and gives it to the others in their own network."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._call: Call | None = None
        self._source: TakeFrom | None = None
        self._entries: Sequence[StagingEntry] = ()

    def __repr__(self) -> str:
        return f"<Giver {self._session}>"

    def stage(self, session: Session, transfer: DataTransfer, place: str, report: Report) -> None:
        """Send the data to the first node, and have the next ones take it from there."""
        if not self._lock.acquire(blocking=False):
            report("Data: it is sent to another node first, and comes from there.")
            self._lock.acquire()
        try:
            source = self._find(transfer)
            if source is None:
                transfer.send()
                self._begin(session, transfer, place)
                return
        finally:
            self._lock.release()
        transfer.send(source)

    def _find(self, transfer: DataTransfer) -> TakeFrom | None:
        is_there = self._session is not None and self._session.is_open
        gives = self._call is not None and not self._call.is_over
        return self._source if is_there and gives and self._entries == transfer.entries else None

    def _begin(self, session: Session, transfer: DataTransfer, place: str) -> None:
        """Have a node give what it has; without that, each node gets all from here."""
        if self._call is not None:
            self._call.cancel()
        token = secrets.token_hex(32)
        with pass_over(session, "it gives no data to other nodes, which get all from here"):
            self._call = agent_of(session).call(GiveData(encode_path(place), token))
            for message in self._call.receive(GIVING_SECONDS):
                if isinstance(message, Giving):
                    self._source = TakeFrom(message.addresses, message.port, token)
                    self._session, self._entries = session, transfer.entries


class DataTransfer:
    """Sends files of this machine to one node.

    Args:
        place: The folder on the node; ``~`` is the home of the user who logs in.
    """

    def __init__(
        self,
        session: Session,
        folder: Path,
        entries: Sequence[StagingEntry],
        place: str,
        report: Report,
    ) -> None:
        self._session = session
        self._folder = folder
        self.entries = self._entries = entries
        self._place = place
        self._report = report
        self._needed: list[tuple[int, int]] = []
        self._total = total_nbytes(entries)
        self._here = self._before = self._sent = 0
        self._began = self._reported = 0.0

    def send(self, source: TakeFrom | None = None) -> None:
        """Send missing files until the node has all of them.

        Args:
            source: Where it can take them from in its own network; what it lacks then is sent.

        Raises:
            InputError: A file can no longer be read.
            MachineError: The node cannot store the files, or the session was lost.
        """
        with _name_errors(self._session):
            self._call = agent_of(self._session).call(StageData(encode_path(self._place)))
            try:
                self._send_list()
                if source is not None and self._needed:
                    self._let_take(source)
                for _ in range(TRIES):
                    if self._call.is_over and not self._needed:
                        return
                    self._send_round()
                    if not self._needed:
                        return
            finally:
                self._call.cancel()
        path = self._entries[self._needed[0][0]].path
        raise MachineError(
            f"{self._folder / path} came to {self._session.host.address} damaged {TRIES} times",
            "check that nothing changes it, and that the machine's disk works.",
        )

    def _send_list(self) -> None:
        """Send the list of files, and take which of them the node lacks."""
        for start in range(0, len(self._entries), FILES_AT_ONCE):
            self._call.send(encode_entries((*self._entries[start : start + FILES_AT_ONCE],)))
        self._call.post(Listed())
        self._report("Data: the node checks which files it has.")
        for message in self._call.messages():
            if isinstance(message, Needed) and not message.files:
                break
            if isinstance(message, Needed):
                self._need(message.files)
        lacking = sum(self._entries[n].nbytes - offset for n, offset in self._needed)
        self._here, self._before = self._total - lacking, self._call.taken
        self._began = self._reported = time.monotonic()

    def _need(self, files: Sequence[tuple[int, int]]) -> None:
        """Note files that the node asks for, each from an offset on.

        Raises:
            ProtocolError: There is no such file, or it is shorter.
        """
        for number, offset in files:
            if number >= len(self._entries) or offset > self._entries[number].nbytes:
                raise ProtocolError(
                    f"it wants file {number} from {offset} on, which does not exist"
                )
        if len(self._needed) + len(files) > len(self._entries):
            raise ProtocolError("it wants more files than there are")
        self._needed += files

    def _send_round(self) -> None:
        """Send all that is needed, and take what came damaged, for the next round."""
        for number, offset in self._needed:
            self._send_file(self._entries[number], offset)
        self._call.flush()
        self._call.post(AllSent())
        self._hear_of_damaged()

    def _let_take(self, source: TakeFrom) -> None:
        """Let the node take what it needs from another one, and note what it still lacks."""
        self._call.post(source)
        self._hear_of_damaged()
        self._before, self._began = self._call.taken, time.monotonic()

    def _hear_of_damaged(self) -> None:
        self._needed = []
        for message in self._call.messages():
            if isinstance(message, FetchProgress):
                text = progress_text(message.done, message.total, message.rate)
                self._report(f"{text}, from another node.")
            if isinstance(message, Damaged) and not message.files:
                break
            if isinstance(message, Damaged):
                self._need([(number, 0) for number in message.files])

    def _send_file(self, entry: StagingEntry, offset: int) -> None:
        path = f"{self._folder}/{entry.path}"
        left = entry.nbytes - offset
        try:
            with open(path, "rb", buffering=0) as file:
                file.seek(offset)
                sent = send_file(
                    self._call,
                    entry.path,
                    file,
                    left,
                    offset=offset,
                    digest=entry.digest,
                    sent=self._note,
                )
        except OSError as error:
            raise InputError(
                f"{path} of the data cannot be read ({error.strerror})",
                "correct it, then restart the node.",
            ) from error
        if sent < left:
            raise InputError(
                f"{path} was cut while it was sent",
                "leave the data as it is, then restart the node.",
            )

    def _note(self, nbytes: int) -> None:
        """Note a piece that was sent; at most half a second's worth is on its way."""
        self._sent += nbytes
        now = time.monotonic()
        got = min(self._call.taken - self._before, self._sent)
        rate = got / max(now - self._began, 0.2)
        self._call.window = ahead_nbytes(rate)
        if now - self._reported >= REPORT_SECONDS:
            self._reported = now
            done = min(self._total, self._here + got)
            self._report(f"{progress_text(done, self._total, rate)}.")


@contextlib.contextmanager
def _name_errors(session: Session) -> Iterator[None]:
    """Add the node's address to errors of the body, or say that the session was lost."""
    address = session.host.address
    try:
        yield
    except StreamLost as error:
        if session.is_open:
            raise MachineError(
                f"{address}: the data could not be staged ({str(error).rstrip('.')})",
                f"check that this environment is there too, at {python_of(session)}.",
            ) from error
        raise MachineError(
            f"The session with {address} was lost while the data was staged",
            "wait until that machine is reached again; staging resumes then.",
        ) from error
    except MachineError as error:
        raise MachineError(f"{address}: {error}.") from error
