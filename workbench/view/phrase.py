"""Texts that a page translates, with their arguments; a terminal shows them in English.

``extension/catalogue.py`` collects the texts, so ``phrase`` and ``counted`` take literals only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import msgspec

from workbench.core.units import duration, number

Unit = Literal["count", "value", "rate", "duration"]
_ENGLISH: Mapping[Unit, Callable[[float], str]] = {
    "count": lambda amount: f"{amount:,.0f}",
    "value": number,
    "rate": partial(number, digits=3),
    "duration": duration,
}
_PLACE = re.compile(r"%(\d+)")


class Phrase(msgspec.Struct, frozen=True):
    """A text to translate.

    Args:
        text: In English; ``%1`` is the first argument.
        args: Strings are shown as they are, numbers in the format of their unit; a duration is in
            seconds. Null is the label of what the text describes.
        plural: The text for an ``amount`` other than 1; then ``%1`` is ``amount`` and ``%2`` the
            first argument. Empty for a text without one.
    """

    text: str
    args: tuple[str | tuple[Unit, float] | Phrase | None, ...] = ()
    plural: str = ""
    amount: int = 0


Amount = tuple[Unit, float]
Argument = str | Amount | Phrase | None
Said = Phrase | str  # a string is shown as it is


def phrase(text: str, *args: Argument) -> Phrase:
    """Return a text with its arguments."""
    return Phrase(text, args)


def counted(text: str, plural: str, amount: int, *args: Argument) -> Phrase:
    """Return a text that depends on an amount, with its other arguments."""
    return Phrase(text, args, plural, amount)


def english(said: Said, label: str = "") -> str:
    """Return a text in English.

    Args:
        label: Of what it describes.
    """
    if isinstance(said, str):
        return said
    args = [_argument(one, label) for one in said.args]
    if said.plural:
        args.insert(0, f"{said.amount:,}")
    text = said.plural if said.plural and said.amount != 1 else said.text
    return _PLACE.sub(lambda place: args[int(place[1]) - 1], text)


def _argument(argument: Argument, label: str) -> str:
    if isinstance(argument, tuple):
        unit, amount = argument
        return _ENGLISH[unit](amount)
    return label if argument is None else english(argument, label)
