"""Write snapshots in a thread of their own, while the training continues."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from workbench.core.recovery.snapshots import Age, SnapshotManifest
from workbench.engine.snapshot.folder import SnapshotFolder, Write

Contents = Callable[[], Mapping[str, Write]]
"""Returns what writes each file of a snapshot, by its name."""

LONGEST_SECONDS = 120.0
_NICE = 10


class SnapshotWriter:
    """Writes one snapshot at a time.

    Args:
        complained: Called with an error, but not again before a snapshot was written.
    """

    def __init__(self, folder: SnapshotFolder, complained: Callable[[Exception], None]) -> None:
        self._folder, self._complained = folder, complained
        self._thread: threading.Thread | None = None
        self._readable = threading.Event()
        self._has_failed = False
        self._memory: threading.Thread | None = None
        self._spare: dict[str, Any] = {}
        self.written: Age | None = None
        """The age of the last snapshot that was written."""
        self.busy_seconds = 0.0
        """Processor time of the last snapshot."""

    def prepare(self, allocate: Callable[[], dict[str, Any]]) -> None:
        """Allocate what the first snapshot overwrites, without waiting for it.

        New memory costs several times as much as a copy, when it is first written.

        Args:
            allocate: Returns it; called by a thread.
        """
        self._memory = threading.Thread(
            target=self._allocate, args=(allocate,), name="workbench-snapshot-memory", daemon=True
        )
        self._memory.start()

    def _allocate(self, allocate: Callable[[], dict[str, Any]]) -> None:
        _go_after_training()
        self._spare = allocate()

    @property
    def spare(self) -> dict[str, Any]:
        """What the last snapshot has in common, to be overwritten by the next one."""
        if self._memory is not None:
            self._memory.join(LONGEST_SECONDS)
            self._memory = None
        return self._spare

    @property
    def is_busy(self) -> bool:
        """Whether a snapshot is being written."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Wait for the snapshot that is being written; not forever, as a disk may hang."""
        if self._thread is not None:
            self._thread.join(LONGEST_SECONDS)

    def wait_until_readable(self) -> None:
        """Wait until the last snapshot can be read, though it may not be on the disk."""
        if self._thread is not None:
            self._readable.wait(LONGEST_SECONDS)

    def start(
        self,
        parts: Sequence[tuple[SnapshotManifest, Contents]],
        spare: dict[str, Any],
        saved: Callable[[Sequence[SnapshotManifest]], None],
        *,
        is_awaited: bool = False,
        complete: Age | None = None,
    ) -> None:
        """Begin to write a snapshot.

        Args:
            parts: Those that this node saves, the whole state as a rule; their contents are called
                by the writer's thread.
            spare: What may be overwritten once the snapshot is complete.
            saved: Called when it is complete.
            complete: See ``superfluous``.
            is_awaited: Whether the run leaves here: it does not need the core, and those that
                continue wait until they can read the snapshot, and not until it is on the disk.
        """
        self._readable.clear()
        self._thread = threading.Thread(
            target=self._write,
            args=(parts, spare, saved, is_awaited, complete),
            name="workbench-snapshot",
            daemon=True,  # a snapshot that is not complete when the process ends is ignored
        )
        self._thread.start()

    def _write(
        self,
        parts: Sequence[tuple[SnapshotManifest, Contents]],
        spare: dict[str, Any],
        saved: Callable[[Sequence[SnapshotManifest]], None],
        is_awaited: bool,
        complete: Age | None,
    ) -> None:
        if not is_awaited:
            _go_after_training()
        begun = time.thread_time()
        done: list[SnapshotManifest] = []

        def is_there(manifest: SnapshotManifest) -> None:
            done.append(manifest)
            if len(done) == len(parts):
                self.written = manifest.age
                saved(done)
                self._readable.set()

        try:
            for manifest, contents in parts:
                if is_awaited:
                    self._folder.write(manifest, contents(), is_there, complete)
                else:
                    is_there(self._folder.write(manifest, contents(), complete=complete))
        except Exception as error:  # noqa: BLE001  # a snapshot never ends the training
            if not self._has_failed:
                self._has_failed = True
                self._complained(error)
        else:
            self._has_failed = False
        finally:
            self._spare = spare
            self._readable.set()
            self.busy_seconds = time.thread_time() - begun


def _go_after_training() -> None:
    """Let the training go before this thread."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def new_arrays(layout: Mapping[str, tuple[tuple[int, ...], Any]]) -> dict[str, Any]:
    """Return new arrays whose memory has been written.

    Args:
        layout: Shape and type by name.
    """
    found = {}
    for name, (shape, kind) in layout.items():
        if not numpy.dtype(kind).hasobject:
            found[name] = one = numpy.empty(shape, kind)
            numpy.copyto(one, 0)  # it releases the GIL
    return found
