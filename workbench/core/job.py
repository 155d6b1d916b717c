"""Turn the text of a job file into a job, without reading any file."""

from __future__ import annotations

import ast
import difflib
import json
import keyword
import math
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from pydantic_core import ErrorDetails

from workbench.core.cluster import DEFAULT_CLUSTER, check_cluster_name
from workbench.core.run import DEFAULT_GRACE, check_run_name
from workbench.core.world import MAX_RANKS
from workbench.errors import InputError

SUFFIXES = (".toml", ".json")

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
        f"{value!r} is not a length of time; write seconds, or a number with a unit: 30s, 90m, 7d."
    )


def parameter(text: str) -> tuple[str, object]:
    """Return name and value of ``name=value``; the value is a Python literal, or else text.

    Raises:
        InputError: There is no ``=``, or the name is not one that Python takes.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier() or keyword.iskeyword(name):
        raise InputError(f"{text!r} is not a parameter; write --param name=value, as in lr=0.1.")
    try:
        literal = ast.literal_eval(value)
        # What JSON, in which the store keeps it, would change stays text.
        kept = json.loads(json.dumps(literal))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return name, value
    return name, literal if kept == literal else value


def _explained(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let pydantic gather what ``check`` refuses, instead of stopping at the first."""

    def checked(value: Any) -> Any:
        try:
            return check(value)
        except InputError as error:
            raise ValueError(str(error)) from error

    return checked


def _text(value: object) -> str:
    """Accept a number where a program will see text: ``arguments = ["--epoch", 3]``."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return str(value)


def _storable(value: object) -> object:
    json.dumps(value)  # TypeError for TOML's dates and times
    return value


def _plain(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        try:
            return check(value)
        except TypeError as error:
            raise ValueError("") from error

    return checked


Text = Annotated[str, BeforeValidator(_plain(_text))]
Value = Annotated[Any, BeforeValidator(_plain(_storable))]
Seconds = Annotated[float, BeforeValidator(_explained(seconds))]


class Job(BaseModel):
    """What a job file asks for; a field's description completes "must be …"."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    script: str = Field(min_length=1, description="the path of a script", examples=["train.py"])
    name: Annotated[str, AfterValidator(_explained(check_run_name))] | None = Field(
        default=None, description="a text", examples=["digits on two ranks"]
    )
    arguments: tuple[Text, ...] = Field(
        default=(), description="a list of texts and numbers", examples=[["--epoch", "3"]]
    )
    ranks: int | None = Field(
        default=None,
        strict=True,
        ge=1,
        le=MAX_RANKS,
        description=f"a whole number from 1 to {MAX_RANKS}",
        examples=[2],
    )
    oversubscribe: bool = Field(
        default=False, strict=True, description="true or false", examples=[True]
    )
    parameters: dict[str, Value] = Field(
        default={}, description="a table of numbers and texts", examples=[{"lr": 0.1}]
    )
    environment: dict[str, Text] = Field(
        default={}, description="a table of texts and numbers", examples=[{"DATA_ROOT": "data"}]
    )
    grace: Seconds = Field(default=DEFAULT_GRACE, description="a length of time", examples=["5s"])
    wall_clock_limit: Seconds = Field(default=0.0, description="a length of time", examples=["90m"])
    cluster: Annotated[str, AfterValidator(_explained(check_cluster_name))] = Field(
        default=DEFAULT_CLUSTER, description="a text", examples=["default"]
    )


def parse_job(text: str, path: str) -> Job:
    """Return the job that a job file describes.

    Args:
        text: The file's text.
        path: The job file's path: its suffix tells the form, and a relative script is found
            from its folder.

    Raises:
        InputError: One sentence for each problem, with file, line and remedy.
    """
    is_toml = PurePath(path).suffix != ".json"
    values = _load(text, path, is_toml)
    try:
        job = Job.model_validate(values)
    except ValidationError as error:
        problems = [_sentence(problem, text, path, is_toml) for problem in error.errors()]
        raise InputError("\n".join(problems)) from error
    if job.script.startswith("~"):
        return job
    return job.model_copy(update={"script": str(PurePath(path).parent / job.script)})


def _load(text: str, path: str, is_toml: bool) -> dict[str, Any]:
    try:
        values = tomllib.loads(text) if is_toml else json.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        reason, line = (found[1], found[2]) if found else (str(error), None)
        line = line or str(text.count("\n") + 1)
        raise InputError(f"{path}, line {line}: {reason}; mend the TOML there.") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: {error.msg}; mend the JSON there."
        ) from error
    if not isinstance(values, dict):
        raise InputError(f'{path} must hold one object, as in {{"script": "train.py"}}.')
    return values


def _sentence(problem: ErrorDetails, text: str, path: str, is_toml: bool) -> str:
    location = [part for part in problem["loc"] if not str(part).startswith("function-")]
    key = str(location[0])
    line = _line(text, location, is_toml)
    where = f"{path}, line {line}" if line else path
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, Job.model_fields, 1, 0.5)
        remedy = f"did you mean {near[0]!r}?" if near else f"use {', '.join(Job.model_fields)}."
        return f"{where}: unknown key {key!r}; {remedy}"
    field = Job.model_fields[key]
    example = _example(key, (field.examples or [""])[0], is_toml)
    if problem["type"] == "missing":
        return f"{where}: {key} is missing; add a line such as {example}"
    if problem["type"] == "value_error" and (reason := str(problem["ctx"]["error"])):
        return f"{where}: {key}: {reason}"
    label = "".join(_steps(location))
    return (
        f"{where}: {key} must be {field.description}, but {label} is {problem['input']!r}; "
        f"write for example {example}"
    )


def _steps(location: list[int | str]) -> Iterator[str]:
    yield str(location[0])
    for part in location[1:]:
        yield f"[{part}]" if isinstance(part, int) else f".{part}"


def _example(key: str, value: object, is_toml: bool) -> str:
    if not is_toml:
        return f"{json.dumps(key)}: {json.dumps(value)}"
    if isinstance(value, dict):
        return "; ".join(f"{key}.{name} = {json.dumps(item)}" for name, item in value.items())
    return f"{key} = {json.dumps(value)}"


def _line(text: str, location: list[int | str], is_toml: bool) -> int | None:
    """Return the line that names the last key of ``location``; the parsers do not tell."""
    start: int | None = None
    for depth, key in enumerate(part for part in location if isinstance(part, str)):
        word = re.escape(key)
        if not is_toml:
            pattern = rf'"{word}"\s*:'
        elif depth == 0:
            pattern = rf"""^[ \t]*\[*[ \t]*["']?{word}["']?[ \t]*[=.\]]"""
        else:
            pattern = rf"""(?<![\w-])["']?{word}["']?[ \t]*="""
        found = re.compile(pattern, re.MULTILINE).search(text, start or 0)
        start = found.start() if found else start
    return None if start is None else text.count("\n", 0, start) + 1
