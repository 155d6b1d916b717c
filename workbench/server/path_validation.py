"""Validate the values in a request's URL; each error has the value and the remedy."""

from __future__ import annotations

import re

from workbench.core.quote import shown
from workbench.core.run_id import is_run_id
from workbench.errors import InputError, Unknown

MOST = 2**53 - 1  # the largest whole number in JavaScript
_HOLDER = re.compile(r"[0-9A-Za-z-]{8,64}")
_WHOLE = re.compile(r"-?[0-9]{1,16}")


def whole_number(
    name: str, text: str | None, least: int = 0, most: int = MOST, default: int | None = None
) -> int:
    """Return a whole number from the query.

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
    """Return ``text`` after a check that it is a run's id.

    Raises:
        Unknown: It does not have the form of an id; a run's name is not accepted.
    """
    if not is_run_id(text):
        raise Unknown(f"No run has the id {shown(text)}", "an id looks like 251231-235959-ab2c.")
    return text


def holder_id(text: str) -> str:
    """Return ``text`` after a check that it is the id of a page's turn.

    Raises:
        InputError: It does not have the form of a random id.
    """
    if not _HOLDER.fullmatch(text):
        raise InputError(
            f"No turn has the id {shown(text)}", "send 8 to 64 letters, digits, dashes."
        )
    return text
