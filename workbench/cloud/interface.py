"""The interfaces of a provider of nodes and of a session with a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from workbench.core.fleet.model import Leftover, Machine, Needs, Offer, Purchase
from workbench.core.node.findings import Finding
from workbench.core.world.remote import Completed, RemoteProcess, Session

__all__ = ["Cloud", "Completed", "RemoteProcess", "Session"]


class Cloud(Protocol):
    """A provider of nodes. Calls block as long as the provider does: use a thread."""

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return all types that fit, one offer for each zone that has them, cheapest first.

        Args:
            history_seconds: How far back the prices go.

        Raises:
            CloudError: The provider does not answer, or denies the call.
        """
        ...

    def permissions(self, purchase: Purchase) -> tuple[Finding, ...]:
        """Make a dry run of every call that ``purchase`` and its deletion need."""
        ...

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Request the nodes; the same token again requests no more.

        Args:
            user_data: What a node runs when it boots, in cloud-init's format.
            tags: The tags of the nodes and all their resources, from their creation.

        Raises:
            CloudError: Nothing was bought; ``kind`` is what may help.
        """
        ...

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return the machines of ``cluster``, or all of ours, including recently ended ones.

        Raises:
            CloudError: The provider does not answer, or denies the call.
        """
        ...

    def end(self, ids: Sequence[str]) -> None:
        """Begin to end machines; ignores those that are gone already.

        Raises:
            CloudError: The provider does not answer, or denies the call.
        """
        ...

    def leftovers(self, cluster: str = "") -> tuple[Leftover, ...]:
        """Return all resources with our tags, billed or not, without machines that have ended."""
        ...

    def clean(self, cluster: str) -> tuple[Leftover, ...]:
        """Delete what can be deleted of ``cluster`` now, in order.

        Returns:
            What is left: call again until nothing is.
        """
        ...
