"""Read and write one prefix of S3 with this node's own role."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
)

from workbench.core.node.staging import CHUNK_NBYTES, StagingEntry, parse_bucket, relative_key
from workbench.errors import MachineError

AT_ONCE = 16
_DENIED = frozenset({"AccessDenied", "403", "Forbidden"})
_CHANGED = frozenset({"PreconditionFailed", "412"})
_CONFLICT = frozenset({"ConditionalRequestConflict", "409"})
_ABSENT = frozenset({"NoSuchBucket", "NoSuchKey", "404"})


@dataclass(frozen=True)
class S3Checks:
    """The checksums that S3 has of an object, to check its copy.

    Args:
        sha256: In base64; empty where S3 has none of the whole object.
        etag: MD5 in hex, of the object or of its parts' MD5s; empty for any other ETag.
    """

    sha256: str = ""
    etag: str = ""


class S3Bucket:
    """A bucket and a key prefix in it.

    Args:
        url: ``s3://bucket/prefix``.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.bucket, self.prefix = parse_bucket(url)
        self._client: Any = None

    def __repr__(self) -> str:
        return f"<Bucket {self.url}>"

    def entries(self) -> dict[str, StagingEntry]:
        """Return all objects of the prefix by their keys.

        Raises:
            MachineError: S3 does not answer, denies access, or has no object there.
        """
        found = {}
        with self._explain_errors():
            pages = self._s3().get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix):
                for item in page.get("Contents", ()):
                    if path := relative_key(item["Key"], self.prefix):
                        etag = item["ETag"].strip('"')
                        found[item["Key"]] = StagingEntry(path, item["Size"], etag)
        if not found:
            raise MachineError(f"There is no object in {self.url}", "correct it, or upload data.")
        return found

    def read(self, key: str, etag: str, take: Callable[[bytes], None]) -> S3Checks:
        """Read a whole object, piece by piece.

        Raises:
            MachineError: The object was changed since, or S3 does not answer.
        """
        with self._explain_errors():
            answer = self._s3().get_object(
                Bucket=self.bucket, Key=key, IfMatch=f'"{etag}"', ChecksumMode="ENABLED"
            )
            _pass_on(answer["Body"], take)
        return _read_checks(answer)

    def read_range(
        self, key: str, etag: str, offset: int, nbytes: int, take: Callable[[bytes], None]
    ) -> None:
        """Read a range of an object, piece by piece."""
        span = f"bytes={offset}-{offset + nbytes - 1}"
        with self._explain_errors():
            answer = self._s3().get_object(
                Bucket=self.bucket, Key=key, IfMatch=f'"{etag}"', Range=span
            )
            _pass_on(answer["Body"], take)

    def checks(self, key: str, etag: str) -> S3Checks:
        """Return the checksums of a whole object."""
        with self._explain_errors():
            return _read_checks(
                self._s3().head_object(
                    Bucket=self.bucket, Key=key, IfMatch=f'"{etag}"', ChecksumMode="ENABLED"
                )
            )

    def part_sizes(self, key: str, amount: int) -> list[int]:
        """Return the sizes of the parts in which an object was uploaded."""
        with self._explain_errors():
            return [
                self._s3().head_object(Bucket=self.bucket, Key=key, PartNumber=number)[
                    "ContentLength"
                ]
                for number in range(1, amount + 1)
            ]

    def write(self, key: str, file: BinaryIO) -> None:
        """Upload a file; S3 keeps its sha256, and checks it.

        Raises:
            MachineError: S3 does not answer, or denies access.
        """
        with self._explain_errors():
            self._s3().upload_fileobj(
                file,
                self.bucket,
                self._name(key),
                ExtraArgs={"ChecksumAlgorithm": "SHA256"},
                Config=TransferConfig(multipart_threshold=16 << 20, max_concurrency=4),
            )

    def read_small(self, key: str) -> tuple[bytes, str] | None:
        """Return content and ETag of a small object; None if there is none."""
        with self._explain_errors():
            if (answer := self._find(key)) is None:
                return None
            with contextlib.closing(answer["Body"]) as body:
                return body.read(), answer["ETag"]

    def replace(self, key: str, data: bytes, etag: str) -> bool:
        """Write a small object if it has not changed; return false if it has.

        Args:
            etag: As it was read; empty for an object that did not exist.
        """
        condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        with self._explain_errors():
            try:
                self._s3().put_object(
                    Bucket=self.bucket, Key=self._name(key), Body=data, **condition
                )
            except ClientError as error:
                # 409: another conditional write of the object was under way.
                if error.response["Error"]["Code"] in {*_CHANGED, *_ABSENT, *_CONFLICT}:
                    return False
                raise
        return True

    def read_file(self, key: str, take: Callable[[bytes], None]) -> bool:
        """Read an object of the prefix, piece by piece; return false if there is none."""
        with self._explain_errors():
            if (answer := self._find(key)) is None:
                return False
            _pass_on(answer["Body"], take)
        return True

    def remove(self, prefix: str) -> None:
        """Delete all objects whose keys begin with ``prefix``, below this one's own prefix."""
        with self._explain_errors():
            client = self._s3()
            pages = client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket, Prefix=self._name(prefix)):
                for item in page.get("Contents", ()):
                    client.delete_object(Bucket=self.bucket, Key=item["Key"])

    # -- inside

    def _find(self, key: str) -> Any:
        """Return S3's answer with an object of the prefix; None if there is none."""
        try:
            return self._s3().get_object(Bucket=self.bucket, Key=self._name(key))
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                return None
            raise

    def _name(self, key: str) -> str:
        return f"{self.prefix}/{key}".lstrip("/")

    def _s3(self) -> Any:
        if self._client is None:
            retries: Any = {"max_attempts": 5, "mode": "standard"}
            config = Config(max_pool_connections=AT_ONCE + 4, retries=retries, connect_timeout=10)
            self._client = boto3.session.Session().client("s3", config=config)
        return self._client

    @contextlib.contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except NoCredentialsError as error:
            raise MachineError(
                f"There are no AWS credentials for {self.url} on this node",
                "give the node's role rights to it (`workbench doctor --iam node`), or put "
                "credentials into ~/.aws there.",
            ) from error
        except ClientError as error:
            raise self._error(error) from error
        except BotoCoreError as error:
            raise Unanswered(
                f"S3 did not answer about {self.url} ({error})", "check the node's network."
            ) from error

    def _error(self, error: ClientError) -> MachineError:
        code, reason = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        if code in _DENIED:
            return MachineError(
                f"This node may not use {self.url} ({reason or code})",
                "give its role the rights that `workbench doctor --iam node` lists.",
            )
        if code in _ABSENT:
            return MachineError(
                f"{self.url} does not exist ({reason or code})", "correct it, or create it."
            )
        if code in _CHANGED:
            return MachineError(
                f"An object of {self.url} was changed while it was fetched",
                "leave the objects as they are, then restart the node.",
            )
        return MachineError(
            f"S3 refused a request for {self.url} ({code}: {reason})",
            "resolve that, then try again.",
        )


class Unanswered(MachineError):
    """S3 did not answer; a later attempt may succeed."""


def _pass_on(body: Any, take: Callable[[bytes], None]) -> None:
    with contextlib.closing(body):
        while data := body.read(CHUNK_NBYTES):
            take(data)


def _read_checks(answer: dict[str, Any]) -> S3Checks:
    whole = answer.get("ChecksumSHA256", "")
    plain = answer.get("ServerSideEncryption", "AES256") == "AES256"
    customer = "SSECustomerAlgorithm" in answer
    etag = answer["ETag"].strip('"') if plain and not customer else ""
    return S3Checks("" if "-" in whole else whole, etag)
