"""The interfaces of a provider of nodes and of a session with a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from workbench.core.fleet.model import Leftover, Machine, Needs, Offer, Purchase
from workbench.core.node.findings import Finding
from workbench.core.world.remote import Completed, RemoteProcess, Session

__all__ = ["Cloud", "Completed", "RemoteProcess", "Session"]


class Cloud(Protocol):
    """A place that provides nodes. Calls take as long as the place takes: use a thread."""

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return all types that fit, one for each zone that has them, cheapest first.

        Args:
            history_seconds: How far back the prices go.

        Raises:
            CloudError: The place does not answer, or not to us.
        """
        ...

    def permissions(self, purchase: Purchase) -> tuple[Finding, ...]:
        """Try every call that ``purchase`` and its deletion need, without doing anything."""
        ...

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Ask for the nodes; the same token again asks for nothing more.

        Args:
            user_data: What a node does when it boots, in cloud-init's form.
            tags: Borne by the nodes, and all that belongs to them, from the first moment.

        Raises:
            CloudError: Nothing was bought; ``kind`` says what may help.
        """
        ...

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return the machines of ``cluster``, or all that are ours, also those just gone.

        Raises:
            CloudError: The place does not answer, or not to us.
        """
        ...

    def end(self, ids: Sequence[str]) -> None:
        """Begin to end machines; one that is gone already is as good.

        Raises:
            CloudError: The place does not answer, or not to us.
        """
        ...

    def leftovers(self, cluster: str = "") -> tuple[Leftover, ...]:
        """Return all with our tags, costs or not, machines that are gone left out."""
        ...

    def clean(self, cluster: str) -> tuple[Leftover, ...]:
        """Delete what belongs to ``cluster``, in order, as far as it goes now.

        Returns:
            What is left: to be asked again until there is nothing.
        """
        ...
