"""Send the files that ranks write in their runs' folders to S3, or to the supervisor."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from workbench.core.node.agent_protocol import (
    AgentMessage,
    FileKept,
    Flush,
    Flushed,
    KeyGiven,
    KeyWanted,
    LogAdded,
    OutputBegun,
    OutputOver,
    OutputSent,
    SendOutputs,
    Trouble,
    decode_path,
    encode_path,
)
from workbench.core.node.output_files import FileState, Unsent, is_due, pause_after, update_unsent
from workbench.errors import WorkbenchError
from workbench.node.copying import send_file
from workbench.node.stream import Call, Cancelled

OWN = Path(".workbench/outputs")
"""Below the user's home: the state of each run's output, until all of it is sent."""

AT_ONCE = 8
LOOK_SECONDS = 0.5
# Scanning a folder with very many files must not take a whole core.
SHARE = 10.0

Report = Callable[[AgentMessage], None]


class OutputSink(Protocol):
    """The destination of files."""

    def send(self, run: str, path: str, key: str, file: BinaryIO) -> bool:
        """Send a file; returns false if the confirmation comes later.

        Raises:
            WorkbenchError: The file could not be sent now.
        """
        ...


class RunOutput:
    """The output of one run on this node.

    Args:
        folder: The folder that the ranks write to.
        own: The folder for the journal of sent files, and for files that workbench adds to the run.
    """

    def __init__(self, run: str, folder: Path, own: Path) -> None:
        self.run = run
        self.folder = folder
        self.own = own
        self.is_over = False
        self.keys: dict[str, str] = {}
        self.asked: set[str] = set()
        self.offered: dict[str, FileState] = {}
        self.unsent: dict[str, Unsent] = {}
        self._sent: dict[str, FileState] = {}
        (own / "added").mkdir(parents=True, exist_ok=True, mode=0o700)
        self._read()

    def look(self, now: float, *, all_of_it: bool) -> list[tuple[str, Path]]:
        """Return the files that are due."""
        unsent = {}
        for path, place, look in self._files():
            if look not in (self._sent.get(path), self.offered.get(path)):
                unsent[path] = update_unsent(self.unsent.get(path), look, now), place
        self.unsent = {path: file for path, (file, _) in unsent.items()}
        return [
            (path, place)
            for path, (file, place) in unsent.items()
            if all_of_it or self.is_over or is_due(file, now)
        ]

    def note(self, path: str, look: FileState) -> None:
        """Record that a file was sent in this state."""
        self._sent[path] = look
        row = [path, look.nbytes, look.changed, self.keys.get(path, "")]
        with (self.own / "sent").open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(row) + "\n")

    def add(self, name: str, offset: int, text: bytes) -> None:
        """Write a piece of a file that is added to the run; offset 0 truncates it."""
        self.keys[f"../{name}"] = name
        with (self.own / "added" / name).open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(text)

    def forget(self) -> None:
        """Remove the journal; the files of the run stay."""
        shutil.rmtree(self.own, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()  # the run left nothing in it
        with contextlib.suppress(OSError):
            self.own.parent.rmdir()  # it was the last run
            self.own.parent.parent.rmdir()

    def _files(self) -> Iterator[tuple[str, Path, FileState]]:
        for top, _, names in os.walk(self.folder):
            for name in names:
                place = Path(top, name)
                yield from _look(place.relative_to(self.folder).as_posix(), place)
        for place in (self.own / "added").iterdir():
            yield from _look(f"../{place.name}", place)

    def _read(self) -> None:
        with contextlib.suppress(OSError), (self.own / "sent").open(encoding="utf-8") as journal:
            for text in journal:
                with contextlib.suppress(TypeError, ValueError):
                    path, nbytes, changed, key = json.loads(text)
                    self._sent[path] = FileState(nbytes, changed)
                    self.keys[path] = key


class OutputSender:
    """Sends the files of runs as they change.

    Args:
        is_bucket: Whether each file needs a key that all nodes agree on.
    """

    def __init__(self, sink: OutputSink, report: Report, home: Path, *, is_bucket: bool) -> None:
        self._sink = sink
        self._report = report
        self._home = home
        self._is_bucket = is_bucket
        self._runs: dict[str, RunOutput] = {}
        self._flush: int | None = None
        self._failures = 0
        self._later = 0.0
        self._pool = ThreadPoolExecutor(AT_ONCE if is_bucket else 1)

    def take(self, message: Any) -> None:
        """Handle one message of the supervisor."""
        match message:
            case Flush(number):
                self._flush, self._later = number, 0.0
            case OutputBegun(name, folder):
                if name not in self._runs:
                    # By the node's name: nodes may share a home.
                    own = self._home / OWN / f"{name}@{os.uname().nodename}"
                    place = Path(decode_path(folder)).expanduser()
                    self._runs[name] = RunOutput(name, place, own)
            case KeyGiven(name, path, key) if run := self._runs.get(name):
                run.keys[decode_path(path)] = decode_path(key)
            case LogAdded(name, file, offset, text) if run := self._runs.get(name):
                run.add(file, offset, text)
            case OutputOver(name) if run := self._runs.get(name):
                run.is_over = True
            case FileKept(name, path, why) if run := self._runs.get(name):
                self._note_kept(run, decode_path(path), why)

    def turn(self, now: float) -> None:
        """Send what is due, and report what was sent."""
        if now < self._later:
            return
        are_empty = [self._send_due(run, now) for run in [*self._runs.values()]]
        if self._flush is not None and all(are_empty):
            self._report(Flushed(self._flush))
            self._flush = None

    def _send_due(self, run: RunOutput, now: float) -> bool:
        """Send what is due of a run; return whether nothing is left to send."""
        due = run.look(now, all_of_it=self._flush is not None)
        ready = [(path, place) for path, place in due if self._has_key(run, path)]
        failed = [why for why in self._pool.map(lambda file: self._send(run, *file), ready) if why]
        if failed:
            self._fail(failed[0], now)
        elif ready and self._failures:
            self._failures = 0
            self._report(Trouble(""))
        is_empty = not (failed or run.offered or run.look(now, all_of_it=True))
        if run.is_over and is_empty:
            run.forget()
            del self._runs[run.run]
            self._report(OutputSent(run.run))
        return is_empty

    def _has_key(self, run: RunOutput, path: str) -> bool:
        if not self._is_bucket or path in run.keys:
            return True
        if path not in run.asked:
            run.asked.add(path)
            self._report(KeyWanted(run.run, encode_path(path)))
        return False

    def _send(self, run: RunOutput, path: str, place: Path) -> str:
        """Send a file; return the error, or an empty string."""
        try:
            with place.open("rb") as file:
                # The state at this moment: a later write is a new state, and sent again.
                status = os.fstat(file.fileno())
                look = FileState(status.st_size, status.st_mtime_ns)
                run.offered[path] = look
                if self._sink.send(run.run, path, run.keys.get(path, path), file):
                    run.note(path, run.offered.pop(path))
        except (WorkbenchError, OSError) as error:
            run.offered.pop(path, None)
            if isinstance(error, FileNotFoundError):
                return ""  # a rank moved it away
            return str(error).rstrip(".")
        return ""

    def _note_kept(self, run: RunOutput, path: str, why: str) -> None:
        look = run.offered.pop(path, None)
        if why:
            self._fail(why, time.monotonic())
        elif look is not None:
            run.note(path, look)

    def _fail(self, why: str, now: float) -> None:
        self._failures += 1
        pause = pause_after(self._failures)
        self._later = now + pause
        self._report(Trouble(f"{why}; the next attempt is in {pause:.0f} s"))


class BucketSink:
    """Uploads files to S3."""

    def __init__(self, url: str) -> None:
        from workbench.node.s3 import S3Bucket  # it takes a second to load

        self._bucket = S3Bucket(url)

    def send(self, run: str, path: str, key: str, file: BinaryIO) -> bool:
        """Upload a file."""
        # A file name that is not valid text is not a valid key.
        name = key.encode(errors="backslashreplace").decode()
        self._bucket.write(f"{run}/{name}", file)
        return True


class SupervisorSink:
    """Sends files to the supervisor, which confirms each later."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def send(self, run: str, path: str, key: str, file: BinaryIO) -> bool:
        """Send a file."""
        send_file(self._call, path, file, os.fstat(file.fileno()).st_size, run=run)
        self._call.flush()
        return False


def send_outputs(call: Call, request: SendOutputs) -> None:
    """Send until the supervisor has gone, and then what goes to a bucket."""
    os.environ.update(dict(request.environment))
    sink: OutputSink = BucketSink(request.url) if request.url else SupervisorSink(call)
    sender = OutputSender(sink, call.post, Path.home(), is_bucket=bool(request.url))
    try:
        while True:
            for message in call.take():
                sender.take(message)
            began = time.monotonic()
            sender.turn(began)
            call.wait(max(LOOK_SECONDS, SHARE * (time.monotonic() - began)))
    except Cancelled:
        if request.url:
            sender.take(Flush(0))
            sender.turn(time.monotonic())


def _look(path: str, place: Path) -> Iterator[tuple[str, Path, FileState]]:
    with contextlib.suppress(OSError):  # it was moved away meanwhile
        status = place.lstat()
        if stat.S_ISREG(status.st_mode):
            yield path, place, FileState(status.st_size, status.st_mtime_ns)
