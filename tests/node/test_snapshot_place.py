"""A durable place has whole snapshots of one attempt: the same contract in a folder and in S3."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.cloud.conftest import one_endpoint
from workbench.core.recovery.snapshots import (
    MANIFEST,
    SnapshotFile,
    SnapshotManifest,
    encode_manifest,
)
from workbench.errors import MachineError
from workbench.node import snapshot_place
from workbench.node.snapshot_folder import manifests
from workbench.node.snapshot_place import FencedOut, SnapshotPlace, place_of

__all__ = ["one_endpoint"]

RUN = "261123-100000-abcd"


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.contract)])
def url(request, tmp_path, monkeypatch) -> Iterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "shared" / "c")
        return
    endpoint = request.getfixturevalue("one_endpoint")
    endpoint.reset()
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint.url)
    client = boto3.client("s3")
    client.create_bucket(Bucket="digits")
    yield "s3://digits/snapshots/c"
    client.close()


@pytest.fixture
def place(url) -> SnapshotPlace:
    return place_of(url)


def save(
    node: Path, iteration: int, *, attempt: int = 1, text: bytes = b"numbers"
) -> SnapshotManifest:
    """Write a snapshot as the ranks of a node do."""
    contents = {"trainer.npz": text + b"%d" % iteration, "parts/empty": b""}
    files = tuple(SnapshotFile(n, len(d), zlib.crc32(d)) for n, d in contents.items())
    manifest = SnapshotManifest(RUN, attempt, 1, 1, iteration, 0.5, 2, final=False, files=files)
    for name, data in contents.items():
        path = node / manifest.name / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (node / manifest.name / MANIFEST).write_text(encode_manifest(manifest))
    return manifest


def test_a_node_that_has_nothing_gets_what_another_one_stored(place, tmp_path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    manifest = save(one, 5)
    place.store(one, manifest)

    assert place.fetch(RUN, other) == [manifest.name]
    assert manifests(other, RUN) == [manifest]
    assert (other / manifest.name / "trainer.npz").read_bytes() == b"numbers5"
    assert place.fetch(RUN, other) == []


def test_an_empty_place_has_nothing(place, tmp_path) -> None:
    assert place.index(RUN) is None
    assert place.fetch(RUN, tmp_path) == []
    place.remove(RUN)


def test_a_late_writer_of_an_earlier_attempt_is_fenced_out(url, place, tmp_path) -> None:
    first = save(tmp_path, 5)
    late = save(tmp_path, 9)
    place.store(tmp_path, first)
    place_of(url).claim(RUN, 2)

    with pytest.raises(FencedOut, match="attempt 1 may not"):
        place.store(tmp_path, late)
    with pytest.raises(FencedOut):
        place.claim(RUN, 1)

    index = place.index(RUN)
    assert index is not None
    assert (index.attempt, index.snapshots) == (2, (first,))


def test_a_writer_that_is_replaced_while_it_writes_is_fenced_out(
    url, place, tmp_path, monkeypatch
) -> None:
    manifest, other = save(tmp_path, 5), place_of(url)
    write, storage = place._storage.write, place._storage

    def write_late(path, file) -> None:
        write(path, file)
        other.claim(RUN, 2)

    monkeypatch.setattr(storage, "write", write_late)

    with pytest.raises(FencedOut):
        place.store(tmp_path, manifest)

    index = place.index(RUN)
    assert index is not None
    assert index.snapshots == ()
    assert place.fetch(RUN, tmp_path / "other") == []


def test_of_two_that_change_an_index_at_once_neither_is_lost(
    url, place, tmp_path, monkeypatch
) -> None:
    mine, theirs = save(tmp_path, 5), save(tmp_path, 9)
    replace_index, other = place._storage.replace_index, place_of(url)
    tries: list[bool] = []

    def replace_late(run, text, mark) -> bool:
        if not tries:
            other.store(tmp_path, theirs)
        tries.append(replace_index(run, text, mark))
        return tries[-1]

    monkeypatch.setattr(place._storage, "replace_index", replace_late)

    place.store(tmp_path, mine)

    index = place.index(RUN)
    assert tries == [False, True]
    assert index is not None
    assert {*index.snapshots} == {mine, theirs}


def test_the_newest_two_are_kept(place, tmp_path) -> None:
    for iteration in (5, 9, 12, 20):
        place.store(tmp_path, save(tmp_path, iteration))

    index = place.index(RUN)
    assert index is not None
    assert [one.iteration for one in index.snapshots] == [12, 20]
    gone: list[bytes] = []
    assert not place._storage.read(
        f"{RUN}/snapshots/{save(tmp_path, 5).name}/manifest.json", gone.append
    )


def test_a_snapshot_that_is_torn_is_passed_over_for_the_one_before(place, tmp_path, capsys) -> None:
    before, newest = save(tmp_path / "one", 5), save(tmp_path / "one", 9)
    for manifest in (before, newest):
        place.store(tmp_path / "one", manifest)
    place._storage.remove(f"{RUN}/snapshots/{newest.name}")

    assert place.fetch(RUN, tmp_path / "other") == [before.name]

    assert "trainer.npz is missing" in capsys.readouterr().err
    assert manifests(tmp_path / "other", RUN) == [before]
    assert [path.name for path in (tmp_path / "other").iterdir()] == [before.name]


def test_a_snapshot_that_is_damaged_on_its_node_is_not_stored(place, tmp_path) -> None:
    manifest = save(tmp_path, 5)
    place.store(tmp_path, manifest)
    damaged = save(tmp_path, 9)
    (tmp_path / damaged.name / "trainer.npz").unlink()

    with pytest.raises(MachineError, match="cannot be read"):
        place.store(tmp_path, damaged)

    index = place.index(RUN)
    assert index is not None
    assert index.snapshots == (manifest,)


def test_an_index_that_is_not_ours_is_left_alone(place, tmp_path) -> None:
    place._storage.replace_index(RUN, '{"format": 99}', "")

    for refused in (
        lambda: place.store(tmp_path, save(tmp_path, 5)),
        lambda: place.remove(RUN),
        lambda: place.fetch(RUN, tmp_path / "other"),
    ):
        with pytest.raises(MachineError, match="it has format 99"):
            refused()

    found = place._storage.index(RUN)
    assert found is not None
    assert found[0] == '{"format": 99}'


def test_only_the_run_that_is_named_is_removed(place, tmp_path) -> None:
    place.store(tmp_path, save(tmp_path, 5))
    place._storage.replace_index("261123-100000-wxyz", "theirs", "")

    place.remove(RUN)

    assert place.index(RUN) is None
    assert place._storage.index("261123-100000-wxyz") is not None


def test_a_place_whose_index_changes_all_the_time_is_given_up(place, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(place._storage, "replace_index", lambda run, text, mark: False)
    monkeypatch.setattr(snapshot_place, "TRIES", 2)

    with pytest.raises(MachineError, match="changes all the time"):
        place.store(tmp_path, save(tmp_path, 5))
