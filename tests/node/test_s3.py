"""Data is fetched from S3, and output uploaded, over the rehearsal's real HTTP."""

from __future__ import annotations

import contextlib
import io
import os
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import boto3
import pytest

from tests.cloud.conftest import one_endpoint
from tests.rehearsal.ec2.endpoint import Endpoint
from workbench.cloud.hosts.local_session import LocalSession
from workbench.cluster.node_agent import agent_of
from workbench.core.node.agent_protocol import FetchData
from workbench.core.node.staging import ranges
from workbench.core.world.world import Host
from workbench.errors import MachineError
from workbench.node.data_cache import DataCache
from workbench.node.fetching import PIECE_NBYTES, Fetching
from workbench.node.s3 import S3Bucket, Unanswered

__all__ = ["one_endpoint"]

BIG = os.urandom(2 * PIECE_NBYTES + 12_345)


@pytest.fixture
def s3(one_endpoint: Endpoint, monkeypatch):
    """Give S3 with an empty bucket called ``digits``; what is started finds it by itself."""
    one_endpoint.reset()
    monkeypatch.setenv("AWS_ENDPOINT_URL", one_endpoint.url)
    client = boto3.client("s3")
    client.create_bucket(Bucket="digits")
    yield client
    client.close()


def put(s3, **files: bytes) -> None:
    for name, content in files.items():
        s3.put_object(Bucket="digits", Key=name.replace("__", "/"), Body=content)


def fetch(url: str, folder: Path) -> list[tuple[int, int, int]]:
    cache = DataCache(folder)
    with cache.open():
        return list(Fetching(S3Bucket(url), cache).turns())


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_all_objects_of_the_prefix_come_and_the_second_time_none(s3, tmp_path):
    put(s3, data__a=b"1", data__deep__b=b"2" * 100_000, data__big=BIG, other__c=b"3", data2__x=b"4")
    s3.put_object(Bucket="digits", Key="data/folder/")

    first, again = fetch("s3://digits/data", tmp_path), fetch("s3://digits/data/", tmp_path)

    assert files(tmp_path) == {"a": b"1", "deep/b": b"2" * 100_000, "big": BIG}
    assert first[-1] == (100_001 + len(BIG), 100_001 + len(BIG), 100_001 + len(BIG))
    assert again[-1][2] == 0


def test_only_what_has_changed_comes_and_what_is_gone_is_removed(s3, tmp_path):
    put(s3, data__a=b"1", data__b=b"2", data__c=b"3")
    fetch("s3://digits/data", tmp_path)
    put(s3, data__a=b"another")
    s3.delete_object(Bucket="digits", Key="data/b")
    (tmp_path / "c").write_bytes(b"spoilt")

    turns = fetch("s3://digits/data", tmp_path)

    assert files(tmp_path) == {"a": b"another", "c": b"3"}
    assert turns[-1][2] == len(b"another3")


def test_one_object_is_data_too(s3, tmp_path):
    put(s3, some__digits=b"1")

    fetch("s3://digits/some/digits", tmp_path)

    assert files(tmp_path) == {"digits": b"1"}


def test_a_large_object_continues_after_a_cut_and_reads_no_piece_twice(s3, tmp_path):
    put(s3, big=BIG)
    bucket = S3Bucket("s3://digits/big")
    real, whole = bucket.read_range, []

    def cut(key, etag, offset, nbytes, take):
        if offset == PIECE_NBYTES:
            raise MachineError("cut")
        real(key, etag, offset, nbytes, take)
        whole.append(offset)

    bucket.read_range = cut
    cache = DataCache(tmp_path)
    with cache.open(), pytest.raises(MachineError, match="cut"):
        list(Fetching(bucket, cache).turns())

    turns = fetch("s3://digits/big", tmp_path)

    # The last piece had come before the cut, or was not begun.
    assert turns[-1][2] == len(BIG) - sum(
        nbytes for offset, nbytes in ranges(len(BIG), PIECE_NBYTES) if offset in whole
    )
    assert 0 in whole
    assert files(tmp_path) == {"big": BIG}


def test_an_object_that_came_damaged_is_fetched_again(s3, tmp_path):
    put(s3, data__a=b"x" * 1000, data__big=BIG)
    bucket = S3Bucket("s3://digits/data")
    real, real_range, spoilt = bucket.read, bucket.read_range, []

    def spoil(take):
        def changed(data):
            is_first = not spoilt
            spoilt.append(True)
            take(b"\0" + data[1:] if is_first else data)

        return changed

    bucket.read = lambda key, etag, take: real(key, etag, spoil(take))
    cache = DataCache(tmp_path)
    with cache.open():
        list(Fetching(bucket, cache).turns())
    assert files(tmp_path) == {"a": b"x" * 1000, "big": BIG}

    spoilt.clear()
    (tmp_path / "big").unlink()
    bucket.read_range = lambda key, etag, offset, nbytes, take: real_range(
        key, etag, offset, nbytes, spoil(take)
    )
    with cache.open():
        list(Fetching(bucket, cache).turns())

    assert files(tmp_path) == {"a": b"x" * 1000, "big": BIG}


def test_what_was_put_in_parts_is_checked_by_its_parts(s3, tmp_path):
    size = 6 << 20
    begun = s3.create_multipart_upload(Bucket="digits", Key="big")["UploadId"]
    named = {"Bucket": "digits", "Key": "big", "UploadId": begun}
    parts = []
    for number, start in enumerate(range(0, len(BIG), size), 1):
        piece = BIG[start : start + size]
        etag = s3.upload_part(**named, PartNumber=number, Body=piece)["ETag"]
        parts.append({"ETag": etag, "PartNumber": number})
    s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    bucket = S3Bucket("s3://digits/big")
    (entry,) = bucket.entries().values()
    assert entry.digest.endswith(f"-{len(parts)}")
    checked = []
    real = bucket.part_sizes
    bucket.part_sizes = lambda *asked: checked.append(real(*asked)) or checked[-1]

    cache = DataCache(tmp_path)
    with cache.open():
        list(Fetching(bucket, cache).turns())

    assert files(tmp_path) == {"big": BIG}
    assert sum(checked[0]) == len(BIG)


def test_a_sha256_that_s3_has_is_what_counts(s3, tmp_path):
    digest = b64encode(sha256(b"12345").digest()).decode()
    s3.put_object(Bucket="digits", Key="a", Body=b"12345", ChecksumSHA256=digest)
    bucket = S3Bucket("s3://digits")
    ((key, entry),) = bucket.entries().items()

    checks = bucket.read(key, entry.digest, lambda data: None)

    assert checks.sha256 in (digest, "")


def test_while_s3_is_out_of_reach_it_is_asked_again(s3, tmp_path):
    put(s3, data__a=b"1")
    bucket = S3Bucket("s3://digits/data")
    real, tries = bucket.read, []

    def unreliable(*asked):
        tries.append(asked)
        if len(tries) == 1:
            raise Unanswered("no")
        return real(*asked)

    bucket.read = unreliable
    cache = DataCache(tmp_path)
    with cache.open():
        list(Fetching(bucket, cache).turns())

    assert len(tries) == 2
    assert files(tmp_path) == {"a": b"1"}


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("s3://absent-bucket/x", "s3://absent-bucket/x does not exist (The specified "),
        ("s3://digits/none", "There is no object in s3://digits/none; correct it, or upload data"),
    ],
)
def test_what_is_not_there_is_one_sentence(s3, tmp_path, url, sentence):
    with pytest.raises(MachineError) as refused:
        fetch(url, tmp_path)

    assert sentence in str(refused.value)


def test_an_object_that_changes_meanwhile_is_reported(s3, tmp_path):
    put(s3, a=b"1")
    bucket = S3Bucket("s3://digits")
    ((key, entry),) = bucket.entries().items()
    put(s3, a=b"2")

    with pytest.raises(MachineError, match="An object of s3://digits was changed while it was"):
        bucket.read(key, entry.digest, lambda data: None)


def test_a_key_that_leads_out_of_the_folder_is_refused(s3, tmp_path):
    s3.put_object(Bucket="digits", Key="data/../../evil", Body=b"1")

    with pytest.raises(Exception, match="cannot be a file of the data"):
        fetch("s3://digits/data", tmp_path / "to")

    assert not (tmp_path / "evil").exists()


def test_without_credentials_it_is_said_what_is_missing(s3, tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)

    with pytest.raises(MachineError, match="There are no AWS credentials for s3://digits/x on"):
        fetch("s3://digits/x", tmp_path)


def test_a_file_is_put_there_with_its_sha256(s3):
    S3Bucket("s3://digits/results").write("run/deep/a.npz", io.BytesIO(b"12345"))

    answer = s3.get_object(Bucket="digits", Key="results/run/deep/a.npz", ChecksumMode="ENABLED")
    with contextlib.closing(answer["Body"]) as body:
        assert body.read() == b"12345"
    assert answer["ChecksumSHA256"] == b64encode(sha256(b"12345").digest()).decode()


def test_the_agent_fetches_and_reports_its_progress(s3, tmp_path):
    put(s3, data__a=b"1" * 1000)
    session = LocalSession(Host("localhost", 1), tmp_path)
    with contextlib.closing(session):
        call = agent_of(session).call(FetchData(str(tmp_path / "to").encode(), "s3://digits"))
        said = [*call.messages(60.0)]

    assert said[-1].done == said[-1].total == 1000
    assert call.is_over
    assert files(tmp_path / "to") == {"data/a": b"1" * 1000}
