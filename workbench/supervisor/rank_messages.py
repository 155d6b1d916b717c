"""Receive the ranks' messages, store them, and acknowledge what is stored."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from workbench.cluster.interface import Cluster
from workbench.core.moment import Moment
from workbench.core.recovery.parts import PartReports
from workbench.core.run.display import Display
from workbench.core.run.rank_protocol import Acknowledge, Batch, Delivery, Hello, Message, Pulse
from workbench.core.run_id import run_and_attempt
from workbench.errors import DataRefused, StateError, StoreError
from workbench.store import Store
from workbench.supervisor.activity import Activity

log = logging.getLogger("workbench.supervisor")

TURN_SECONDS = 0.05
# While a run is active, a turn costs its ranks; messages begin one at once.
ACTIVE_SECONDS = 0.1
GATHER_SECONDS = 0.03
ACKNOWLEDGE_SECONDS = 0.5
HEAVY_CHARACTERS = 100_000  # of output in one batch: its rank waits for the acknowledgement
MOST_STRANGERS = 100


class RankMessages:
    """The messages of all ranks of a cluster.

    A rank is not trusted: its messages may end its own run, and nothing else.
    """

    def __init__(self, store: Store, cluster: Cluster, now: Callable[[], Moment]) -> None:
        self._store = store
        self._cluster = cluster
        self._now = now
        self._confirmed: dict[tuple[str, int], float] = {}  # run and rank, to a moment
        self._watched: dict[str, tuple[bool, float]] = {}  # run, to whether a page follows it
        self._strangers: set[tuple[int, int, str]] = set()
        self._parts = PartReports()

    def gather(
        self, seconds: float = TURN_SECONDS, *, active: bool = False, calm: bool = False
    ) -> list[Delivery]:
        """Wait for messages, and a moment longer for more, to store them in one transaction.

        Training may need the same cores, so fewer, larger turns are better.

        Args:
            seconds: The longest wait for the first.
            active: Whether ranks are in a run.
            calm: Whether nothing begins or ends, and no rank was asked for a pulse.
        """
        most = ACTIVE_SECONDS if active else TURN_SECONDS
        messages = self._cluster.receive(seconds if calm else min(seconds, most))
        deadline = self._now().steady + GATHER_SECONDS
        while messages and not any(is_urgent(one.message, calm=calm) for one in messages):
            left = deadline - self._now().steady
            if left <= 0:
                break
            if not (more := self._cluster.receive(left)):
                break
            messages += more
        return messages

    def take(
        self,
        messages: Sequence[Delivery],
        activity_of: Callable[[str], Activity | None],
        now: Moment,
    ) -> None:
        """Store messages, pass them to the active runs, and acknowledge them.

        Args:
            activity_of: Returns the active run with an id.
        """
        own, batches = list[Message](), list[Batch]()
        for one in messages:
            message = one.message
            if isinstance(message, Hello):
                log.debug("rank %d of generation %d is here", message.rank, message.generation)
            elif self._is_from_its_rank(one.generation, message, activity_of):
                message = self._parts.count(message) if isinstance(message, Batch) else message
                own.append(message)
                batches += [message] if isinstance(message, Batch) else []
            else:
                self._name_stranger(one.generation, message)
        kept = self._keep(batches, activity_of, now)
        for message in own:
            if isinstance(message, Hello) or not _is_in_order(message, kept):
                continue
            if (activity := activity_of(message.run)) is not None:
                with activity.guard(now):
                    activity.hear(message, now)
        self._confirm(messages, {(one.run, one.rank) for one in batches}, kept, now)

    def forget(self) -> None:
        """Clear the times of acknowledgements, since a run has ended."""
        self._confirmed.clear()
        self._watched.clear()
        self._strangers.clear()

    # -- inside

    def _is_from_its_rank(
        self,
        generation: int,
        message: Batch | Pulse,
        activity_of: Callable[[str], Activity | None],
    ) -> bool:
        """Return whether the run is, or was, on that rank of that generation."""
        activity = activity_of(message.run)
        carrier = activity.life.carrier if activity else self._store.carried_by(message.run)
        return carrier[0] == generation and message.rank < carrier[1]

    def _name_stranger(self, generation: int, message: Batch | Pulse) -> None:
        key = message.rank, generation, message.run
        if key not in self._strangers and len(self._strangers) < MOST_STRANGERS:
            self._strangers.add(key)
            log.warning("rank %d of generation %d reports on run %s, which is not its own", *key)

    def _keep(
        self,
        batches: Sequence[Batch],
        activity_of: Callable[[str], Activity | None],
        now: Moment,
    ) -> dict[tuple[str, int], int]:
        """Store batches; if one cannot be stored, its run fails and the others are stored."""
        kept: dict[tuple[str, int], int] = {}
        try:
            return self._store.reports.add_batches(batches) if batches else kept
        except (DataRefused, StateError):
            pass  # one of them is invalid
        for batch in batches:
            try:
                kept |= self._store.reports.add_batches([batch])
            except (DataRefused, StateError) as error:
                log.warning("run %s, rank %d: %s", batch.run, batch.rank, error)
                if (activity := activity_of(batch.run)) is not None:
                    why = f"A message of rank {batch.rank} cannot be stored: {error}"
                    activity.refuse(why, now)
                # Its next messages are in order only if this one counts as received.
                with contextlib.suppress(DataRefused, StateError):
                    kept |= self._store.reports.add_batches(
                        [replace(batch, samples=(), chunks=(), progress=None)]
                    )
        return kept

    def _is_watched(self, execution: str, now: Moment) -> bool:
        """Return whether a page follows a run; it is looked up once for all of its ranks."""
        known, until = self._watched.get(execution, (True, -math.inf))
        if now.steady >= until:
            with contextlib.suppress(StoreError):
                known = bool(self._store.open_pages(run_and_attempt(execution)[0], now.wall))
            self._watched[execution] = known, now.steady + ACKNOWLEDGE_SECONDS
        return known

    def _confirm(
        self,
        messages: Sequence[Delivery],
        own: Collection[tuple[str, int]],
        kept: Mapping[tuple[str, int], int],
        now: Moment,
    ) -> None:
        """Acknowledge what is stored: last and out-of-order messages at once, others rarely.

        Messages of unknown runs are acknowledged as well: their ranks would repeat them forever.

        Args:
            own: The runs and ranks that have sent batches of their own; of others nothing is kept.
        """
        last = {
            (one.generation, one.message.run, one.message.rank): one.message
            for one in messages
            if isinstance(one.message, Batch)
        }
        for (generation, run, rank), batch in last.items():
            if (run, rank) not in own:
                answer = Acknowledge(run, batch.sequence, watched=False)
                self._cluster.send(generation, (rank,), answer)
                continue
            held = kept.get((run, rank), batch.sequence)
            missing = held < batch.sequence
            passed = now.steady - self._confirmed.get((run, rank), -math.inf)
            if not (passed >= ACKNOWLEDGE_SECONDS or missing or batch.ending or _is_heavy(batch)):
                continue
            self._confirmed[run, rank] = now.steady
            answer = Acknowledge(run, held, missing, self._is_watched(run, now))
            self._cluster.send(generation, (rank,), answer)


def is_urgent(message: Message, *, calm: bool = False) -> bool:
    """Return whether a user may be waiting for it: a beginning, an end, an answer.

    Args:
        calm: Whether no rank was asked for a pulse.
    """
    if calm and isinstance(message, Pulse):
        return message.left
    return not isinstance(message, Batch) or message.sequence == 1 or message.ending is not None


def _is_heavy(batch: Batch) -> bool:
    size = sum(one.size if isinstance(one, Display) else len(one.text) for one in batch.chunks)
    return size >= HEAVY_CHARACTERS


def _is_in_order(message: Batch | Pulse, kept: Mapping[tuple[str, int], int]) -> bool:
    """Return whether every earlier message of the rank is stored."""
    if isinstance(message, Pulse):
        return True
    return message.sequence <= kept.get((message.run, message.rank), 0)
