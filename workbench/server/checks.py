"""Check what stands in a request's address; each refusal is a sentence with value and remedy."""

from __future__ import annotations

import re

from workbench.core.run import is_run_id
from workbench.errors import InputError, Unknown

MOST = 2**53 - 1  # what a number in JavaScript counts to
_SHOWN = 60
_HOLDER = re.compile(r"[0-9A-Za-z-]{8,64}")
_WHOLE = re.compile(r"-?[0-9]{1,16}")


def whole_number(
    name: str, text: str | None, least: int = 0, most: int = MOST, default: int | None = None
) -> int:
    """Return a whole number of the query.

    Raises:
        InputError: It is not one, out of bounds, or missing without a default.
    """
    if text is None and default is not None:
        return default
    if text is not None and _WHOLE.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    given = "missing" if text is None else f"not {shown(text)}"
    raise InputError(f"{name} must be a whole number from {least} to {most}, {given}.")


def run_id(text: str) -> str:
    """Return ``text``, which is a run's id.

    Raises:
        Unknown: It does not have the form of one; a run's name will not do.
    """
    if not is_run_id(text):
        raise Unknown(f"No run has the id {shown(text)}; an id is as 251231-235959-ab2c.")
    return text


def holder_id(text: str) -> str:
    """Return ``text``, by which a page tells its turn from those of others.

    Raises:
        InputError: It does not have the form of a random id.
    """
    if not _HOLDER.fullmatch(text):
        raise InputError(f"No turn has the id {shown(text)}; send 8 to 64 letters, digits, dashes.")
    return text


def shown(value: object) -> str:
    """Return ``value`` as a refusal quotes it."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
