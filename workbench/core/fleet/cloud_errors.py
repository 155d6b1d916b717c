"""Decide what helps against a provider's error: waiting, a fallback, a pause, the user.

A provider maps its own errors to a ``CloudError`` with one of these kinds. A fleet stops only for
what the user alone can change: a permission, or a setting. All else is tried again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from workbench.errors import CloudError


class ErrorKind(StrEnum):
    """The subject of a provider's error; throttling is any request to wait."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    PRICE = "price"
    PERMISSION = "permission"
    CREDENTIALS = "credentials"
    CONFIGURATION = "configuration"
    THROTTLING = "throttling"
    EARLY = "too early"
    BUSY = "busy"
    UNKNOWN = "unknown"


class Reaction(StrEnum):
    """The reaction to a provider's error."""

    NEXT_CANDIDATE = "try the next fallback"
    PAUSE = "report why, and begin again at the first fallback after a while"
    STOP = "stop until the user has acted"
    BACK_OFF = "report nothing, and repeat the same call later"


# Errors that the next fallback would have as well.
_EVERYWHERE = (
    ErrorKind.PERMISSION,
    ErrorKind.CREDENTIALS,
    ErrorKind.QUOTA,
    ErrorKind.THROTTLING,
    ErrorKind.BUSY,
)
_STEPS = {
    ErrorKind.PERMISSION: Reaction.STOP,
    ErrorKind.CONFIGURATION: Reaction.STOP,
    ErrorKind.CREDENTIALS: Reaction.PAUSE,
    ErrorKind.EARLY: Reaction.PAUSE,
    ErrorKind.BUSY: Reaction.PAUSE,
    ErrorKind.THROTTLING: Reaction.BACK_OFF,
}

# What helps a command that asked once, where a fleet would try again by itself.
_AGAIN = "run the command again in a minute"
_ONCE: Mapping[str, str] = {
    ErrorKind.CAPACITY: "choose another type or zone, or run the command again later",
    ErrorKind.QUOTA: "request a higher quota in the Service Quotas console, or use fewer or "
    "smaller nodes; machines that have just ended may count for some minutes",
    ErrorKind.PRICE: "raise your maximum price, or choose another type",
    ErrorKind.THROTTLING: _AGAIN,
    ErrorKind.EARLY: _AGAIN,
    ErrorKind.BUSY: _AGAIN,
    ErrorKind.UNKNOWN: "change what it names, or run the command again later",
}


def step(kind: str) -> Reaction:
    """Return the reaction to an error of this kind; after the last fallback, it is a pause."""
    return (
        _STEPS.get(ErrorKind(kind), Reaction.NEXT_CANDIDATE)
        if kind in {*ErrorKind}
        else Reaction.NEXT_CANDIDATE
    )


def asked_once(error: CloudError) -> CloudError:
    """Return a provider's error for a command that asks once, and so repeats nothing later."""
    remedy = _ONCE.get(error.kind) if error.code else None
    if remedy is None:
        return error
    return CloudError(error.what, error.kind, error.code, remedy=f"{remedy}.")


def kind_for_fallbacks(kind: str, *, placement: bool) -> str:
    """Return the kind of an error for the fallbacks; another placement may still succeed."""
    return ErrorKind.CAPACITY if placement and kind not in _EVERYWHERE else kind
