"""Decide what an environment has to get to be like another one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OURS = "workbench"
# What an environment's own tools are does not matter to what runs in it.
_TOOLS = frozenset({OURS, "pip", "setuptools", "wheel", "uv"})


@dataclass(frozen=True)
class Environment:
    """What a Python environment holds.

    Args:
        python: Such as ``3.11``.
        package: Tells the content of this package; empty where it is not there.
        distributions: Name to version, and to where it came from if that was no index.
    """

    python: str
    package: str
    distributions: Mapping[str, tuple[str, str]]

    def __repr__(self) -> str:
        return f"<Environment Python {self.python}, {len(self.distributions)} distributions>"


def read_environment(text: str) -> Environment:
    """Return what ``cloud.environment`` said; what a login shell wrote before is passed over.

    Raises:
        ValueError: It said nothing of the kind.
    """
    try:
        told: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
        held = {name: (values[0], values[1]) for name, values in told["distributions"].items()}
        return Environment(told["python"], told["package"], held)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("no environment was told") from error


def lacking(here: Environment, there: Environment) -> tuple[str, ...]:
    """Return the requirements that bring ``there`` to what is here, for pip.

    What was installed here from a folder can be fetched by nobody, and is left out. A build for
    one sort of processor (``2.13.0+cpu``) is as good as another.
    """
    held = {_plain(name): _public(version) for name, (version, _) in there.distributions.items()}
    wanted = {
        _plain(name): _requirement(name, _public(version), origin)
        for name, (version, origin) in here.distributions.items()
        if held.get(_plain(name)) != _public(version)
    }
    return tuple(text for name, text in sorted(wanted.items()) if text and name not in _TOOLS)


def _requirement(name: str, version: str, origin: str) -> str:
    if not origin:
        return f"{name}=={version}"
    told = json.loads(origin)
    url, source = str(told.get("url", "")), told.get("vcs_info")
    if source:
        return f"{name} @ {source['vcs']}+{url}@{source['commit_id']}"
    return f"{name} @ {url}" if url.startswith("https://") else ""


def _public(version: str) -> str:
    return version.partition("+")[0]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def shown(names: Sequence[str], most: int = 3) -> str:
    """Return some names for a sentence, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
