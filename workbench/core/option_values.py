"""Read the values of options: lengths of time, parameters, and numbers of bytes."""

from __future__ import annotations

import ast
import json
import keyword
import math
import re

from workbench.errors import InputError

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


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


def nbytes_of(text: str) -> float:
    """Return a number of bytes from a text like ``98MB`` or ``25.6e6``.

    Raises:
        InputError: It is not one.
    """
    found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*([kMG]i?)?B?", text.strip())
    if found is None or found[1].count(".") > 1 or found[1] == ".":
        raise InputError(f"{text!r} is not a number of bytes", "write for example 98MB.")
    base = 1024 if (unit := found[2] or "").endswith("i") else 1000
    return float(found[1]) * float(base ** " kMG".index(unit[:1] or " "))
