"""Write snapshots in a thread of their own, while the training continues."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import numpy

from workbench.core.run.snapshots import SnapshotManifest
from workbench.engine.snapshot.folder import SnapshotFolder

TRAINER, RANKS = "trainer.npz", "ranks.pickle"
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
        self._has_failed = False
        self._memory: threading.Thread | None = None
        self._spare: dict[str, Any] = {}
        self.busy_seconds = 0.0
        """Processor time of the last snapshot."""

    def prepare(self, arrays: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        """Allocate the arrays that the first snapshot overwrites, without waiting for it.

        New memory costs several times as much as a copy, when it is first written.

        Args:
            arrays: Shape and type by name.
        """
        self._memory = threading.Thread(
            target=self._allocate, args=(arrays,), name="workbench-snapshot-memory", daemon=True
        )
        self._memory.start()

    def _allocate(self, arrays: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        _go_after_training()
        for name, (shape, kind) in arrays.items():
            if not numpy.dtype(kind).hasobject:
                self._spare[name] = one = numpy.empty(shape, kind)
                numpy.copyto(one, 0)  # it releases the GIL

    @property
    def spare(self) -> dict[str, Any]:
        """The arrays of the last snapshot, to be overwritten by the next one."""
        if self._memory is not None:
            self._memory.join(LONGEST_SECONDS)
            self._memory = None
        return self._spare

    @property
    def is_busy(self) -> bool:
        """Whether a snapshot is being written."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Wait for the snapshot that is being written; not for ever, as a disk may hang."""
        if self._thread is not None:
            self._thread.join(LONGEST_SECONDS)

    def start(
        self,
        manifest: SnapshotManifest,
        common: dict[str, Any],
        owns: Sequence[bytes],
        saved: Callable[[SnapshotManifest], None],
    ) -> None:
        """Begin to write a snapshot.

        Args:
            common: The arrays that all ranks have in common.
            owns: Each rank's own state, pickled.
            saved: Called when it is complete.
        """
        self._thread = threading.Thread(
            target=self._write,
            args=(manifest, common, owns, saved),
            name="workbench-snapshot",
            daemon=True,  # a snapshot that is not complete when the process ends is ignored
        )
        self._thread.start()

    def _write(
        self,
        manifest: SnapshotManifest,
        common: dict[str, Any],
        owns: Sequence[bytes],
        saved: Callable[[SnapshotManifest], None],
    ) -> None:
        _go_after_training()
        begun = time.thread_time()
        try:
            values = common | pickle.loads(owns[0]).values
            contents: dict[str, Callable[[IO[bytes]], None]] = {
                TRAINER: lambda file: _save_arrays(file, values),
                RANKS: lambda file: pickle.dump(list(owns), file),
            }
            saved(self._folder.write(manifest, contents))
        except Exception as error:  # noqa: BLE001  # a snapshot never ends the training
            if not self._has_failed:
                self._has_failed = True
                self._complained(error)
        else:
            self._has_failed = False
        finally:
            self._spare = common
            self.busy_seconds = time.thread_time() - begun


def decoded(contents: dict[str, bytearray]) -> tuple[dict[str, Any], list[Any]]:
    """Return the arrays of ``trainer.npz``, and each rank's own state."""
    with numpy.load(io.BytesIO(contents[TRAINER]), allow_pickle=True) as arrays:
        common = {name: arrays[name] for name in arrays.files}
    return common, [pickle.loads(one) for one in pickle.loads(contents[RANKS])]


def _go_after_training() -> None:
    """Let the training go before this thread."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def _save_arrays(file: IO[bytes], values: dict[str, Any]) -> None:
    numpy.savez(file, **values)
