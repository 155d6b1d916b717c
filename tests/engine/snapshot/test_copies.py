"""Which copy of a snapshot each node's ranks read, where the copies are equally old."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from workbench.core.recovery.snapshots import SnapshotManifest
from workbench.engine.snapshot.folder import SnapshotFolder
from workbench.engine.snapshot.run_snapshots import RunSnapshots

RUN = "a-run"
NODES = 3
Contents = dict[str, memoryview]


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

    def share(self, content: memoryview | None, root: int) -> memoryview:
        found: memoryview = self.gather(content)[root]
        if self.rank == root:
            self._meeting.sent += len(found) * (NODES - 1)
        return found

    def share_on_node(self, content: memoryview | None) -> memoryview:
        assert content is not None
        return content


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


def read(folders: list[Path], log) -> tuple[list[list[Contents]], int]:
    """Return what each rank reads, copy after copy, and the bytes that went between nodes."""
    meeting = Meeting()

    def of_rank(rank: int) -> list[Contents]:
        peers: Any = ThreadPeers(meeting, rank, folders)
        options = {"run": RUN, "attempt": 2, "generation": 3, "resumes": True}
        snapshots = RunSnapshots(log, str(folders[rank]), **options)
        snapshots._holders = snapshots._present(peers)
        found: Iterator[Any] = snapshots._complete(1, peers, lambda file: False)
        return [contents for _, contents, _ in found]

    with ThreadPoolExecutor(NODES) as pool:
        return [*pool.map(of_rank, range(NODES))], meeting.sent


def test_each_node_reads_its_own_copy(folders, log) -> None:
    assert read(folders, log) == ([[{"a.npz": b"%d" % n}] for n in range(NODES)], 0)


def test_each_rank_of_a_node_reads_its_copy(folders, log) -> None:
    """None waits until another one has read it, and sends it."""
    assert read(folders[:1] * NODES, log) == ([[{"a.npz": b"0"}]] * NODES, 0)


def test_all_get_one_copy_where_a_node_has_none_that_can_be_read(folders, log) -> None:
    (path,) = folders[0].glob("attempt-*/a.npz")
    path.write_bytes(b"x")

    assert read(folders, log) == ([[{"a.npz": b"1"}]] * NODES, NODES - 1)


def test_a_copy_that_no_node_can_read_is_passed_over(folders, log) -> None:
    for folder in folders:
        for path in folder.glob("attempt-*/a.npz"):
            path.unlink()

    assert read(folders, log) == ([[]] * NODES, 0)
