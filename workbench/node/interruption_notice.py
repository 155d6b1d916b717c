"""Poll EC2's metadata service on the node for interruption notices.

It needs no AWS right. Nothing is requested before the supervisor asks for notices, and only from
``METADATA`` unless another address is given.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from workbench.core.node.agent_protocol import Notice
from workbench.node.stream import Call

METADATA = "http://169.254.169.254"
ACTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
ACTIONS = ("terminate", "stop", "hibernate")
# A notice comes two minutes ahead; AWS advises to poll every five seconds.
ASK_SECONDS = 2.0
ANSWER_SECONDS = 1.0
TOKEN_SECONDS = 21600
MOST_NBYTES = 1 << 12


def watch_notices(call: Call, base: str) -> None:
    """Send each notice once, until the call is cancelled.

    Args:
        base: The service's URL; empty for no service, and so no notice.
    """
    service = MetadataService(base) if base else None
    heard: list[Notice] = []
    while True:
        for notice in service.notices() if service else ():
            if notice not in heard:
                heard.append(notice)
                call.post(notice)
        if call.wait(ASK_SECONDS):
            call.take()


def usual_place(environment: Mapping[str, str]) -> str:
    """Return the default address to poll; empty if AWS's own switch disables it."""
    forbidden = environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    return "" if forbidden else METADATA


class MetadataService:
    """The metadata service, version 2: every request has a token."""

    def __init__(self, base: str = METADATA) -> None:
        self._base = urlsplit(base)
        self._token = ""
        self._token_until = 0.0

    def notices(self) -> tuple[Notice, ...]:
        """Return the present notices; none where there is no such service."""
        try:
            found = (read_action(self._get(ACTION)), read_rebalance(self._get(REBALANCE)))
        except (OSError, HTTPException):
            self._token = ""
            return ()
        return tuple(notice for notice in found if notice)

    def _get(self, path: str) -> str:
        """Return the body at ``path``; empty if there is none."""
        if not self._token or time.monotonic() > self._token_until:
            self._token = self._new_token()
        status, text = self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if status == 401:
            self._token = ""
        return text if status == 200 else ""

    def _new_token(self) -> str:
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
        status, text = self._ask("PUT", "/latest/api/token", ttl)
        if status != 200 or not text:
            raise HTTPException(f"no token: status {status}")
        self._token_until = time.monotonic() + TOKEN_SECONDS / 2
        return text

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        """Send one request, without a proxy and without following redirects."""
        host, port = self._base.hostname or "", self._base.port or 80
        connection = HTTPConnection(host, port, timeout=ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(MOST_NBYTES).decode(errors="replace").strip()


def read_action(text: str) -> Notice | None:
    """Return the notice in ``spot/instance-action``; None if there is none."""
    found = _read(text, "time")
    return Notice(found[0], found[1]) if found and found[0] in ACTIONS else None


def read_rebalance(text: str) -> Notice | None:
    """Return the recommendation in ``events/recommendations/rebalance``, if any."""
    found = _read(text, "noticeTime")
    return Notice("rebalance", found[1]) if found else None


def _read(text: str, key: str) -> tuple[str, float] | None:
    try:
        body = json.loads(text)
        at = datetime.fromisoformat(body[key])
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return str(body.get("action", "")), at.timestamp()
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
