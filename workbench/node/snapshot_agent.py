"""List, send, receive, store and remove the snapshots on this node, as the supervisor asks.

Run as ``python -m workbench.node.snapshot_agent [PLACE]``, where PLACE is a durable place. It reads
requests from standard input, and ends with it.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.core.node.snapshot_protocol import (
    AHEAD_NBYTES,
    ANSWER,
    ASK,
    BEGIN,
    END,
    FAILED,
    FETCH,
    LIMIT,
    LIST,
    PIECE,
    PIECE_NBYTES,
    REMOVE,
    SEND,
    STORE,
    TAKEN,
    piece_data,
    piece_line,
)
from workbench.core.node.transfer_protocol import line, read_line
from workbench.core.recovery.snapshot_copies import beyond_limit
from workbench.core.recovery.snapshots import SnapshotManifest, decode_manifest, encode_manifest
from workbench.core.run_id import is_run_id
from workbench.errors import MachineError, WorkbenchError
from workbench.node.snapshot_folder import (
    ArrivingSnapshot,
    manifests,
    opened,
    prune,
    read_pieces,
    remove_run,
    sizes,
)
from workbench.node.snapshot_place import SnapshotPlace, place_of

LOOK_SECONDS = 0.5
ACKNOWLEDGED_NBYTES = 1 << 20
# Training goes first.
NICE = 10


class Over(Exception):
    """Standard input has ended."""


class SnapshotAgent:
    """Answers the supervisor's requests one after another.

    Args:
        place: The durable place; empty for none.
        requests: A file descriptor.
        report: Writes a line.
    """

    def __init__(self, place: str, requests: int, report: Callable[[str], None]) -> None:
        self._url, self._requests, self._report = place, requests, report
        self._rest = b""
        self._waiting: deque[tuple[str, list[Any]]] = deque()
        self._taken = 0
        self._place: SnapshotPlace | None = None
        self._arrival: ArrivingSnapshot | None = None
        self._trouble: WorkbenchError | OSError | None = None
        self._got = self._acknowledged = 0
        self._kinds: dict[str, Callable[..., Any]] = {
            LIST: self._list,
            SEND: self._send,
            BEGIN: self._begin,
            END: self._end,
            STORE: self._store,
            FETCH: self._fetch,
            REMOVE: self._remove,
            LIMIT: self._limit,
        }

    def serve(self) -> None:
        """Answer until standard input ends."""
        with contextlib.suppress(Over):
            while True:
                while not self._waiting:
                    self._listen(LOOK_SECONDS)
                kind, values = self._waiting.popleft()
                if kind == ASK:
                    self._answer(*values)
                elif kind == PIECE:
                    self._take(*values)
        if self._arrival is not None:
            self._arrival.drop()

    def _listen(self, seconds: float) -> None:
        """Read the requests that arrive, waiting for the first."""
        if not select.select([self._requests], [], [], seconds)[0]:
            return
        data = os.read(self._requests, 1 << 20)
        if not data:
            raise Over
        *lines, self._rest = (self._rest + data).split(b"\n")
        for text in lines:
            if (found := read_line(text.decode())) is None:
                continue
            if found[0] == TAKEN:
                self._taken = found[1][0]
            else:
                self._waiting.append(found)

    def _answer(self, number: int, kind: str, *values: Any) -> None:
        try:
            self._report(line(ANSWER, number, self._kinds[kind](*values)))
        except OSError as error:
            where = error.filename or "a snapshot"
            self._report(line(FAILED, number, f"{where}: {error.strerror}"))
        except WorkbenchError as error:
            self._report(line(FAILED, number, str(error).rstrip(".")))

    # -- what is asked

    def _list(self, run: str, folder: str) -> list[str]:
        return [encode_manifest(one) for one in manifests(_folder(folder), run)]

    def _send(self, run: str, folder: str, name: str, share: float) -> int:
        """Send a snapshot, in pieces, with pauses so that it takes a share of the connection."""
        place = _folder(folder)
        manifest = _found(place, run, name)
        sent = self._taken = 0
        with opened(place, manifest) as files:
            for one, file in files:
                for data in read_pieces(one, file, PIECE_NBYTES):
                    begun = time.monotonic()
                    self._report(piece_line(one.name, data))
                    sent += len(data)
                    while sent - self._taken > AHEAD_NBYTES:
                        self._listen(LOOK_SECONDS)
                    time.sleep((time.monotonic() - begun) * (1 / share - 1))
        return sent

    def _begin(self, run: str, folder: str, text: str) -> None:
        if self._arrival is not None:
            self._arrival.drop()
        self._arrival, self._trouble, self._got, self._acknowledged = None, None, 0, 0
        try:
            manifest = decode_manifest(text)
        except ValueError as error:
            raise MachineError(f"The manifest cannot be used: {error}") from None
        if manifest.run != run:
            raise MachineError(f"The manifest is of run {manifest.run!r:.80}")
        self._arrival = ArrivingSnapshot(_folder(folder), manifest)

    def _take(self, path: str, data: str) -> None:
        """Receive a piece; an error is the answer to the request at the end."""
        found = piece_data(data)
        self._got += len(found)
        if self._got - self._acknowledged >= ACKNOWLEDGED_NBYTES:
            self._acknowledged = self._got
            self._report(line(TAKEN, self._got))
        if self._arrival is not None and self._trouble is None:
            try:
                self._arrival.add(path, found)
            except (OSError, WorkbenchError) as error:
                self._trouble = error

    def _end(self, run: str, folder: str) -> str:
        arrival, self._arrival = self._arrival, None
        if arrival is None:
            raise MachineError("No snapshot was begun")
        try:
            if self._trouble is not None:
                raise self._trouble
            arrival.end()
        finally:
            arrival.drop()
        prune(_folder(folder), run)
        return arrival.manifest.name

    def _store(self, run: str, folder: str, name: str) -> str:
        place = _folder(folder)
        self._durable().store(place, _found(place, run, name))
        return name

    def _fetch(self, run: str, folder: str, attempt: int) -> list[str]:
        durable = self._durable()
        durable.claim(run, attempt)
        return durable.fetch(run, _folder(folder))

    def _remove(self, run: str, folder: str) -> None:
        remove_run(_folder(folder), run)
        if self._url:
            self._durable().remove(run)

    def _limit(self, root: str, share: float, ended: list[str]) -> list[str]:
        place = _folder(root)
        if not place.is_dir():
            return []
        limit = int(shutil.disk_usage(place).total * share)
        gone = beyond_limit(sizes(place, is_run_id), ended, limit)
        for run in gone:
            remove_run(place / run, run)
        return gone

    def _durable(self) -> SnapshotPlace:
        if self._place is None:
            if not self._url:
                raise MachineError("There is no durable place")
            self._place = place_of(self._url)
        return self._place


def _folder(path: str) -> Path:
    return Path(path).expanduser()


def _found(folder: Path, run: str, name: str) -> SnapshotManifest:
    found = next((one for one in manifests(folder, run) if one.name == name), None)
    if found is None:
        raise MachineError(f"There is no snapshot {name} in {folder}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Serve standard input."""
    words: list[str] = sys.argv[1:] if arguments is None else arguments
    os.umask(0o077)
    with contextlib.suppress(OSError):
        os.nice(NICE)

    def report(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        SnapshotAgent(words[0] if words else "", sys.stdin.fileno(), report).serve()
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
