"""A cluster without MPI: what its worlds and ranks show of themselves to a supervisor.

Its ranks are threads that execute source, or models of a training in a time that passes on request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.cluster.generation import Death, FailedCall, WorldFact, WorldState
from workbench.core.recovery.replay import KNOWN
from workbench.core.run.rank_protocol import Acknowledge, Batch, Command, Ending
from workbench.core.world.world import RankFact, World


class SentBatches:
    """The batches of one rank in one execution: numbered, and kept until they are acknowledged."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.acknowledged = 0

    @property
    def unconfirmed(self) -> list[Batch]:
        """Those that the supervisor may not have."""
        return self.batches[self.acknowledged :]

    @property
    def ending(self) -> Ending | None:
        """How the rank left, if it has."""
        return self.batches[-1].ending if self.batches else None

    @property
    def is_over(self) -> bool:
        """Whether the rank has left in order, and the supervisor has all of it."""
        is_well = self.ending is not None and self.ending.state != "failed"
        return is_well and not (self.ending and self.ending.error) and not self.unconfirmed

    def add(self, run: str, rank: int, **content: Any) -> Batch:
        """Return the next batch."""
        self.batches.append(Batch(run, rank, len(self.batches) + 1, **content))
        return self.batches[-1]

    def acknowledge(self, command: Acknowledge) -> list[Batch]:
        """Return what is to be sent again."""
        self.acknowledged = max(self.acknowledged, command.sequence)
        return self.batches[command.sequence :] if command.resend else []


class SimulatedWorld:
    """One MPI world.

    Its kinds have ``is_ready``, ``is_ending``, ``has_ended``, ``has_exited``, and ``place``, which
    returns a rank's host and address.
    """

    def __init__(self, generation: int, world: World) -> None:
        self.generation, self.world = generation, world
        self.deaths: tuple[Death, ...] = ()
        self.sent = defaultdict[tuple[str, int], SentBatches](SentBatches)  # execution, rank

    def fact(self) -> WorldFact:
        """Return what the supervisor sees of it."""
        state, reason = WorldState.READY, ""
        if self.is_ending:
            state = WorldState.ENDED if self.has_ended else WorldState.BROKEN
        elif self.deaths:
            state, reason = WorldState.BROKEN, "a rank is gone"
        elif self.has_exited:
            state = WorldState.ENDED
        elif not self.is_ready:
            state = WorldState.STARTING
        ranks = self.ranks() if self.is_ready else ()
        size = self.world.size
        return WorldFact(self.generation, size, state, ranks, self.deaths, reason)

    def ranks(self) -> tuple[RankFact, ...]:
        """Return the facts of its ranks."""
        places = enumerate(map(self.place, range(self.world.size)))
        return tuple(
            RankFact(self.generation, n, host, pid=0, engine=n, address=address)
            for n, (host, address) in places
        )


class SimulatedCluster:
    """Worlds in this process; see ``cluster.interface.Cluster``.

    Its kinds have ``start_world``, ``submit``, ``receive``, ``end_world`` and ``close``; ``post``,
    which sends a message of a rank; and ``obey``, by which ranks execute a command.
    """

    connection_file = ""
    names = KNOWN
    has_news = is_lost = False

    def __init__(self, *, fault_tolerant: bool = True) -> None:
        self.fault_tolerant = fault_tolerant
        self.worlds: dict[int, Any] = {}
        self._recovered: dict[int, bool] = {}
        self._failed: list[FailedCall] = []

    def open(self, known: Mapping[int, Sequence[RankFact]]) -> None:
        """Do nothing: the ranks end with this process."""

    def observe(self) -> tuple[WorldFact, ...]:
        """Return the facts, and drop worlds that have ended."""
        facts = tuple(world.fact() for world in self.worlds.values())
        for fact in facts:
            if fact.state is WorldState.ENDED:
                del self.worlds[fact.generation]
        return facts

    def failed_calls(self) -> tuple[FailedCall, ...]:
        """Return the ranks that could not begin a run."""
        failed, self._failed = tuple(self._failed), []
        return failed

    def warm_up(self, generation: int) -> None:
        """Do nothing: all modules are imported."""

    def recover(self, generation: int) -> None:
        """Succeed at once, if the cluster is fault tolerant."""
        self._recovered[generation] = self.fault_tolerant

    def recovered(self, generation: int) -> bool | None:
        """Return whether ``recover`` was requested and succeeded."""
        return self._recovered.pop(generation, None)

    def send(self, generation: int, ranks: Sequence[int], command: Command) -> None:
        """Execute ``command`` on the ranks that are in that run."""
        if (world := self.worlds.get(generation)) is None:
            return
        if not isinstance(command, Acknowledge):
            self.obey(world, ranks, command)
            return
        for rank in ranks:
            for batch in world.sent[command.run, rank].acknowledge(command):
                if not world.deaths:  # the dead send nothing again
                    self.post(generation, batch)

    def wake_by(self, descriptor: int) -> bool:
        """Return false: it waits for messages alone."""
        return False
