"""A snapshot in a folder is complete, or it is not used."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from workbench.core.recovery.snapshots import MANIFEST, SnapshotManifest
from workbench.engine.snapshot.folder import SPARE_NBYTES, SnapshotFolder
from workbench.engine.snapshot.saved_bytes import make_room

FIRST = SnapshotManifest("260101-000000-arun", 1, 1, 1, 5, 0.5, 2, final=False)
SECOND = replace(FIRST, iteration=9)


@pytest.fixture
def folder(tmp_path) -> SnapshotFolder:
    return SnapshotFolder(tmp_path / "runs" / "snapshots", "260101-000000-arun")


def write(folder: SnapshotFolder, manifest: SnapshotManifest, text: bytes = b"numbers"):
    return folder.write(manifest, {"trainer.npz": lambda file: file.write(text)})


def read(folder: SnapshotFolder, manifest: SnapshotManifest, sent: list[bytes]) -> bytes | None:
    """Return the content of the file, if it can be read."""
    found = folder.find(manifest, bool)
    if found is None:
        return None
    (file,) = found.values()
    room = make_room(len(file.content), {}, {})
    is_right = folder.pour(manifest, file, room, lambda piece: sent.append(bytes(piece)))
    return bytes(room.take(0, room.nbytes)) if is_right else None


def test_what_was_written_is_read(folder) -> None:
    manifest = write(folder, FIRST)

    assert folder.manifests() == [manifest]
    assert read(folder, manifest, []) == b"numbers"


@pytest.mark.parametrize("size", [1, 3, 7, 8])
def test_a_file_is_sent_in_pieces(folder, monkeypatch, size) -> None:
    monkeypatch.setattr("workbench.engine.snapshot.saved_bytes.MESSAGE_NBYTES", size)
    sent = list[bytes]()

    assert read(folder, write(folder, FIRST), sent) == b"numbers"

    assert b"".join(sent) == b"numbers"
    assert {len(one) for one in sent[:-1]} <= {size}


def test_a_file_that_becomes_unreadable_is_sent_whole_all_the_same(folder, capsys) -> None:
    """Ranks that wait for its bytes hear it at the end."""
    manifest, sent = write(folder, FIRST), list[bytes]()
    (file,) = folder.find(manifest, bool).values()
    (folder.path / manifest.name / "trainer.npz").unlink()

    room = make_room(7, {}, {})
    assert not folder.pour(manifest, file, room, lambda piece: sent.append(bytes(piece)))

    assert [len(one) for one in sent] == [7]
    assert "is not used" in capsys.readouterr().err


def test_only_the_owner_can_read_it(folder) -> None:
    manifest = write(folder, FIRST)

    place = folder.path / manifest.name
    for path in (folder.path, place, place / "trainer.npz", place / MANIFEST):
        assert path.stat().st_mode & 0o077 == 0


def test_a_folder_that_does_not_exist_has_no_snapshots(folder) -> None:
    assert folder.manifests() == []


def test_a_snapshot_that_is_not_finished_is_none(folder) -> None:
    write(folder, FIRST)

    with pytest.raises(OSError, match="disk"):
        folder.write(SECOND, {"trainer.npz": lambda file: fail(file.write(b"num"))})

    assert [one.iteration for one in folder.manifests()] == [5]
    assert len(os.listdir(folder.path)) == 1


def fail(_: int) -> None:
    raise OSError("no space on the disk")


@pytest.mark.parametrize("text", [b"number", b"numbars", b""])
def test_a_damaged_file_is_found(folder, capsys, text) -> None:
    manifest = write(folder, FIRST)
    (folder.path / manifest.name / "trainer.npz").write_bytes(text)

    assert folder.find(manifest, bool, checks=True) is None
    assert read(folder, manifest, []) is None
    assert capsys.readouterr().err.count("is not used: trainer.npz") == 1


def test_a_missing_file_is_found(folder, capsys) -> None:
    manifest = write(folder, FIRST)
    (folder.path / manifest.name / "trainer.npz").unlink()

    assert folder.find(manifest, bool) is None
    assert "is not used" in capsys.readouterr().err


def test_a_snapshot_that_another_leader_removes_meanwhile_is_no_news(
    folder, capsys, monkeypatch
) -> None:
    older, newer = write(folder, FIRST), write(folder, SECOND)
    read_text = Path.read_text

    def removed(path: Path, **options: str) -> str:
        if older.name in str(path):
            shutil.rmtree(path.parent)
        return read_text(path, **options)

    monkeypatch.setattr(Path, "read_text", removed)

    assert folder.manifests() == [newer]
    assert folder.find(older, bool) is None
    assert capsys.readouterr().err == ""


def test_what_another_leader_wrote_and_removes_already_is_not_written_again(folder) -> None:
    newest = write(folder, SECOND)
    (folder.path / FIRST.name).mkdir()
    (folder.path / FIRST.name / "trainer.npz").write_bytes(b"removed last")

    write(folder, FIRST)

    assert folder.manifests() == [newest]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": 99}, "format 99"),
        ({"run": "another"}, "run 'another'"),
        ({"ranks2": 3}, "damaged"),
    ],
    ids=["newer", "foreign", "unknown"],
)
def test_what_cannot_be_used_is_passed_over(folder, capsys, change, problem) -> None:
    older, newer = write(folder, FIRST), write(folder, SECOND)
    path = folder.path / newer.name / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))

    assert folder.manifests() == [older]
    assert problem in capsys.readouterr().err


def test_a_snapshot_that_another_leader_wrote_is_kept(folder) -> None:
    manifest = write(folder, FIRST)
    write(folder, FIRST, b"the same")

    assert read(folder, manifest, []) == b"numbers"
    assert len(os.listdir(folder.path)) == 1


def test_older_snapshots_are_removed(folder) -> None:
    for iteration in range(5):
        write(folder, replace(FIRST, iteration=iteration))

    assert [one.iteration for one in folder.manifests()] == [3, 4]
    assert len(os.listdir(folder.path)) == 2


def test_what_earlier_attempts_left_unfinished_is_removed(folder) -> None:
    write(folder, FIRST)
    for attempt in (1, 2, 12):
        (folder.path / f".attempt-{attempt}-training-1-iteration-3.host-7.part").mkdir()

    folder.claim(2)

    assert sorted(path.name.split("-")[1] for path in folder.path.glob(".*.part")) == ["12", "2"]


def test_an_attempt_that_was_replaced_writes_nothing_more(folder) -> None:
    older = write(folder, FIRST)
    folder.claim(3)
    folder.claim(3)  # by the leader of another node with the same home

    with pytest.raises(OSError, match="attempt 3 of the run has taken over from attempt 1"):
        write(folder, SECOND)

    assert folder.manifests() == [older]
    write(folder, replace(SECOND, attempt=3))
    assert len(folder.manifests()) == 2


def test_an_attempt_that_is_replaced_while_it_writes_leaves_nothing(folder) -> None:
    def write_late(file) -> None:
        file.write(b"numbers")
        folder.claim(2)

    with pytest.raises(OSError, match=r"has taken over|No such file"):
        folder.write(FIRST, {"trainer.npz": write_late})

    assert folder.manifests() == []
    assert [path.name for path in folder.path.iterdir()] == [".claimed-by-attempt-2"]


def test_a_snapshot_that_does_not_fit_is_left_out(folder, monkeypatch) -> None:
    manifest = write(folder, FIRST)
    nearly_full = SimpleNamespace(free=SPARE_NBYTES + 3)
    monkeypatch.setattr("shutil.disk_usage", lambda path: nearly_full)

    with pytest.raises(OSError, match="are needed on the disk, and"):
        write(folder, SECOND)

    assert folder.manifests() == [manifest]


@pytest.mark.parametrize("hurries", [False, True])
def test_a_snapshot_is_on_the_disk_before_others_see_it_unless_they_wait_for_it(
    folder, monkeypatch, hurries
) -> None:
    """A slow disk does not delay ranks that continue; all of it is brought there in any case."""
    seen: list[int] = []  # snapshots that can be read, at each call

    def fsync(descriptor: int) -> None:
        seen.append(len(folder.manifests()))

    monkeypatch.setattr(os, "fsync", fsync)
    readable: list[SnapshotManifest] = []
    write_at_once = {"readable": readable.append} if hurries else {}

    manifest = folder.write(FIRST, {"trainer.npz": lambda f: f.write(b"n")}, **write_at_once)

    assert readable == [manifest] * hurries
    files_and_folder = [1 if hurries else 0] * 3
    assert seen == [*files_and_folder, 1]
