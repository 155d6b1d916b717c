"""What a page says to the server: bodies and queries of its requests, and its WebSocket messages.

Pages are not trusted. Each refusal is one sentence with the value and the remedy.
``extension/messages.py`` writes the page's types from these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, field
from msgspec.structs import fields

from workbench.core import messages
from workbench.core.messages import BaseMessage
from workbench.core.quote import quote_value
from workbench.core.run_id import is_run_id
from workbench.errors import InputError, ProtocolError, Unknown

BODY_BYTES = 128_000  # the most hosts, with a prepare script
_MOST = 2**53 - 1  # the largest whole number in JavaScript
_MOST_RUNS = 200
_MOST_BUCKETS = 4000
_HOLDER = re.compile(r"[0-9A-Za-z-]{8,64}")
_WHOLE = re.compile(r"-?[0-9]{1,16}")

Whole = Annotated[int, Meta(ge=0, le=_MOST)]


class Request(BaseMessage, frozen=True, kw_only=True):
    """What a page sends: nothing, unless a subclass adds fields."""


class FormRequest(Request, frozen=True, kw_only=True):
    """The nodes that a form asks for.

    Args:
        provider: Its name.
        hosts: One on each line, in mpiexec's format, if the provider lists hosts.
        type: The chosen instance type; empty for any that fits.
        values: What was entered, by the names of the provider's fields; numbers as text.
    """

    provider: str
    nodes: Whole = 2
    min_nodes: Whole = 1
    max_nodes: Whole = 0
    hosts: str = ""
    type: str = ""
    values: Mapping[str, str | bool] = field(default_factory=dict)


class KeysRequest(Request, frozen=True, kw_only=True):
    """The hosts whose keys are asked for.

    Args:
        trusted: The lines of known_hosts that the person has confirmed.
    """

    form: FormRequest
    trusted: tuple[str, ...] = ()


class HostFileRequest(Request, frozen=True, kw_only=True):
    """The host file to read, as its path on the machine of the server or kernel."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]


class ProofRequest(Request, frozen=True, kw_only=True):
    """What is left of a deleted cluster is asked for.

    Args:
        spent: The dollars that the page showed last; the store may know less by the end.
    """

    spent: Annotated[float, Meta(ge=0, le=_MOST)] = 0.0


class SizeRequest(Request, frozen=True, kw_only=True):
    """The desired size of a cluster, in ranks or in nodes.

    Args:
        ranks: Without ``ranks`` and ``nodes`` the size is the server's default.
        form: The nodes to start, in place of a size.
        oversubscribe: Whether there may be more ranks than cores.
        agreed: The confirmed price of all nodes together in $/h.
        across_zones: Whether nodes may be added in other zones from now on.
        at: When a run that trains moves to a new size.
    """

    ranks: Whole | None = None
    oversubscribe: bool = False
    nodes: Whole | None = None
    form: FormRequest | None = None
    agreed: Annotated[float, Meta(gt=0, le=_MOST)] | None = None
    across_zones: bool = False
    at: Literal["step", "epoch", "end"] = "step"


class ExtensionRequest(Request, frozen=True, kw_only=True):
    """By how much a cluster's time to live is extended."""

    seconds: Annotated[float, Meta(gt=0, le=366 * 86400)]


class NotebookRequest(Request, frozen=True, kw_only=True):
    """The notebook that a page saves, as its path on this server."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]


class RunsQuery(Request, frozen=True, kw_only=True):
    """Which runs are listed; those of all clusters without ``cluster``."""

    cluster: str | None = None
    limit: Annotated[int, Meta(ge=1, le=_MOST_RUNS)] = 20


class CurvesQuery(Request, frozen=True, kw_only=True):
    """A part of a run's curves, from iteration ``first`` to ``last``."""

    first: Whole
    last: Whole
    buckets: Annotated[int, Meta(ge=2, le=_MOST_BUCKETS)]

    def __post_init__(self) -> None:
        """Check the order."""
        if self.last < self.first:
            raise ValueError(f"expected last of at least {self.first}")


class FollowQuery(Request, frozen=True, kw_only=True):
    """What a page that follows a run has of it.

    Args:
        feed: The feed that it followed before, or empty.
        version: The version of that feed's curves that it has.
        stay: 1 to stay connected after the end.
    """

    feed: str = ""
    version: Whole = 0
    stay: Annotated[int, Meta(ge=0, le=1)] = 0


class Ack(Request, frozen=True, kw_only=True, tag="ack"):
    """The page has drawn the points up to ``version``; only then more are sent."""

    version: Whole


class OutputRequest(Request, frozen=True, kw_only=True, tag="output"):
    """The page requests output, once it has taken the earlier output.

    Args:
        after: The sequence number after which it starts; null for no more output.
    """

    after: Whole | None


PageMessage = Ack | OutputRequest
REQUESTS: tuple[type[Request], ...] = (
    FormRequest, KeysRequest, HostFileRequest, ProofRequest, SizeRequest, ExtensionRequest,
    NotebookRequest, RunsQuery, CurvesQuery, FollowQuery, Ack, OutputRequest,
)  # fmt: skip

R = TypeVar("R", bound=Request)


def read_body(kind: type[R], body: bytes) -> R:
    """Return a request's body; no body is the same as an empty object.

    Raises:
        InputError: It is too long, or is not a ``kind``.
    """
    if len(body) > BODY_BYTES:
        raise InputError(f"The body has {len(body):,} bytes", f"send at most {BODY_BYTES:,}.")
    with _refusal(kind):
        return messages.decode(kind, body or b"{}")


def read_query(kind: type[R], query: Mapping[str, str]) -> R:
    """Return the query of a request's URL; parameters that ``kind`` lacks are left alone.

    Raises:
        InputError: It is not a ``kind``.
    """
    values: dict[str, str | int] = {}
    for one in fields(kind):
        if (text := query.get(one.name)) is not None:
            is_number = one.type not in (str, str | None) and _WHOLE.fullmatch(text)
            values[one.name] = int(text) if is_number else text
    with _refusal(kind):
        return messages.convert(kind, values)


def read_page_message(text: str | bytes) -> PageMessage:
    """Return a page's message over its WebSocket.

    Raises:
        InputError: It is not a valid message.
    """
    if isinstance(text, bytes):
        raise InputError(
            f"A binary message of {len(text)} bytes was received", "send JSON as text."
        )
    with _refusal(Ack, OutputRequest):
        found: PageMessage = messages.decode(PageMessage, text)
    return found


def check_run_id(text: str) -> str:
    """Return ``text``, which is the id of a run.

    Raises:
        Unknown: It does not have the form of an id; a run's name is not accepted.
    """
    if not is_run_id(text):
        raise Unknown(
            f"No run has the id {quote_value(text)}", "an id looks like 251231-235959-ab2c."
        )
    return text


def check_holder(text: str) -> str:
    """Return ``text``, which is the id of a page's turn.

    Raises:
        InputError: It does not have the form of a random id.
    """
    if not _HOLDER.fullmatch(text):
        raise InputError(
            f"No turn has the id {quote_value(text)}", "send 8 to 64 letters, digits, dashes."
        )
    return text


@contextmanager
def _refusal(*kinds: type[Request]) -> Iterator[None]:
    try:
        yield
    except ProtocolError as error:
        tags = ["type" for kind in kinds if kind.__struct_config__.tag]
        names = dict.fromkeys([*tags, *(name for kind in kinds for name in kind.__struct_fields__)])
        known = ", ".join(map(repr, names)) or "none"
        raise InputError(f"What was sent is refused: {error}. Known fields: {known}.") from error
