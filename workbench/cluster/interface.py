"""The interface between the supervisor and a cluster, real or simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from workbench.core.cluster.generation import FailedCall, WorldFact
from workbench.core.run.model import Assignment
from workbench.core.run.rank_protocol import Command, Delivery
from workbench.core.world.world import RankFact, World


class Cluster(Protocol):
    """One controller and its worlds. No method waits for more than a request."""

    @property
    def connection_file(self) -> str:
        """Path of the connection file of ipyparallel clients, or empty."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """The names that every rank has before the first cell."""
        ...

    @property
    def fault_tolerant(self) -> bool:
        """Whether ranks can get new communicators after a failed cell."""
        ...

    @property
    def has_news(self) -> bool:
        """Whether a process of a world has ended since the last ``observe``."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether all that a previous supervisor left had ended, as after a power cut."""
        ...

    def open(self, known: Mapping[int, Sequence[RankFact]]) -> None:
        """Resume what a previous supervisor left running, if anything.

        Args:
            known: The ranks of each generation on record.

        Raises:
            WorkbenchError: A controller or a world cannot be resumed.
        """
        ...

    def start_world(self, generation: int, world: World) -> None:
        """Begin to start a world beside the running ones, and the controller before the first.

        Raises:
            WorkbenchError: It cannot be started.
        """
        ...

    def observe(self) -> tuple[WorldFact, ...]:
        """Return the facts of all worlds, oldest first.

        A world that has ended is returned once more, and then dropped.
        """
        ...

    def submit(self, generation: int, assignment: Assignment) -> None:
        """Execute ``assignment`` on all participating ranks; a rank executes it only once.

        For a rank that cannot be reached at this moment, it is lost without an error.
        """
        ...

    def failed_calls(self) -> tuple[FailedCall, ...]:
        """Return the calls of ``submit`` that failed since the last call.

        Errors inside of a run are reported by its rank.
        """
        ...

    def warm_up(self, generation: int) -> None:
        """Import the modules of a training on all ranks, while they are idle."""
        ...

    def recover(self, generation: int) -> None:
        """Begin to create new communicators on all ranks, which have left the failed cell."""
        ...

    def recovered(self, generation: int) -> bool | None:
        """Return whether the last ``recover`` succeeded; None while it is in progress."""
        ...

    def send(self, generation: int, ranks: Sequence[int], command: Command) -> None:
        """Send ``command`` to some ranks of a world."""
        ...

    def receive(self, seconds: float) -> list[Delivery]:
        """Return the messages of ranks, waiting at most ``seconds`` for the first.

        If ``wake_by`` returned true, it also returns when a process of a world has ended.
        """
        ...

    def wake_by(self, descriptor: int) -> bool:
        """Let ``receive`` return once a descriptor can be read; false if that is impossible."""
        ...

    def end_world(self, generation: int) -> None:
        """Begin to end a world, by force if necessary."""
        ...

    def close(self) -> None:
        """End every world and the controller, and return once all their processes have ended."""
        ...
