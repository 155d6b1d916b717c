"""The botocore client of one region of AWS, with its errors mapped once."""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from types import TracebackType
from typing import Any

import botocore.session
from botocore import exceptions
from botocore.config import Config
from botocore.parsers import ResponseParserError

from workbench.cloud.ec2.api import build_error
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.errors import CloudError, InputError

# It logs each time where it found its settings.
logging.getLogger("botocore").setLevel(logging.WARNING)
ATTEMPTS = 5
# Signing in may prompt the user, or run a program of theirs: not more often than this.
RENEWAL_SECONDS = 60.0
ACCOUNT = "account"


class Ec2Client:
    """One region of AWS, through botocore; every error is mapped here, once.

    Rejected credentials are read again: botocore itself keeps what it has read from a file even
    after the file has changed. New ones must belong to the account that has the cluster's
    resources: in another account all nodes would seem gone, and would be bought again.

    Args:
        endpoint: URL of the API, for a rehearsal; empty for AWS.
        attempts: Calls in all, with growing pauses, while EC2 throttles them.
        clock: Returns seconds.
        known: Has the account's number as ``account``, once ``keep_account`` was called.
    """

    def __init__(
        self,
        region: str,
        endpoint: str = "",
        attempts: int = ATTEMPTS,
        clock: Callable[[], float] = time.monotonic,
        known: MutableMapping[str, str] | None = None,
    ) -> None:
        self.region = region
        self._attempts = attempts
        self._clock = clock
        self._known = {} if known is None else known
        self._renewals = 0
        self._renewed = -math.inf
        self.endpoint = endpoint
        self._clients: dict[str, Any] = {}
        self._session: Any = None
        self._lock = threading.Lock()

    def call(self, service: str, operation: str, **request: Any) -> dict[str, Any]:
        """Make one call."""
        renewals = self._renewals
        try:
            return self._call(service, operation, request)
        except CloudError as error:
            if not self._renews(error, renewals):
                raise
        return self._call(service, operation, request)

    def keep_account(self) -> None:
        """Record the account's number before a resource is created in it.

        Raises:
            CloudError: The credentials are not accepted.
        """
        if ACCOUNT not in self._known:
            self._known[ACCOUNT] = str(self.call("sts", "get_caller_identity")["Account"])

    def rows(
        self, service: str, operation: str, path: str, **request: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the entries of all pages."""
        renewals, is_begun = self._renewals, False
        try:
            for row in self._rows(service, operation, path, request):
                is_begun = True
                yield row
        except CloudError as error:
            if is_begun or not self._renews(error, renewals):
                raise
        else:
            return
        yield from self._rows(service, operation, path, request)

    def _call(self, service: str, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        with _Mapped():
            answer: dict[str, Any] = getattr(self.client(service), operation)(**request)
            return answer

    def _rows(
        self, service: str, operation: str, path: str, request: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        with _Mapped():
            client = self.client(service)
            if client.can_paginate(operation):
                pages = client.get_paginator(operation).paginate(**request)
            else:
                pages = [getattr(client, operation)(**request)]
            for page in pages:
                yield from _entries(page, path.split("."))

    def _renews(self, error: CloudError, renewals: int) -> bool:
        """Return whether to repeat a call because the credentials were read again.

        Args:
            renewals: The number of renewals when the call was made.
        """
        if error.kind != ErrorKind.CREDENTIALS:
            return False
        with self._lock:
            if renewals != self._renewals:  # another thread did
                return True
            if self._clock() - self._renewed < RENEWAL_SECONDS:
                return False
            self._renewed = self._clock()
            self._renewals += 1
            self._session = None
            self._clients = {}
            return True

    def client(self, service: str) -> Any:
        """Return botocore's client, the same one until the credentials are read again.

        Raises:
            InputError: No region is configured.
        """
        if not self.region:
            raise InputError(
                "No region is configured",
                "name one (in a shell: --region us-east-1), or set a default with "
                "aws configure set region us-east-1.",
            )
        with self._lock:  # two threads may share a client, but not a session that makes one
            if service not in self._clients:
                self._session = self._session or self._sign_in()
                self._clients[service] = self._build_client(self._session, service)
            return self._clients[service]

    def _sign_in(self) -> Any:
        """Read the credentials, and compare their account with the recorded one."""
        session = botocore.session.Session()
        session.register_component("data_loader", _models())
        if ours := self._known.get(ACCOUNT):
            found = str(self._build_client(session, "sts").get_caller_identity()["Account"])
            if found != ours:
                raise CloudError(
                    f"The credentials belong to the AWS account {found}, and the cluster's nodes "
                    f"to {ours}",
                    ErrorKind.CREDENTIALS,
                    "OtherAccount",
                    remedy=f"sign in to {ours}; they are read again within a minute.",
                )
        return session

    def _build_client(self, session: Any, service: str) -> Any:
        return session.create_client(
            service,
            region_name=_price_list_region(self.region) if service == "pricing" else self.region,
            endpoint_url=self.endpoint or None,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": self._attempts},
                connect_timeout=10,
                read_timeout=60,
                user_agent_extra="workbench",
            ),
        )


def _price_list_region(region: str) -> str:
    """Return the nearest region with an endpoint of the price list; few regions have one."""
    near = {"ap": "ap-south-1", "eu": "eu-central-1"}
    return near.get(region.partition("-")[0], "us-east-1")


@functools.cache
def _models() -> Any:
    """Return the reader of the services' models; all regions share what it has parsed."""
    return botocore.session.Session().get_component("data_loader")


def _entries(page: Mapping[str, Any], path: Sequence[str]) -> Iterator[dict[str, Any]]:
    for entry in page.get(path[0]) or ():
        if path[1:]:
            yield from _entries(entry, path[1:])
        else:
            yield entry


class _Mapped:
    """A context in which botocore's errors become ``CloudError``."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, exceptions.ClientError):
            answer = error.response.get("Error", {})
            code, message = answer.get("Code") or "NoAnswer", answer.get("Message") or ""
            raise build_error(code, message) from error
        if isinstance(error, _NO_CREDENTIALS):
            raise build_error("NoCredentials", str(error)) from error
        if isinstance(error, exceptions.BotoCoreError | ResponseParserError):
            raise build_error(_code(error), str(error)) from error


_NO_CREDENTIALS = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.TokenRetrievalError,
    exceptions.SSOError,
    exceptions.ProfileNotFound,
)


_NO_ANSWER = (exceptions.HTTPClientError, exceptions.ConnectionError, ResponseParserError)


def _code(error: Exception) -> str:
    if isinstance(error, _NO_ANSWER):
        return "NoAnswer"
    return f"Invalid.{type(error).__name__}"
