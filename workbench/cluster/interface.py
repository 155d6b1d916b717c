"""The interface between the supervisor and a cluster, real or fake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from workbench.core.cluster.generation import FailedCall, WorldFact
from workbench.core.run.model import Assignment
from workbench.core.run.rank_protocol import Command, Letter
from workbench.core.world.world import RankFact, World


class Cluster(Protocol):
    """One controller and its worlds. No method waits for longer than it takes to ask."""

    @property
    def connection_file(self) -> str:
        """Path of the file with which an ipyparallel client connects, or empty."""
        ...

    @property
    def fault_tolerant(self) -> bool:
        """Whether ranks that left a failed cell can get fresh communicators."""
        ...

    def open(self, known: Mapping[int, Sequence[RankFact]]) -> None:
        """Take up what a predecessor left running, if anything.

        Args:
            known: The ranks of each generation as they were last written down.

        Raises:
            WorkbenchError: What is there cannot be taken up.
        """
        ...

    def start_world(self, generation: int, world: World) -> None:
        """Begin to start a world beside those that run, and the controller before the first.

        Raises:
            WorkbenchError: It could not be started.
        """
        ...

    def observe(self) -> tuple[WorldFact, ...]:
        """Return what is seen of every world that has not been forgotten, oldest first.

        A world that has ended is returned once more, and then forgotten.
        """
        ...

    def submit(self, generation: int, assignment: Assignment) -> None:
        """Have all ranks that take part execute ``assignment``; a rank that has begun it does not.

        Where a rank cannot be reached at this moment, it is lost without a word.
        """
        ...

    def failed_calls(self) -> tuple[FailedCall, ...]:
        """Return where ``submit`` came to nothing since this was last asked.

        What goes wrong inside of a run is reported by its rank.
        """
        ...

    def warm_up(self, generation: int) -> None:
        """Have all ranks import what a training will want, when they have nothing else to do."""
        ...

    def recover(self, generation: int) -> None:
        """Begin to make fresh communicators on all ranks, which have left the failed cell."""
        ...

    def recovered(self, generation: int) -> bool | None:
        """Whether the last ``recover`` succeeded; None while it is under way."""
        ...

    def send(self, generation: int, ranks: Sequence[int], command: Command) -> None:
        """Send ``command`` to some ranks of a world."""
        ...

    def receive(self, seconds: float) -> list[Letter]:
        """Return what ranks sent, waiting at most ``seconds`` for the first; each as itself."""
        ...

    def end_world(self, generation: int) -> None:
        """Begin to end a world, by force if need be."""
        ...

    def close(self) -> None:
        """End every world and the controller, and return when nothing of them is left."""
        ...
