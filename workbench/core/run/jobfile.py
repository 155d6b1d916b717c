"""Parse the text of a job file into a job, without reading any file."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from workbench.core.fleet.model import Provider
from workbench.core.fleet.request import fleet_wish, problems
from workbench.core.node.staging import is_bucket
from workbench.core.run.job import SPELLING, WAIT, Job, JobNeeds
from workbench.core.run.other_launchers import batch_ai_here
from workbench.errors import InputError

SUFFIXES = (".toml", ".json")
# Names of these fields in other job files.
_CALLED = {
    "processes_per_node": "slots",
    "processes": "slots",
    "node_count": "nodes",
    "command": "script",
    "time_to_live": "ttl",
    "timeout": "wall_clock_limit",
    "instance_type": "needs.types",
    "type": "needs.types",
    "zone": "needs.zones",
    "subnet": "needs.subnets",
    "gpus": "needs.gpus",
    "memory": "needs.memory",
    "network": "needs.network",
    "place": "provider",
    "where": "provider",
    "least": "min_nodes",
    "most": "max_nodes",
    "price": "max_price",
}


def parse_job(text: str, path: str) -> Job:
    """Return the job that a job file describes.

    Args:
        text: The file's text.
        path: The job file's path: its suffix selects the format, and relative paths in it start at
            its folder.

    Raises:
        InputError: One sentence for each problem, with file, line and remedy.
    """
    is_toml = PurePath(path).suffix != ".json"
    values = _load(text, path, is_toml)
    if said := batch_ai_here(values, path):
        raise InputError(said)
    try:
        job = Job.model_validate(values)
    except ValidationError as error:
        sentences = [_sentence(problem, text, path, is_toml) for problem in error.errors()]
        raise InputError("\n".join(sentences)) from error
    _check_nodes(job, text, path, is_toml)
    changes = {
        name: found if name in ("data", "output") and is_bucket(found) else _from(path, found)
        for name in ("script", "host_file", "prepare", "data", "output")
        if (found := getattr(job, name)) is not None
    }
    return job.model_copy(update=changes)


def _from(path: str, named: str) -> str:
    """Return a path from a job file, relative to its folder."""
    return named if named.startswith("~") else str(PurePath(path).parent / named)


def _check_nodes(job: Job, text: str, path: str, is_toml: bool) -> None:
    """Check combinations of fields that are valid by themselves."""
    request = job.request(prepare=job.prepare)
    found = list(problems(request, SPELLING, job.ranks))
    if job.shrink and request.resolved_provider is Provider.THIS_MACHINE:
        found.append(
            ("shrink", f"shrink is about nodes; name their provider: {SPELLING.providers}.")
        )
    is_counted = job.nodes is not None or not job.host_file
    if job.shrink == WAIT and is_counted and job.min_nodes not in (None, request.size):
        found.append(
            (
                "min_nodes",
                f"min_nodes = {job.min_nodes} lets the cluster continue with fewer than "
                f"{request.size} nodes, "
                'and shrink = "wait" does not; leave one of them out.',
            )
        )
    if job.hosts and job.host_file:
        found.append(("host_file", "hosts and host_file both name hosts; leave one of them out."))
    if not found and not job.host_file:
        try:
            fleet_wish(request, SPELLING, now=0.0)
        except InputError as error:
            found = [("nodes" if job.nodes is not None else "provider", str(error))]
    if found:
        raise InputError(
            "\n".join(
                f"{_where(path, _line(text, _location(name), is_toml))}: {sentence}"
                for name, sentence in found
            )
        )


def _location(name: str) -> list[int | str]:
    return ["needs", name] if name in JobNeeds.model_fields else [name]


def _where(path: str, line: int | None) -> str:
    return f"{path}, line {line}" if line else path


def _load(text: str, path: str, is_toml: bool) -> dict[str, Any]:
    try:
        values = tomllib.loads(text) if is_toml else json.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        reason, line = (found[1], found[2]) if found else (str(error), None)
        line = line or str(text.count("\n") + 1)
        raise InputError(f"{path}, line {line}: {reason}", "correct the TOML there.") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: {error.msg}", "correct the JSON there."
        ) from error
    except RecursionError:
        raise InputError(f"{path} is nested too deeply", "a job is one flat table.") from None
    try:
        json.dumps(values, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{path} holds half a character (such as \\ud800)", "take it out."
        ) from None
    if not isinstance(values, dict):
        raise InputError(f'{path} must hold one object, as in {{"script": "train.py"}}.')
    return values


def _sentence(problem: ErrorDetails, text: str, path: str, is_toml: bool) -> str:
    location = [part for part in problem["loc"] if not str(part).startswith("function-")]
    where = _where(path, _line(text, location, is_toml))
    key, field, around = _field(location)
    if problem["type"] == "extra_forbidden":
        known = around.model_fields
        near = [_CALLED[key]] if key in _CALLED else difflib.get_close_matches(key, known, 1, 0.5)
        remedy = f"did you mean {near[0]!r}?" if near else f"use {', '.join(known)}."
        return f"{where}: unknown key {key!r}; {remedy}"
    assert field is not None
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


def _field(location: list[int | str]) -> tuple[str, FieldInfo | None, type[BaseModel]]:
    """Return the key of an error, its field, and the table that it belongs to."""
    key = str(location[0])
    field = Job.model_fields.get(key)
    table = field.annotation if field else None
    if len(location) > 1 and isinstance(table, type) and issubclass(table, BaseModel):
        inner = str(location[1])
        known = table.model_fields.get(inner)
        return f"{key}.{inner}" if known else inner, known, table
    return key, field, Job


def _steps(location: list[int | str]) -> Iterator[str]:
    yield str(location[0])
    for part in location[1:]:
        yield f"[{part}]" if isinstance(part, int) else f".{part}"


def _example(key: str, value: object, is_toml: bool) -> str:
    if not is_toml:
        return f"{json.dumps(key.rpartition('.')[2])}: {json.dumps(value)}"
    if isinstance(value, dict):
        return "; ".join(f"{key}.{name} = {json.dumps(item)}" for name, item in value.items())
    return f"{key} = {json.dumps(value)}"


def _line(text: str, location: list[int | str], is_toml: bool) -> int | None:
    """Return the line with the last key of ``location``, which the parsers do not give."""
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
