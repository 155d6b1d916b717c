"""Schemas of what a page sends: request bodies, and WebSocket messages.

Each error is one sentence with the value and the remedy. ``extension/messages.py`` writes the
page's types from these. They are slow to build, so the module is loaded with the first body.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

from workbench.core.quote import shown
from workbench.errors import InputError
from workbench.server.path_validation import MOST

BODY_BYTES = 16_000


_STRICT = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Body:
    """A request's body: empty, unless a subclass adds fields."""


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class SizeRequest(Body):
    """The desired size of a cluster, in ranks or in nodes.

    Args:
        ranks: Without ``ranks`` and ``nodes`` the size is the server's default.
        oversubscribe: Whether there may be more ranks than cores.
        agreed: The confirmed price of all nodes together in $/h.
        across_zones: Whether nodes may be added in other zones from now on.
        at: When a run that trains moves to a new size.
    """

    ranks: Annotated[int | None, Field(ge=0, le=MOST)] = None
    oversubscribe: bool = False
    nodes: Annotated[int | None, Field(ge=0, le=MOST)] = None
    agreed: Annotated[float | None, Field(gt=0, le=MOST)] = None
    across_zones: bool = False
    at: Literal["step", "epoch", "end"] = "step"


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class ExtensionRequest(Body):
    """By how much a cluster's time to live is extended."""

    seconds: Annotated[float, Field(gt=0, le=366 * 86400)]


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class NotebookRequest(Body):
    """The notebook that a page saves, as its path on this server."""

    path: Annotated[str, Field(min_length=1, max_length=4096)]


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Ack(Body):
    """The page has drawn the points up to ``version``; only then more are sent."""

    type: Literal["ack"]
    version: Annotated[int, Field(ge=0, le=MOST)]


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class OutputRequest(Body):
    """The page requests output, once it has taken the earlier output.

    Args:
        after: The sequence number after which it starts; null for no more output.
    """

    type: Literal["output"]
    after: Annotated[int | None, Field(ge=0, le=MOST)]


REQUESTS: tuple[type[Body], ...] = (
    SizeRequest, ExtensionRequest, NotebookRequest, Ack, OutputRequest,
)  # fmt: skip
PageMessage = Ack | OutputRequest
_PAGE_MESSAGE = TypeAdapter[PageMessage](Annotated[PageMessage, Field(discriminator="type")])

B = TypeVar("B", bound=Body)


def body_as(model: type[B], body: bytes) -> B:
    """Return a request's body as ``model``; no body is the same as an empty object.

    Raises:
        InputError: It does not match the model.
    """
    if len(body) > BODY_BYTES:
        raise InputError(f"The body has {len(body):,} bytes", f"send at most {BODY_BYTES:,}.")
    try:
        return TypeAdapter(model).validate_json(body or b"{}")
    except ValidationError as error:
        raise InputError(
            _sentence(error.errors()[0], tuple(field.name for field in fields(model)))
        ) from error


def page_message(text: str | bytes) -> PageMessage:
    """Return a page's message over its WebSocket.

    Raises:
        InputError: It is not a valid message.
    """
    if isinstance(text, bytes):
        raise InputError(
            f"A binary message of {len(text)} bytes was received", "send JSON as text."
        )
    try:
        return _PAGE_MESSAGE.validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        problem["loc"] = problem["loc"][1:]  # which of the two models was tried
        raise InputError(_sentence(problem, ("type", "version", "after"))) from error


def _sentence(problem: ErrorDetails, fields: tuple[str, ...]) -> str:
    name, given = ".".join(map(str, problem["loc"])), shown(problem["input"])
    *others, last = [repr(field) for field in fields] or ["none"]
    known = f"{', '.join(others)} and {last}" if others else last
    match problem["type"]:
        case "json_invalid":
            return f"What was sent is not JSON ({problem['ctx']['error']}); send an object."
        case "dataclass_type" | "model_attributes_type" | "dict_type":
            return f"What was sent is {given}; send an object with the fields {known}."
        case "unexpected_keyword_argument":
            return f"There is no field {shown(name)}; the fields are {known}."
        case "missing":
            return f"The field {name!r} is missing; the fields are {known}."
        case "union_tag_invalid" | "union_tag_not_found":
            return f"What was sent is {given}; its type must be 'ack' or 'output'."
    return f"{name} is {given}: {problem['msg']}."
