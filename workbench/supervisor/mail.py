"""Take in what the ranks say: gather it, keep it in the store, and confirm what the store has."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from workbench.cluster.interface import Cluster
from workbench.core.generation import WorldFact
from workbench.core.report import Acknowledge, Batch, Hello, Message, Pulse
from workbench.store import Store
from workbench.supervisor.activity import Activity

log = logging.getLogger("workbench.supervisor")

TURN_SECONDS = 0.05
GATHER_SECONDS = 0.03
ACKNOWLEDGE_SECONDS = 0.5


class Mail:
    """The messages of all ranks of a cluster."""

    def __init__(self, store: Store, cluster: Cluster) -> None:
        self._store = store
        self._cluster = cluster
        self._confirmed: dict[tuple[str, int], float] = {}  # run and rank, to a moment

    def gather(self) -> list[Message]:
        """Wait for messages, and a moment longer for more: one transaction serves them all.

        Training and bookkeeping may share the cores, so fewer, larger turns are better.
        """
        messages = self._cluster.receive(TURN_SECONDS)
        deadline = time.monotonic() + GATHER_SECONDS
        while messages and not any(map(is_urgent, messages)):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            messages += self._cluster.receive(left)
        return messages

    def take(
        self,
        messages: Sequence[Message],
        activity_of: Callable[[str], Activity | None],
        worlds: Sequence[WorldFact],
        now: float,
    ) -> None:
        """Keep what was gathered, hand it to the runs that are on, and confirm it.

        Args:
            activity_of: Returns the run that is on, by its id.
            worlds: Those that have ranks, to which confirmations go.
            now: Epoch seconds.
        """
        batches = [message for message in messages if isinstance(message, Batch)]
        known = [
            batch
            for batch in batches
            if activity_of(batch.run) is not None or self._store.has_run(batch.run)
        ]
        kept = self._store.add_batches(known) if known else {}
        for message in messages:
            if isinstance(message, Hello):
                log.info("rank %d of generation %d is here", message.rank, message.generation)
            elif _is_in_order(message, kept) and (activity := activity_of(message.run)):
                activity.hear(message, now)
        self._confirm(batches, kept, worlds)

    def forget(self) -> None:
        """Forget when what was confirmed; a run has ended."""
        self._confirmed.clear()

    def _confirm(
        self,
        batches: Iterable[Batch],
        kept: Mapping[tuple[str, int], int],
        worlds: Sequence[WorldFact],
    ) -> None:
        """Confirm what the store has: at once what is a run's last or out of order, else rarely."""
        now = time.monotonic()
        for batch in {(batch.run, batch.rank): batch for batch in batches}.values():
            key = (batch.run, batch.rank)
            held = kept.get(key, batch.sequence)
            missing = held < batch.sequence
            due = now - self._confirmed.get(key, 0.0) >= ACKNOWLEDGE_SECONDS
            if not (due or missing or batch.ending):
                continue
            self._confirmed[key] = now
            answer = Acknowledge(batch.run, held, resend=missing)
            for world in worlds:
                self._cluster.send(world.generation, (batch.rank,), answer)


def is_urgent(message: Message) -> bool:
    """Whether a person may be waiting for it: a beginning, an end, an answer."""
    return not isinstance(message, Batch) or message.sequence == 1 or message.ending is not None


def _is_in_order(message: Batch | Pulse, kept: Mapping[tuple[str, int], int]) -> bool:
    """Whether nothing that the rank sent before it is missing."""
    if isinstance(message, Pulse):
        return True
    return message.sequence <= kept.get((message.run, message.rank), 0)
