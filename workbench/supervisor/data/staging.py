"""Prepare nodes for worlds: the data first, then the prepare script."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from workbench.cloud.hosts.local_session import LocalSession
from workbench.core.fleet.model import FleetWish, Provider
from workbench.core.node.staging import (
    CHUNK_NBYTES,
    DATA_VARIABLE,
    Entry,
    ahead_nbytes,
    data_folder,
    is_bucket,
    progress_text,
    total_nbytes,
)
from workbench.core.node.transfer_protocol import (
    AGAIN,
    DATA,
    DONE,
    END,
    FAILED,
    GOT,
    NEED,
    PROGRESS,
    frame,
    manifest_frames,
    read_line,
    read_needed,
)
from workbench.core.node.validation import fitted, take_count, take_numbers, take_sentence
from workbench.core.world.remote import RemoteProcess, Session, python_of
from workbench.errors import MachineError, ProtocolError
from workbench.supervisor.data.source import Source
from workbench.supervisor.fleet.provider import Report

PREPARE_SECONDS = 3600.0
REPORT_SECONDS = 1.0
LOOK_SECONDS = 0.004
SLOW_LOOK_SECONDS = 0.2
TRIES = 4
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
STAGE = ("-m", "workbench.node.stage")


class BytesProcess(RemoteProcess, Protocol):
    """A command on a node that reads bytes."""

    def write_bytes(self, data: bytes) -> None:
        """Write to its standard input."""
        ...


class Staging:
    """Prepares each node of a cluster before it may join.

    Args:
        cluster: The name of the cluster.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._sources: dict[str, Source] = {}

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
            if wish.provider is Provider.HOSTS:
                link(Path(data_folder_of(self._cluster, wish)).expanduser(), source.folder)
            return
        Sending(session, source.folder, entries, place, report).send()


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
    process = session.start([*bucket_environment(session), python_of(session), *STAGE, place, url])
    report("Data: the node reads the list of files in S3.")
    try:
        for kind, values in answers(process, session, SLOW_LOOK_SECONDS):
            if kind == PROGRESS:
                report(f"{progress_text(*_progress(values, session))}.")
            elif kind == DONE:
                return
    finally:
        process.end()


def bucket_environment(session: Session) -> list[str]:
    """Return the prefix of a node's command with which it uses this machine's S3 endpoint.

    On AWS it is empty. A custom endpoint of this machine is passed to the node.

    Raises:
        MachineError: The endpoint has a secret in it, which lists of processes would show there.
    """
    name = next((name for name in ENDPOINTS if os.environ.get(name)), "")
    if not name:
        return []
    url = urlsplit(os.environ[name])
    if url.username or url.password or url.query:
        raise MachineError(
            f"{name} has a name, password or token in it, which other users of a node could read",
            "give keys by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    if url.hostname in ("127.0.0.1", "localhost") and url.port:
        session.bring([url.port])
    region = os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return ["env", f"{name}={os.environ[name]}", f"AWS_DEFAULT_REGION={region}"]


def answers(
    process: RemoteProcess, session: Session, seconds: float
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the node's messages as they come.

    Args:
        seconds: Between two polls.

    Raises:
        MachineError: The node reports a failure, or is gone.
    """
    while True:
        is_over = process.status is not None
        for text in process.lines():
            if answer := read_line(text):
                if answer[0] == FAILED:
                    raise MachineError(f"{session.host.address}: {take_sentence(*answer)}.")
                yield answer
        if is_over:
            raise _ended(process, session)
        time.sleep(seconds)


class Sending:
    """Sends files of this machine to one node.

    Args:
        place: The folder on the node; ``~`` is the home of the user who logs in.
    """

    def __init__(
        self, session: Session, folder: Path, entries: Sequence[Entry], place: str, report: Report
    ) -> None:
        self._session = session
        self._folder = folder
        self._entries = entries
        self._place = place
        self._report = report
        self._process: BytesProcess | None = None
        self._needed: list[tuple[int, int]] = []
        self._again: list[int] = []
        self._listed = self._done = False
        self._total = total_nbytes(entries)
        self._here = 0
        self._sent = self._got = 0
        self._began = self._reported = 0.0
        self._buffer = bytearray()

    def send(self) -> None:
        """Send missing files until the node has all of them.

        Raises:
            InputError: A file can no longer be read.
            MachineError: The node cannot store them, or the session was lost.
        """
        command = [python_of(self._session), *STAGE, self._place]
        self._process = cast(BytesProcess, self._session.start(command))
        try:
            for piece in manifest_frames(self._entries):
                self._write(piece)
            self._flush()
            self._report("Data: the node checks which files it has.")
            while not self._listed:
                self._hear(SLOW_LOOK_SECONDS / 4)
            self._begin()
            for attempt in range(TRIES):
                self._send_all(attempt)
                if self._done:
                    return
        finally:
            self._process.end()
        path = self._entries[self._needed[0][0]].path
        raise MachineError(
            f"{self._folder / path} came to {self._session.host.address} damaged {TRIES} times",
            "check that nothing changes it, and that the machine's disk works.",
        )

    def _begin(self) -> None:
        lacking = sum(self._entries[n].nbytes - offset for n, offset in self._needed)
        self._here = self._total - lacking
        self._began = self._reported = time.monotonic()

    def _send_all(self, attempt: int) -> None:
        if attempt:
            self._needed = [(number, 0) for number in self._again]
            self._again = []
        for number, offset in self._needed:
            self._send_file(number, offset)
        self._write(frame(END))
        self._flush()
        while not (self._done or self._again):
            self._hear()

    def _send_file(self, number: int, offset: int) -> None:
        entry = self._entries[number]
        left = entry.nbytes - offset
        path = f"{self._folder}/{entry.path}"
        try:
            with open(path, "rb", buffering=0) as file:
                file.seek(offset)
                while left:
                    data = file.read(min(left, CHUNK_NBYTES))
                    if not data:
                        raise MachineError(
                            f"{path} was cut while it was sent",
                            "leave the data as it is, then restart the node.",
                        )
                    left -= len(data)
                    self._write(frame(DATA, number, data))
                    self._sent += len(data)
        except OSError as error:
            raise MachineError(
                f"{path} of the data cannot be read ({error.strerror})",
                "correct it, then restart the node.",
            ) from error

    def _write(self, data: bytes) -> None:
        """Send in large pieces, at most half a second ahead of what the node reads."""
        self._buffer += data
        if len(self._buffer) < CHUNK_NBYTES:
            return
        self._flush()
        while self._began and self._sent - self._got > ahead_nbytes(self._rate):
            self._hear()

    def _flush(self) -> None:
        assert self._process is not None
        self._process.write_bytes(bytes(self._buffer))
        self._buffer.clear()

    @property
    def _rate(self) -> float:
        return self._got / max(time.monotonic() - self._began, 0.2)

    def _hear(self, seconds: float = LOOK_SECONDS) -> None:
        """Process the node's messages, or wait a moment for one."""
        assert self._process is not None
        is_over, lines = self._process.status is not None, self._process.lines()
        for text in lines:
            if answer := read_line(text):
                with _named(self._session):
                    self._take(*answer)
        now = time.monotonic()
        if self._began and now - self._reported >= REPORT_SECONDS:
            self._reported = now
            done = min(self._total, self._here + self._got)
            self._report(f"{progress_text(done, self._total, self._rate)}.")
        if is_over and not self._done:
            raise _ended(self._process, self._session)
        if not lines:
            time.sleep(seconds)

    def _take(self, kind: str, values: list[Any]) -> None:
        if kind == NEED:
            more = read_needed(values, self._entries)
            if len(self._needed) + len(more) > len(self._entries):
                raise ProtocolError("it wants more files than there are")
            self._needed += more
            self._listed = not more
        elif kind == GOT:
            self._got = min(take_count(kind, values), self._sent)
        elif kind == AGAIN:
            again = take_numbers(kind, values, len(self._entries))
            self._again = [*dict.fromkeys([*self._again, *again])]
        elif kind == DONE:
            self._done = True
        elif kind == FAILED:
            raise MachineError(take_sentence(kind, values))


def _progress(values: Sequence[Any], session: Session) -> tuple[int, int, float]:
    with _named(session):
        done, total, rate = fitted(tuple[int, int, float], [*values])
        return max(0, done), max(0, total), max(0.0, rate)


@contextlib.contextmanager
def _named(session: Session) -> Iterator[None]:
    """Add the node's address to errors of the body."""
    try:
        yield
    except MachineError as error:
        raise MachineError(f"{session.host.address}: {error}.") from error


def _ended(process: RemoteProcess, session: Session) -> MachineError:
    address = session.host.address
    if not session.is_open:
        return MachineError(
            f"The session with {address} was lost while the data was staged",
            "wait until that machine is reached again; staging resumes then.",
        )
    output = str(getattr(process, "errors", "")).strip().splitlines()
    why = output[-1] if output else f"status {process.status}"
    return MachineError(
        f"The data could not be staged to {address} ({why})",
        f"check that this environment is there too, at {python_of(session)}.",
    )
