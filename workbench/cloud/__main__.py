"""Answer one query about a provider: JSON on standard input, JSON on standard output.

Modules that only show or ask do not import the providers' clients; they run this program with the
name of a query: ``python -m workbench.cloud offers``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from workbench.core.fleet.cloud_errors import asked_once
from workbench.core.fleet.model import FleetWish, Purchase
from workbench.core.fleet.node_provider import ClusterContext, open_provider
from workbench.core.messages import BaseMessage, convert, decode
from workbench.errors import CloudError, InputError, StateError, WorkbenchError
from workbench.store.paths import cluster_directory, home_directory, trusted_lines

# Methods of a provider whose arguments and results are plain.
METHODS = (
    "ssh_source", "contact", "examine", "leftovers", "sweep", "clean", "bake", "image", "discard",
    "interrupt", "purge", "replay",
)  # fmt: skip
_KINDS = {InputError: "InputError", StateError: "StateError"}


class Question(BaseMessage, frozen=True):
    """A query.

    Args:
        fleet: The desired state, which names the provider.
        owner: Whose resources it is about; empty for all.
        cluster: Empty if it is about none.
        arguments: Of the provider's method.
    """

    fleet: FleetWish
    owner: str
    cluster: str
    arguments: dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Answer one query; an error is part of the answer."""
    known = ("offers", "permissions", *METHODS)
    if len(arguments) != 1 or arguments[0] not in known:
        text = f"python -m workbench.cloud answers {', '.join(known)}, not {arguments}."
        print(text, file=sys.stderr)
        return 2
    answer: dict[str, object]
    try:
        answer = {"answer": _answer(arguments[0], decode(Question, sys.stdin.read()))}
    except CloudError as error:
        once = asked_once(error)
        answer = _error(once, "CloudError") | {"kind": error.kind, "code": error.code}
    except WorkbenchError as error:
        answer = _error(error, _KINDS.get(type(error), "MachineError"))
    print(msgspec.json.encode(answer).decode())
    return 0


def _answer(name: str, question: Question) -> object:
    """Ask the provider; imports that provider alone."""
    fleet, given = question.fleet, question.arguments
    provider = open_provider(_context(question))
    if name == "offers":
        found = provider.offers(fleet.needs, given["history_seconds"])
        return {"region": provider.region, "offers": found}
    if name == "permissions":
        return provider.permissions(convert(Purchase, given["purchase"]))
    return getattr(provider, name)(**given)


def _context(question: Question) -> ClusterContext:
    cluster, home = question.cluster, home_directory()
    return ClusterContext(
        cluster,
        lambda: question.fleet,
        home,
        cluster_directory(cluster) if cluster else home,
        question.owner,
        trusted=lambda: trusted_lines(cluster),
    )


def _error(error: WorkbenchError, kind: str) -> dict[str, object]:
    return {"error": kind, "what": error.what, "remedy": error.remedy}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
