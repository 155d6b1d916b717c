"""Observe whether a cluster has anything to do, for ``core.cluster.idleness`` to decide."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace

from workbench.cluster.interface import Cluster
from workbench.core.cluster.generation import WorldFact
from workbench.core.cluster.idleness import Idleness, Use, judge_idleness
from workbench.core.cluster.model import ClusterFact, ClusterWish
from workbench.core.fleet.membership import has_data
from workbench.core.fleet.model import COMING, Node
from workbench.core.run.rank_protocol import AskPulse, Delivery, Pulse
from workbench.core.run_id import NO_RUN
from workbench.errors import StoreError
from workbench.store import Store

ASK_SECONDS = 10.0
# A short limit is asked about so many times.
ASKED_TIMES = 10
# After a longer pause, as after a run, earlier answers say nothing.
MOST_PAUSES = 3
# Seconds: as if a rank had just begun to execute something.
UNKNOWN = 1e-3


class IdleWatch:
    """Asks ranks what they execute beside runs, and the store when the last run ended."""

    def __init__(self, name: str, store: Store, cluster: Cluster) -> None:
        self._name = name
        self._store = store
        self._cluster = cluster
        self._asked = -math.inf
        self._executed = self._executing = self._before = 0.0

    def __repr__(self) -> str:
        return f"<IdleWatch of {self._name}>"

    def hear(self, messages: Sequence[Delivery], now: float) -> list[Delivery]:
        """Take the answers of ranks out of messages, and return the others.

        Args:
            now: Epoch seconds.
        """
        others = []
        for one in messages:
            if not (isinstance(one.message, Pulse) and one.message.run == NO_RUN):
                others.append(one)
                continue
            self._executing = max(self._executing, one.message.executing)
            if one.message.executed is not None:
                self._executed = max(self._executed, now - one.message.executed)
        return others

    def look(
        self,
        wish: ClusterWish,
        fact: ClusterFact,
        nodes: Sequence[Node],
        worlds: Sequence[WorldFact],
        *,
        works: bool,
        now: float,
    ) -> tuple[Idleness, ClusterFact]:
        """Return for how long there has been nothing to do, and the fact with what is noted of it.

        Args:
            nodes: All that are not gone.
            works: Whether a run is active or waits.
            now: Epoch seconds.
        """
        fleet = wish.fleet
        if works or fact.released <= fleet.asked:
            fact = replace(fact, released=0.0)
        ready, least = [node for node in nodes if has_data(node)], min(fleet.min_nodes, fleet.nodes)
        coming = any(node.state in COMING and not node.failed for node in nodes)
        is_there = not fleet.place.has_nodes or (len(ready) >= max(1, least) and not coming)
        if fact.settled <= fleet.asked and is_there:
            fact = replace(fact, settled=now)
        if works or not wish.up:
            return Idleness(now), replace(fact, releases=0.0)
        ended, done = 0.0, None
        with contextlib.suppress(StoreError):
            ended, done = self._store.read_last_ends(self._name, fleet.asked)
        limit = fleet.idle if fleet.place.has_nodes and fleet.nodes else 0.0
        if limit:
            self._ask(worlds, limit, now)
        use = Use(
            fleet.asked,
            fact.settled,
            ended=ended,
            done=done,
            executed=self._executed,
            executing=max(self._executing, self._before),
            released=fact.released,
        )
        idle = judge_idleness(limit, use, now)
        releases = idle.ends if idle.is_announced(now) else 0.0
        if idle.is_over(now) and fleet.place.has_nodes and not fact.released:
            # What came before counts no longer once nodes are there again.
            fact = replace(fact, released=now, settled=0.0)
        return idle, replace(fact, releases=releases)

    def _ask(self, worlds: Sequence[WorldFact], limit: float, now: float) -> None:
        """Ask all ranks once in a while; an answer counts until the one after the next."""
        pause = min(ASK_SECONDS, limit / ASKED_TIMES)
        if not worlds or 0 <= now - self._asked < pause:
            return
        # A supervisor that has just begun waits for the first answers.
        is_first = not 0 <= now - self._asked <= MOST_PAUSES * pause
        self._before = UNKNOWN if is_first else self._executing
        self._asked, self._executing = now, 0.0
        for world in worlds:
            ranks = range(len(world.ranks))
            self._cluster.send(world.generation, ranks, AskPulse(NO_RUN))
