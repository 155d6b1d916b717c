"""Decide when a cluster that has nothing to do gives its nodes back, and say so before it does.

The decision follows from stored moments alone, so a supervisor that takes over decides the same::

    set-up ──▶ in use ◀──────────────┐
                 │ nothing to do     │ a run is asked for, or the nodes are kept
                 ▼                   │
               idle ──▶ announced ──▶ given back
                 after limit − notice    after the limit, or when a job says so

A run counts from its request to its end, so waiting for capacity is no idleness; neither is the
set-up of the nodes that were asked for, with its downloads. That of a later replacement is not
waited for. A run whose ranks wait for each other is ended by ``core.run.hang``, and then counts no
longer; one that computes without end has the limits of its own time, the cluster's and the budget.
Cells that ranks execute beside runs are not watched so, and count for ``UNWATCHED_SECONDS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.cluster.model import WhenDone
from workbench.core.fleet.form import HOUR, MINUTE
from workbench.core.fleet.model import FleetWish, Node
from workbench.core.units import count, dollars, duration, hourly

NOTICE_SECONDS = 300.0
# Of a short limit, this part is announced.
NOTICE_SHARE = 1 / 3
UNWATCHED_SECONDS = 4 * 3600.0
IDLE = "there is nothing to do"
"""Why nodes are given back, as a clause."""


@dataclass(frozen=True)
class Use:
    """What is known of the use of a cluster's nodes; all moments are epoch seconds, or 0.

    Args:
        asked: When they were last asked for, or kept.
        settled: When enough of them were first ready after that.
        works: Whether a run is active or waits.
        ended: When the last run ended.
        done: What the last run that ended since ``asked`` wants then, if one says so.
        executed: When a rank last executed code beside runs.
        executing: For how many seconds one has done so now; 0 if none does.
        released: When the nodes were given back.
    """

    asked: float
    settled: float = 0.0
    works: bool = False
    ended: float = 0.0
    done: WhenDone | None = None
    executed: float = 0.0
    executing: float = 0.0
    released: float = 0.0


@dataclass(frozen=True)
class Idleness:
    """For how long a cluster has had nothing to do, and what follows.

    Args:
        since: Epoch seconds; now while it is in use.
        ends: When its nodes go, in epoch seconds; 0 for never.
        done: Why they go at once: a run said so. None where they were idle for their limit.
    """

    since: float
    ends: float = 0.0
    done: WhenDone | None = None

    def is_over(self, now: float) -> bool:
        """Return whether the nodes go, or are gone."""
        return 0 < self.ends <= now

    def is_announced(self, now: float) -> bool:
        """Return whether it is shown that the nodes go soon."""
        notice = min(NOTICE_SECONDS, NOTICE_SHARE * (self.ends - self.since))
        return 0 < self.ends - now <= notice


def judge_idleness(limit: float, use: Use, now: float) -> Idleness:
    """Return for how long a cluster has been idle; the same arguments have the same answer.

    Args:
        limit: Seconds after which its nodes go; 0 for never.
        now: Epoch seconds.
    """
    if use.works or 0 < use.executing < UNWATCHED_SECONDS:
        return Idleness(now)
    if use.released > use.asked:
        return Idleness(min(now, use.released), min(now, use.released))
    if use.done in (WhenDone.RELEASE, WhenDone.DELETE):
        return Idleness(min(now, use.ended), min(now, use.ended), use.done)
    if use.settled < use.asked:
        return Idleness(now)
    executed = now - use.executing + UNWATCHED_SECONDS if use.executing else use.executed
    since = min(now, max(use.settled, use.ended, executed))
    return Idleness(since, since + limit if limit else 0.0)


def announcement(
    cluster: str, nodes: int, price: float, idle: Idleness, now: float, unit: str = ""
) -> str:
    """Return the sentences that are shown before nodes are given back.

    Args:
        price: $/h of the nodes, or in their own ``unit``; 0 if they cost nothing.
    """
    left = idle.ends - now
    minutes = round(left / MINUTE)
    soon = duration(minutes * MINUTE) if minutes else f"{max(1, round(left))} s"
    cost = f" ({hourly(price, unit)})" if price else ""
    return (
        f"There is nothing to do: {count(nodes, 'node')}{cost} will be given back in {soon}. "
        f"`workbench keep --cluster {cluster}` keeps {'it' if nodes == 1 else 'them'}."
    )


def released_message(nodes: Sequence[Node]) -> str:
    """Return the sentence that is shown from then on.

    Args:
        nodes: All that are not gone yet.
    """
    are = "are being given back" if nodes else "are given back"
    cost = "" if nodes else ", and cost nothing"
    return f"The nodes {are} while there is nothing to do{cost}; the next run starts them again."


def end_sentence(cluster: str, fleet: FleetWish, done: WhenDone | None, costs: str) -> str:
    """Return what becomes of a cluster that was started for a run which has ended.

    Args:
        costs: What it costs, in brackets after a space; or empty.
    """
    if done is WhenDone.DELETE:
        return f"Cluster {cluster!r} is deleted once no run waits{costs}."
    if done is WhenDone.RELEASE and fleet.place.has_nodes:
        return (
            f"Cluster {cluster!r} gives its nodes back once no run waits{costs}; its definition "
            "stays."
        )
    idle = f" until it has had nothing to do for {duration(fleet.idle)}" if fleet.idle else ""
    delete = f"delete it with `workbench delete --cluster {cluster}`"
    return f"Cluster {cluster!r} stays up{idle}{costs}; {delete}."


def rest_sentence(fleet: FleetWish) -> str:
    """Return when the nodes of a cluster are given back, as it is said before they start."""
    if not fleet.idle:
        return "They stay, and cost the same, while there is nothing to do."
    return f"They are given back after {duration(fleet.idle)} with nothing to do."


def describe_end(fleet: FleetWish, done: WhenDone | None, price: float) -> str:
    """Return what ends the costs of nodes, with what idleness costs; empty if nothing does.

    Args:
        done: What becomes of them when the run has ended that they are for.
        price: $/h of the nodes.
    """
    if done is WhenDone.DELETE:
        return "The cluster is deleted when the run has ended, and no other waits."
    if done is WhenDone.RELEASE:
        return "The nodes are given back when the run has ended, and no other waits."
    if not fleet.idle:
        return ""
    waste = dollars(price * fleet.idle / HOUR, fleet.place.unit)
    return (
        f"The nodes are given back after {duration(fleet.idle)} with nothing to do, which costs "
        f"at most {waste} each time."
    )
