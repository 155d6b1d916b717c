"""Which copy of a snapshot each node's ranks read, and what a damaged one leaves behind."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench.core.recovery.snapshots import SnapshotManifest
from workbench.engine.snapshot.folder import SnapshotFolder
from workbench.engine.snapshot.peers import Peers
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.engine.snapshot.saved_training import RANKS
from workbench.engine.snapshot.state import LoopState, SavedState, StepCount
from workbench.errors import StateError

RUN = "260101-000000-arun"
NODES = 3


class Meeting:
    """Lets ranks of threads, each on a node of its own, exchange values."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(NODES, timeout=10.0)
        self._values: list[Any] = [None] * NODES
        self.sent = 0  # bytes from node to node

    def gather(self, rank: int, value: Any) -> list[Any]:
        self._values[rank] = value
        self._barrier.wait()
        found = [*self._values]
        self._barrier.wait()
        return found


class ThreadPeers:
    """Stands for ``Peers``; ranks with one folder are on one node."""

    def __init__(self, meeting: Meeting, rank: int, folders: list[Path]) -> None:
        leaders = [folders.index(one) for one in folders]
        self._meeting, self.rank, self.leader = meeting, rank, leaders[rank]
        self.is_leader, self.leaders = self.leader == rank, sorted({*leaders})

    def gather(self, value: Any) -> list[Any]:
        return self._meeting.gather(self.rank, value)

    @property
    def size(self) -> int:
        return NODES

    def send(self, message: Any, root: int) -> None:
        message[:] = self.gather(message.copy())[root]
        if self.rank == root:
            self._meeting.sent += len(message) * (NODES - 1)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Have a copy of one iteration on each node, each with another content."""
    found = [tmp_path / f"node-{number}" for number in range(NODES)]
    for number, folder in enumerate(found):
        manifest = SnapshotManifest(RUN, 1, 2, 1, 10, 0.5, NODES, final=False)
        SnapshotFolder(folder, RUN).write(
            manifest, {"a.npz": lambda f, n=number: f.write(b"%d" % n)}
        )
    return found


def read(folders: list[Path], log) -> tuple[list[bytes], int]:
    """Return what each rank reads, if anything, and the bytes that went between nodes."""
    meeting = Meeting()

    def of_rank(rank: int) -> bytes:
        peers: Any = ThreadPeers(meeting, rank, folders)
        options = {"run": RUN, "attempt": 2, "generation": 3, "resumes": True}
        snapshots = RunSnapshots(log, str(folders[rank]), **options)
        snapshots._holders = snapshots._present(peers)
        training: Any = SimpleNamespace(number=1, peers=peers, state=SavedState([]))
        found = snapshots._read(training)
        return found[1]["a.npz"].open().read() if found is not None else b""

    with ThreadPoolExecutor(NODES) as pool:
        return [*pool.map(of_rank, range(NODES))], meeting.sent


def test_each_node_reads_its_own_copy(folders, log) -> None:
    assert read(folders, log) == ([b"%d" % n for n in range(NODES)], 0)


def test_each_rank_of_a_node_reads_its_copy(folders, log) -> None:
    """None waits until another one has read it, and sends it."""
    assert read(folders[:1] * NODES, log) == ([b"0"] * NODES, 0)


def test_all_get_one_copy_where_a_node_has_none_that_can_be_read(folders, log) -> None:
    (path,) = folders[0].glob("attempt-*/a.npz")
    path.write_bytes(b"x")

    assert read(folders, log) == ([b"1"] * NODES, NODES - 1)


def test_a_copy_that_no_node_can_read_is_passed_over(folders, log) -> None:
    for folder in folders:
        for path in folder.glob("attempt-*/a.npz"):
            path.unlink()

    assert read(folders, log) == ([b""] * NODES, 0)


LARGE = 100_000


def save(folder: Path, iteration: int) -> None:
    """Write a snapshot of a loop whose numbers are all its iteration."""
    state = LoopState({"w": np.full(LARGE, float(iteration))}, StepCount(iteration), None)
    common, own = state.capture({})
    owns = [pickle.dumps(own)]
    manifest = SnapshotManifest(RUN, 1, 1, 1, iteration, 0.5, 1, final=False)
    files = {**state.files(common, owns), RANKS: partial(pickle.dump, owns)}
    SnapshotFolder(folder, RUN).write(manifest, files)


def damage(folder: Path, iteration: int) -> None:
    path = folder / f"attempt-1-training-1-iteration-{iteration}" / "state.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def resume(folder: Path, log) -> Any:
    """Return the numbers of a loop that is resumed."""
    numbers = np.zeros(LARGE)
    options = {"run": RUN, "attempt": 2, "generation": 2, "resumes": True}
    snapshots = RunSnapshots(log, str(folder), **options)
    snapshots.begin_loop(LoopState({"w": numbers}, StepCount(), None), Peers())
    return numbers


@pytest.mark.parametrize(
    ("saved", "damaged", "expected"),
    [([5, 9], [], 9.0), ([5, 9], [9], 5.0), ([5], [5], 0.0)],
    ids=["the newest", "the one before a damaged one", "of a damaged one alone nothing"],
)
def test_what_is_in_the_arrays_is_from_one_snapshot(
    tmp_path, log, saved, damaged, expected
) -> None:
    for iteration in saved:
        save(tmp_path, iteration)
    for iteration in damaged:
        damage(tmp_path, iteration)

    assert (resume(tmp_path, log) == expected).all()


def test_a_training_does_not_begin_with_what_a_damaged_snapshot_has_overwritten(
    tmp_path, log
) -> None:
    for iteration in (5, 9):
        save(tmp_path, iteration)
        damage(tmp_path, iteration)

    with pytest.raises(StateError, match="None of the snapshots of this run can be read; start"):
        resume(tmp_path, log)
