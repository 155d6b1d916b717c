"""The sentences of a supervisor's log, and the lines of it that the user should see."""

from __future__ import annotations

import re
from collections.abc import Sequence

from workbench.core.fleet.model import Node, NodeState, Purchase
from workbench.core.run.model import RunState
from workbench.core.units import hourly

OWN = "workbench"
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LEVELS = ("debug", "info", "warning", "error")
_RECORD = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[,.]\d+)? "
    r"(?P<level>[A-Z]+) (?P<name>[\w.]*): (?P<text>.*)"
)
_SAID = {"WARNING": "Warning: ", "ERROR": "Error: ", "CRITICAL": "Error: "}

MOST_NAMES = 4
_NODE = {
    NodeState.ASKED: "has been requested",
    NodeState.BOOTING: "is booting",
    NodeState.READY: "is ready for ranks",
    NodeState.JOINED: "now runs ranks",
    NodeState.LEAVING: "is leaving",
    NodeState.GONE: "is gone",
}


def format_count(number: int, thing: str) -> str:
    """Return a number of things, such as ``1 rank`` or ``2 ranks``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def starting(generation: int, placement: Sequence[str]) -> str:
    """Report that a world of ranks starts.

    Args:
        placement: The host of each rank.
    """
    where = format_names(list(dict.fromkeys(placement)))
    place = "this machine" if where == "localhost" else where
    return f"Starting {format_count(len(placement), 'rank')} on {place} (generation {generation})."


def ready(generation: int, ranks: int) -> str:
    """Report that ranks are up."""
    are = "is" if ranks == 1 else "are"
    return f"{format_count(ranks, 'rank')} {are} ready (generation {generation})."


def ending(generation: int, reason: str) -> str:
    """Report that a world is being ended, and why."""
    return f"Ending the ranks of generation {generation}{because(reason)}"


def ended(generation: int, reason: str) -> str:
    """Report that a world has ended."""
    return f"The ranks of generation {generation} have ended{because(reason)}"


def begins(run: str, generation: int, ranks: int) -> str:
    """Report that a run starts on its ranks."""
    return f"Run {run!r} starts on {format_count(ranks, 'rank')} (generation {generation})."


def run_ended(run: str, state: RunState, message: str) -> str:
    """Report how a run ended, and why."""
    how = {RunState.LOST: "was lost", RunState.STOPPED: "was stopped"}.get(state, str(state))
    return f"Run {run!r} {how}{because(message)}"


def buying(purchase: Purchase) -> str:
    """Report what is being bought."""
    where = f" in {purchase.zone}" if purchase.zone else ""
    limit = f", for at most {hourly(purchase.max_price)} each" if purchase.max_price else ""
    types = " or ".join(purchase.types)
    return f"Buying {format_count(purchase.count, 'node')} of type {types}{where}{limit}."


def refused(purchase: Purchase, why: str) -> str:
    """Report that nothing could be bought, and why."""
    types = " or ".join(purchase.types)
    return (
        f"{format_count(purchase.count, 'node')} of type {types} could not be bought{because(why)}"
    )


def node_moved(before: NodeState | None, node: Node) -> str:
    """Report a node's new state; empty if the user need not know it."""
    back = before is NodeState.JOINED and node.state is NodeState.READY
    phrase = _NODE.get(node.state)
    if node.state is before or back or phrase is None:
        return ""
    kind = f" ({node.type}{f' in {node.zone}' if node.zone else ''})" if node.type else ""
    shown = kind if before is None else ""
    leaves = node.failed or node.state in (NodeState.LEAVING, NodeState.GONE)
    return f"Node {node.id}{shown} {phrase}{because(node.message if leaves else '')}"


def noticed(node: str, kind: str, at: str) -> str:
    """Report the provider's notice about a node.

    Args:
        at: The moment, as shown to the user.
    """
    if kind == "rebalance":
        return f"Node {node}: the provider recommends to replace it (rebalance, {at})."
    return f"Node {node} received an interruption notice: the provider will {kind} it at {at}."


def releasing(nodes: Sequence[str], why: str) -> str:
    """Report which nodes are released, and why."""
    return f"Releasing {format_names(nodes)}{because(why)}"


def format_names(names: Sequence[str]) -> str:
    """Return the first few names, and the number of others."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def leaves(run: str, why: str) -> str:
    """Return that a run leaves its ranks, and why if not for another size."""
    reason = f", because {why}" if why else " for a new size"
    return f"Run {run!r} leaves its ranks{reason}."


def because(why: str) -> str:
    """Return the end of a sentence, with its reason on one line."""
    text = " ".join(why.split()).rstrip(".")
    return f": {text}." if text else "."


class LogFilter:
    """Filters the lines of a log.

    Args:
        least: The lowest level to show; ``debug`` also shows records of libraries.
    """

    def __init__(self, least: str = "info") -> None:
        self._least = LEVELS.index(least)
        self._shown = True

    def line(self, line: str) -> str | None:
        """Return a line as shown to the user; None if it is not shown.

        A line without a record's prefix belongs to the record before it.
        """
        found = _RECORD.fullmatch(line)
        if found is None:
            return f"  {line}" if self._shown else None
        level, name, text = found["level"], found["name"], found["text"]
        self._shown = _weight(level, name) >= self._least
        if not self._shown:
            return None
        library = "" if _is_own(name) else f"{name.rstrip('.')}: "
        return f"{found['at']}  {_SAID.get(level, '')}{library}{text}"


def _weight(level: str, name: str) -> int:
    """Return the rank of a record's level; of libraries, only errors count."""
    place = min(LEVELS.index(level.lower()), 3) if level.lower() in LEVELS else 3
    return place if _is_own(name) or place == 3 else 0


def _is_own(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == OWN
