"""Schemas of what a page sends: request bodies, and WebSocket messages.

Each error is one sentence with the value and the remedy. These models are slow to build, so the
module is loaded with the first body.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from workbench.core.quote import shown
from workbench.errors import InputError
from workbench.server.path_validation import MOST

BODY_BYTES = 16_000


class Body(BaseModel):
    """A request's body: empty, unless a subclass adds fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SizeRequest(Body):
    """The desired size of a cluster, in ranks or in nodes.

    ``agreed`` is the confirmed price of all nodes together in $/h. With ``across_zones`` nodes may
    be added in other zones from now on.
    """

    ranks: int | None = Field(None, description="a whole number")
    oversubscribe: bool = Field(False, description="true or false")
    nodes: int | None = Field(None, description="a whole number")
    agreed: float | None = Field(None, gt=0, description="a number of dollars an hour")
    across_zones: bool = Field(False, description="true or false")


class Extension(Body):
    """By how much a cluster's time to live is extended."""

    seconds: float = Field(gt=0, le=366 * 86400, description="a number of seconds")


class Notebook(Body):
    """The notebook that a page saves."""

    path: str = Field(min_length=1, max_length=4096, description="its path on this server")


class Ack(Body):
    """The page has drawn the points up to ``version``."""

    type: Literal["ack"]
    version: int = Field(ge=0, le=MOST, description="a version that was sent")


class Output(Body):
    """The page requests the output after ``after``; none for None."""

    type: Literal["output"]
    after: int | None = Field(ge=0, le=MOST, description="a sequence number, or null")


PageMessage = Ack | Output
_PAGE_MESSAGE = TypeAdapter[PageMessage](Annotated[Ack | Output, Field(discriminator="type")])

B = TypeVar("B", bound=Body)


def body_as(model: type[B], body: bytes) -> B:
    """Return a request's body as ``model``; no body is the same as an empty object.

    Raises:
        InputError: It does not match the model.
    """
    if len(body) > BODY_BYTES:
        raise InputError(f"The body has {len(body):,} bytes", f"send at most {BODY_BYTES:,}.")
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise InputError(_sentence(error.errors()[0], tuple(model.model_fields))) from error


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
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"What was sent is {given}; send an object with the fields {known}."
        case "extra_forbidden":
            return f"There is no field {shown(name)}; the fields are {known}."
        case "missing":
            return f"The field {name!r} is missing; the fields are {known}."
        case "union_tag_invalid" | "union_tag_not_found":
            return f"What was sent is {given}; its type must be 'ack' or 'output'."
    return f"{name} is {given}: {problem['msg']}."
