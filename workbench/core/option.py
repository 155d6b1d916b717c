"""What an option is, and how its value is written: typed in a line, or in a job file.

Shell, notebook, job file, Tab completion and the reference page are made from `Option` values; see
``core.options.table``.
"""

from __future__ import annotations

import ast
import difflib
import json
import keyword
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workbench.errors import InputError

JOB, NEEDS = "job file", "job file's needs"
"""The two tables of a job file, among the places where an option may be given."""
CLUSTER_MAGIC = "%dist_cluster"
FLEET = ("up", "offers", JOB)
NEEDED = ("up", "offers", "plan", NEEDS)
# Sections of a command's help.
PROVIDER, NODES, DATA = "Provider", "What each node needs", "Data and software"
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?(?:e\d{1,2})?) ?([kmgt]?)(i?)b?", re.IGNORECASE)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


@dataclass(frozen=True)
class Value:
    """How the values of an option are written.

    Both functions raise ValueError or TypeError for what is none, which `said` then explains, or
    InputError with a reason of its own.

    Args:
        word: The placeholder in a line's help; empty for a flag.
        said: Completes "must be …".
        read: Returns the value of a word that was typed.
        take: Returns the value of what a job file has.
        names: All values, if there are only some.
        is_pair: Whether it is one of many names with their values, which a job file has as a table.
    """

    word: str
    said: str
    read: Callable[[str], object]
    take: Callable[[object], object]
    names: tuple[str, ...] = ()
    is_pair: bool = False


@dataclass(frozen=True)
class Option:
    """One option: what it is called, what it means, and where it may be given.

    Args:
        name: Its name in code and in a job file.
        help: One line.
        value: How its value is written.
        on: The commands (``up``, ``image bake``), magics (``%dist_train``) and tables of a job file
            that have it.
        typed: How it is typed, if not as its name with dashes; without a dash it is positional.
        section: The section of a command's help; the general one if it is empty, or if the command
            has no such section.
        default: Its value if it is not given.
        shown: The default as a help shows it, in place of ``default``.
        many: Whether it is repeatable; in a job file, a list.
        offers: The names that Tab offers, besides those of its value; see ``store.name_lists``.
        alone: The value of an option that is typed without one.
        variable: The environment variable from which ranks read it.
        is_kept: Whether a run that is resumed keeps it, as it keeps what ranks read; or nodes that
            are asked for again.
        example: A value in a job file.
        required: Whether a line has to have it, if it is positional.
    """

    name: str
    help: str
    value: Value
    on: tuple[str, ...]
    typed: str = ""
    section: str = ""
    default: object = None
    shown: str = ""
    many: bool = False
    offers: str = ""
    alone: str = ""
    variable: str = ""
    is_kept: bool = False
    example: object = ""
    required: bool = False

    @property
    def spellings(self) -> list[str]:
        """How it is typed, the short form first."""
        return self.typed.split() or [f"--{self.name.replace('_', '-')}"]

    @property
    def is_word(self) -> bool:
        """Whether it is positional."""
        return not self.spellings[0].startswith("-")

    @property
    def is_flag(self) -> bool:
        """Whether it is typed without a value."""
        return not self.value.word

    @property
    def head(self) -> str:
        """How it begins its line in a help."""
        if self.is_word:
            return self.typed
        return f"{', '.join(self.spellings)} {self.value.word}".strip()

    @property
    def shown_default(self) -> str:
        """The default as a help shows it; empty for none."""
        return self.shown or ("" if self.default in (None, 0, "") else f"{self.default}")

    def read(self, text: str) -> object:
        """Return the value of a word that was typed.

        Raises:
            InputError: It is none.
        """
        try:
            return self.value.read(text)
        except (ValueError, TypeError):
            name = self.typed if self.is_word else self.spellings[-1]
            raise InputError(f"{name} must be {self.value.said}, not {text!r}.") from None

    def written(self, value: object) -> str:
        """Return a value as ranks read it from the option's variable."""
        return "1" if self.is_flag else str(value)


def is_given(value: object) -> bool:
    """Return whether an option was given, by its value: a flag left out is False."""
    return value is not None and value is not False and value != ()


def seconds(value: object) -> float:
    """Return a length of time in seconds, from a number or a text like ``90m`` or ``1h30m``.

    Raises:
        InputError: It is neither.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    text = value.replace(" ", "").lower() if isinstance(value, str) else ""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    raise InputError(
        f"{value!r} is not a length of time",
        "write seconds, or a number with a unit: 30s, 90m, 7d.",
    )


def seconds_or_off(value: object) -> float:
    """Return a length of time in seconds; 0 for ``off``, or for false in a job file.

    Raises:
        InputError: It is neither.
    """
    return 0.0 if value in ("off", False) else seconds(value)


def parameter(text: str) -> tuple[str, object]:
    """Return name and value of ``name=value``; the value is a Python literal, or else text.

    Raises:
        InputError: There is no ``=``, or the name is not one that Python takes.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier() or keyword.iskeyword(name):
        raise InputError(f"{text!r} is not a parameter", "write --param name=value, as in lr=0.1.")
    try:
        literal = ast.literal_eval(value)
        # What JSON, in which the store keeps it, would change stays text.
        kept = json.loads(json.dumps(literal))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return name, value
    return name, literal if kept == literal else value


def setting(text: str) -> tuple[str, str]:
    """Return name and value of ``name=value``, both as text.

    Raises:
        InputError: There is no ``=``.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise InputError(f"{text!r} is not a setting", "write --set name=value.")
    return name, value


def nbytes_of(text: str) -> int:
    """Return bytes from a text like ``1GB``, ``500 MB``, ``2GiB`` or ``25.6e6``.

    Raises:
        InputError: It is none.
    """
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise InputError(f"{text!r} is not a size", "write a number with a unit: 500MB, 5GB.")
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** " kmgt".index(found[2].lower() or " "))


def amount_of(text: str) -> float:
    """Return a number of dollars, GiB or Gbit/s, from a text like ``2.5`` or ``$2.5``.

    Raises:
        InputError: It is not one.
    """
    plain = re.sub(r"(/h|GiB|Gbit/s)$", "", text.strip().removeprefix("$")).strip()
    try:
        value = float(plain)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"{text!r} is not an amount", "write a number of at least 0, such as 2.5.")
    return value


def check_known(name: str, names: Sequence[str], what: str) -> str:
    """Return ``name`` if it is one of ``names``.

    Args:
        what: What the names are of, for the sentence.

    Raises:
        InputError: It is not one, with the nearest that is.
    """
    if name in names:
        return name
    close = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(names)}."
    raise InputError(f"There is no {what} {name!r}", hint)


def text(word: str, said: str = "a text", check: Callable[[str], object] = str) -> Value:
    """Return texts that ``check`` takes, which may return another value."""

    def take(value: object) -> object:
        if not isinstance(value, str):
            raise TypeError
        return check(value)

    return Value(word, said, check, take)


def choice(
    names: Sequence[str],
    what: str = "",
    *,
    word: str = "NAME",
    said: str = "",
    kind: Callable[[str], object] = str,
) -> Value:
    """Return one of some names.

    Args:
        what: What the names are of, for the refusal of another one; empty to list all.
        said: Completes "must be …", in place of the names.
        kind: Returns the value of a name.
    """
    *others, last = (json.dumps(name) for name in names)

    def check(name: str) -> object:
        if not what and name not in names:
            raise ValueError
        return kind(check_known(name, names, what))

    return replace(text(word, said or f"{', '.join(others)} or {last}", check), names=(*names,))


def whole(lowest: int, most: int, word: str = "N") -> Value:
    """Return whole numbers; the bounds hold in a job file, as those of a line are checked later."""

    def take(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= most:
            raise ValueError
        return value

    shown = f"{most:,}" if most > 9_999 else most
    return Value(word, f"a whole number from {lowest} to {shown}", int, take)


def amount(word: str, unit: str) -> Value:
    """Return numbers from 0 up."""

    def take(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        if not 0 <= value < math.inf:
            raise ValueError
        return value

    return Value(word, f"a number of {unit}, from 0 up", amount_of, take)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _no_field(value: object) -> object:
    raise NotImplementedError  # no field of a job file has such values


def _storable(value: object) -> object:
    json.dumps(value)  # TypeError for TOML's dates and times
    return value


def _as_text(value: object) -> str:
    """Return a number as text, which programs expect: ``arguments = ["--epoch", 3]``."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return str(value)


FLAG = Value("", "true or false", bool, _flag)
WHOLE = Value("N", "a whole number", int, _no_field)
NUMBER = Value("N", "a number", float, _no_field)
DURATION = Value("DURATION", "a length of time", seconds, seconds)
DURATION_OR_OFF = Value("DURATION", 'a length of time or "off"', seconds_or_off, seconds_or_off)
PARAMETER = Value("NAME=VALUE", "a table of numbers and texts", parameter, _storable, is_pair=True)
SETTING = Value("NAME=VALUE", "a table of texts and numbers", setting, _as_text, is_pair=True)
VARIABLE = Value("NAME=VALUE", "a table of texts and numbers", str, _as_text, is_pair=True)
WORD = Value("WORD", "a list of texts and numbers", str, _as_text)
