"""A job, and how it is read from the text of a job file, without reading any other file.

The fields are those of a batch service's job file. Fields that have no effect are errors.
``shrink`` says where a run that loses a node continues from its newest snapshot: on the remaining
nodes, or once others have replaced it.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePath
from typing import Any

from workbench.core.cluster.model import DEFAULT_CLUSTER, WhenDone
from workbench.core.fleet.provider import listing_provider, provider_choices
from workbench.core.fleet.request import (
    DEFAULT_LIMIT,
    START_SECONDS,
    FleetRequest,
    Spelling,
    fleet_wish,
    problems,
)
from workbench.core.node.staging import is_bucket
from workbench.core.option import JOB, NEEDS, Option
from workbench.core.options.table import WAIT, collect_settings, options_of
from workbench.core.run.other_launchers import batch_ai_here
from workbench.core.world.hostfile import parse_hosts
from workbench.errors import InputError

_AFTERWARDS = {
    "continue": "on the nodes that are left",
    WAIT: "when the node is replaced",
}
OF_NEEDS = {one.name for one in options_of(NEEDS)}
SPELLING = Spelling(
    lambda name: f"needs.{name}" if name in OF_NEEDS else name,
    lambda: provider_choices(
        lambda place: place.has_nodes,
        lambda place: (
            'hosts = ["172.31.41.13 slots=1"]'
            if place.lists_hosts
            else f'provider = "{place.name}"'
        ),
    ),
)


@dataclass(frozen=True)
class Job:
    """What a job file asks for.

    Args:
        script: The script's path.
        values: Every field that the file has, by name, also those of ``needs``.
    """

    script: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The script's arguments."""
        arguments: tuple[str, ...] = self.values.get("arguments", ())
        return arguments

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return f"{self.values.get('cluster', DEFAULT_CLUSTER)}"

    @property
    def limit(self) -> float:
        """Seconds after which the run is stopped; 0 for none, 7 days on nodes that cost."""
        default = DEFAULT_LIMIT if self.request().costs else 0.0
        return float(self.values.get("wall_clock_limit", default))

    @property
    def time_to_live(self) -> float:
        """Default seconds until paid nodes are deleted."""
        return (self.limit or DEFAULT_LIMIT) + START_SECONDS

    @property
    def when_done(self) -> WhenDone | None:
        """What becomes of the nodes then; those that it rents go with it, as in a batch service."""
        rents = self.request().place.has_nodes and not self.request().place.lists_hosts
        found: WhenDone | None = self.values.get("when_done")
        return found or (WhenDone.RELEASE if rents else None)

    @property
    def remark(self) -> str:
        """A note for the user on the effect of lost nodes; empty for none."""
        if not (shrink := self.values.get("shrink")):
            return ""
        where = _AFTERWARDS[shrink]
        if self.values.get("restart"):
            return f"The script starts again {where} if it loses a node."
        return (
            f"A run that loses a node continues from its newest snapshot {where}, or ends if it "
            "has none."
        )

    def changed(self, **values: object) -> Job:
        """Return the job with other values."""
        merged = {**self.values, **values}
        return replace(self, script=merged.get("script", self.script), values=merged)

    def request(self) -> FleetRequest:
        """Return what it asks of nodes, before the files that it names are read.

        Raises:
            InputError: A host is invalid.
        """
        asked: dict[str, Any] = {
            one.name: self.values.get(one.name) for one in fields(FleetRequest)
        }
        asked["provider"] = self.values.get("provider", "")
        asked["settings"] = collect_settings(self.values)
        asked["hosts"] = parse_hosts("\n".join(self.values.get("hosts", ())))
        return self.completed(FleetRequest(**asked))

    def completed(self, request: FleetRequest) -> FleetRequest:
        """Return a request for its nodes with what ``host_file`` and ``shrink`` imply."""
        if not request.provider and self.values.get("host_file"):
            request = replace(request, provider=listing_provider())
        if self.values.get("shrink") == WAIT and request.place.has_nodes:
            # With fewer nodes than all, no world is started.
            return replace(request, min_nodes=request.size or None)
        return request


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


@dataclass(frozen=True)
class JobFile:
    """The text of a job file, and what is wrong with it.

    Args:
        path: Its path: its suffix selects the format, and relative paths in it start at its folder.
        problems: One sentence for each.
    """

    text: str
    path: str
    problems: list[str] = field(default_factory=list)

    @property
    def is_toml(self) -> bool:
        """Whether it is TOML, and not JSON."""
        return PurePath(self.path).suffix != ".json"

    def parse(self) -> Job:
        """Return the job.

        Raises:
            InputError: One sentence for each problem, with file, line and remedy.
        """
        given = _load(self.text, self.path, self.is_toml)
        if said := batch_ai_here(given, self.path):
            raise InputError(said)
        values = self._values(given, JOB)
        if given.get("script") is None:
            (script,) = (one for one in options_of(JOB) if one.name == "script")
            line = _example("script", script.example, self.is_toml)
            self.problems.insert(0, f"{self.path}: script is missing; add a line such as {line}")
        if not self.problems:
            self._check_nodes(Job(values.get("script", ""), values))
        if self.problems:
            raise InputError("\n".join(self.problems))
        return Job(values["script"], values).changed(
            **{
                name: self._from_here(values[name])
                for name in ("script", "host_file", "prepare", "data", "output")
                if name in values
            }
        )

    def _values(self, given: dict[str, Any], place: str, *around: str) -> dict[str, Any]:
        """Return the values of a table, which is called ``around`` if it is in another one."""
        known, values = {one.name: one for one in options_of(place)}, dict[str, Any]()
        for name, option in known.items():
            value, location = given.get(name), (*around, name)
            if name == "needs" and isinstance(value, dict):
                values |= self._values(value, NEEDS, name)
            elif value is not None:
                values[name] = self._value(option, value, location)
        for key in given:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0.5)
                near = [_CALLED[key]] if key in _CALLED else near
                remedy = f"did you mean {near[0]!r}?" if near else f"use {', '.join(known)}."
                self._add((*around, key), f"unknown key {key!r}; {remedy}")
        return values

    def _value(self, option: Option, value: Any, location: tuple[str, ...]) -> Any:
        """Return the value of one field, or add what is wrong with each part of it."""
        key = ".".join(location)
        if option.value.is_pair and isinstance(value, dict):
            return {
                name: self._part(option, one, (*location, name), f"{key}.{name}")
                for name, one in value.items()
            }
        if not option.many:
            return self._part(option, value, location, key)
        if option.value.is_pair or not isinstance(value, list):
            return self._misfit(option, value, location, key)
        return tuple(
            self._part(option, one, location, f"{key}[{place}]") for place, one in enumerate(value)
        )

    def _part(self, option: Option, value: Any, location: tuple[str, ...], label: str) -> Any:
        try:
            return option.value.take(value)
        except InputError as error:
            self._add(location, f"{'.'.join(location)}: {error}")
        except (ValueError, TypeError):
            self._misfit(option, value, location, label)

    def _misfit(self, option: Option, value: Any, location: tuple[str, ...], label: str) -> None:
        prefix = "needs." if location[0] == "needs" else ""
        key = f"{prefix}{option.name}"
        self._add(
            location,
            f"{key} must be {option.value.said}, but {label} is {value!r}; "
            f"write for example {_example(key, option.example, self.is_toml)}",
        )

    def _check_nodes(self, job: Job) -> None:
        """Check combinations of fields that are valid by themselves."""
        values = job.values
        try:
            request = job.request()
        except InputError as error:
            self._add(("hosts",), f"hosts: {error}")
            return
        found = list(problems(request, SPELLING, values.get("ranks")))
        if "shrink" in values and not request.place.has_nodes:
            found.append(
                ("shrink", f"shrink is about nodes; name their provider: {SPELLING.providers()}.")
            )
        least, is_counted = values.get("min_nodes"), "nodes" in values or "host_file" not in values
        if values.get("shrink") == WAIT and is_counted and least not in (None, request.size):
            found.append(
                (
                    "min_nodes",
                    f"min_nodes = {least} lets the cluster continue with fewer than "
                    f"{request.size} nodes, "
                    'and shrink = "wait" does not; leave one of them out.',
                )
            )
        if values.get("hosts") and "host_file" in values:
            sentence = "hosts and host_file both name hosts; leave one of them out."
            found.append(("host_file", sentence))
        if not found and "host_file" not in values:
            try:
                fleet_wish(request, SPELLING, now=0.0)
            except InputError as error:
                found = [("nodes" if "nodes" in values else "provider", str(error))]
        for name, sentence in found:
            self._add(("needs", name) if name in OF_NEEDS else (name,), sentence)

    def _add(self, location: tuple[str, ...], sentence: str) -> None:
        line = _line(self.text, location, self.is_toml)
        where = f"{self.path}, line {line}" if line else self.path
        self.problems.append(f"{where}: {sentence}")

    def _from_here(self, named: str) -> str:
        """Return a path in the job file, relative to its folder."""
        is_elsewhere = named.startswith("~") or is_bucket(named)
        return named if is_elsewhere else str(PurePath(self.path).parent / named)


def parse_job(text: str, path: str) -> Job:
    """Return the job that a job file describes; see ``JobFile``."""
    return JobFile(text, path).parse()


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


def _example(key: str, value: object, is_toml: bool) -> str:
    if not is_toml:
        return f"{json.dumps(key.rpartition('.')[2])}: {json.dumps(value)}"
    if isinstance(value, dict):
        return "; ".join(f"{key}.{name} = {json.dumps(item)}" for name, item in value.items())
    return f"{key} = {json.dumps(value)}"


def _line(text: str, location: tuple[str, ...], is_toml: bool) -> int | None:
    """Return the line with the last key of ``location``, which the parsers do not give."""
    start: int | None = None
    for depth, key in enumerate(location):
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
