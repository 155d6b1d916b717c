"""The interface of a provider of nodes, as an adapter implements it.

``offers``, ``buy``, ``machines``, ``end`` and ``open`` are what every provider has; the rest has a
default. A provider's description (``core.fleet.provider.Provider``) names a function that takes a
``ClusterContext`` and returns a ``NodeProvider``. Calls block as long as the provider does: use a
thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import (
    FleetWish,
    Leftover,
    Machine,
    MachineState,
    Needs,
    Offer,
    Purchase,
)
from workbench.core.node.findings import Finding
from workbench.core.node.host_findings import HostProbe
from workbench.core.world.remote import Session
from workbench.errors import CloudError, InputError

CLUSTER = "workbench:cluster"
"""The tag with the cluster of a machine or another resource."""
OWNER = "workbench:owner"
"""The owner: two people may have clusters of the same name in one account."""
EXPIRES = "workbench:expires"
"""Epoch seconds at which everything is deleted, as a whole number; absent for never."""

Report = Callable[[str], None]
"""Takes one progress sentence for the user; from any thread."""


@dataclass(frozen=True)
class ClusterContext:
    """The cluster for which a provider is opened.

    Args:
        cluster: Its name; empty for a query that is about none.
        wish: Returns the present desired state, which may have changed.
        home: The folder of our data, where a provider may have a folder of its own name.
        folder: The folder of the cluster's private files.
        owner: The owner of what is bought from here.
        sent: Returns the user data of a purchase by its token; empty if unknown.
        trusted: Returns the confirmed lines of known_hosts.
    """

    cluster: str
    wish: Callable[[], FleetWish]
    home: Path
    folder: Path
    owner: str = ""
    sent: Callable[[str], str] = lambda token: ""
    trusted: Callable[[], Sequence[str]] = tuple


@dataclass(frozen=True)
class Sweep:
    """The resources with our tags, wherever the provider may have some.

    Args:
        refused: Each region that was not searched, and the reason.
        regions: Number of all regions; 0 if there are none.
        denied: Regions that a policy denies explicitly, as organisations do for unused ones.
    """

    left: tuple[Leftover, ...]
    refused: tuple[tuple[str, str], ...] = ()
    denied: tuple[str, ...] = ()
    regions: int = 0


def open_provider(context: ClusterContext) -> NodeProvider:
    """Import the adapter of a cluster's provider, with the provider's client, and open it.

    Raises:
        InputError: It is not installed, or has no nodes.
    """
    place = context.wish().place
    if not place.has_nodes:
        raise InputError(f"There are no nodes {place.located}", "choose a provider of nodes.")
    module, _, name = place.adapter.partition(":")
    opened: NodeProvider = getattr(import_module(module), name)(context)
    return opened


class NodeProvider(ABC):
    """A provider's machines, and what is done with them."""

    @property
    def region(self) -> str:
        """The region in which it is asked; empty if it has none."""
        return ""

    @abstractmethod
    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return all types that fit, one offer for each zone that has them, cheapest first.

        Args:
            history_seconds: How far back the prices go.

        Raises:
            CloudError: The provider does not answer, or denies the call.
        """

    @abstractmethod
    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Request the nodes; the same token again requests no more.

        Args:
            user_data: What a node runs when it boots; see ``user_data``.
            tags: The tags of the nodes and all their resources, from their creation.

        Raises:
            CloudError: Nothing was bought; ``kind`` is what may help.
        """

    @abstractmethod
    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return the machines of ``cluster``, or all of ours, including recently ended ones.

        Raises:
            CloudError: The provider does not answer, or denies the call.
        """

    @abstractmethod
    def end(self, ids: Sequence[str]) -> None:
        """Begin to end machines; ignores those that are gone already.

        Raises:
            CloudError: The provider does not answer, or denies the call.
        """

    @abstractmethod
    def open(self, machine: Machine) -> Session:
        """Open a verified session with a machine.

        Raises:
            MachineError: It is unreachable, or not the machine that was bought.
        """

    # -- with a default: what is bought beside machines, and how nodes are kept

    def permissions(self, purchase: Purchase) -> tuple[Finding, ...]:
        """Make a dry run of every call that ``purchase`` and its deletion need."""
        return ()

    def leftovers(self, cluster: str = "") -> tuple[Leftover, ...]:
        """Return all resources with our tags, billed or not, without machines that have ended."""
        return tuple(
            Leftover("instance", one.id, dict(one.tags).get(CLUSTER, cluster), price=one.price,
                     created=one.launched, owner=dict(one.tags).get(OWNER, ""))
            for one in self.machines(cluster)
            if one.state is not MachineState.GONE
        )  # fmt: skip

    def clean(self, cluster: str, *, images: bool = False) -> tuple[Leftover, ...]:
        """Delete what can be deleted of ``cluster`` now, in order.

        Args:
            images: Whether images that were made of its nodes are deleted too.

        Returns:
            What is left: call again until nothing is.
        """
        self.end([one.id for one in self.leftovers(cluster)])
        return self.leftovers(cluster)

    def sweep(self) -> Sweep:
        """Return all resources with our tags, in all regions unless the wish names one."""
        return Sweep(self.leftovers())

    def user_data(self, purchase: Purchase) -> str:
        """Return what the nodes of a purchase run when they boot; it is stored with it."""
        return ""

    def read_notices(self) -> Mapping[str, float]:
        """Return when each machine with an interruption notice is taken back, in epoch seconds.

        It is 0 if that is unknown. It is called every second, by one thread at a time, and may also
        renew leases.
        """
        return {}

    def equip(self, session: Session, report: Report) -> None:
        """Install what every node of the provider needs, before the user's own prepare script.

        Raises:
            MachineError: A part of it could not be installed.
        """
        return

    def links(self) -> Mapping[tuple[str, str], tuple[float, float]]:
        """Return what was measured between equipped nodes; the same object until it is measured.

        Returns:
            Seconds one way and bytes per second, by the host names of source and target.
        """
        return {}

    def explain_silence(self, machines: Sequence[Machine]) -> str:
        """Return the likeliest cause why none of these running machines answers, with the remedy.

        Raises:
            CloudError: The provider does not answer.
        """
        reach = ", ".join(machine.reach for machine in machines)
        return f"Check the network between this computer and {reach}."

    def part(self, ids: Sequence[str]) -> None:
        """Stop to keep nodes alive; they are to end."""
        return

    def shut_down(self, session: Session) -> None:
        """Shut a node down from within, if the provider does not end it."""
        return

    def forget(self) -> None:
        """Delete what is stored here for the nodes; they are all gone."""
        return

    # -- for the capabilities that a description may name

    def ssh_source(self) -> str:
        """Return the network from which nodes accept ssh, if the description admits ssh.

        Raises:
            CloudError: This computer's address is unknown, or the provider does not answer.
        """
        raise self._lacks("ssh rules")

    def contact(self) -> tuple[HostProbe, ...]:
        """Probe each host that the user listed; one with an unknown key is not logged in to."""
        return ()

    def examine(self) -> tuple[Finding, ...]:
        """Return the problems of the nodes as one cluster; each finding names its node."""
        return ()

    def interrupt(self, id_: str, notice: float) -> None:
        """Take a node back after ``notice`` seconds, for a test."""
        raise self._lacks("interruptions on request")

    def replay(self, counts: Sequence[tuple[float, int]], ends: float, notice: float) -> None:
        """Give and take nodes as a recording did, for a test.

        Args:
            counts: How many there are from when on, in epoch seconds.
            ends: When it is over.
            notice: Seconds from a node's notice until it is taken back.
        """
        raise self._lacks("recordings")

    def bake(self, id_: str, name: str) -> str:
        """Begin to make an image of a node; return the image's id."""
        raise self._lacks("images")

    def image(self, id_: str) -> Any:
        """Return the progress of an image, with ``state`` and ``percent``."""
        raise self._lacks("images")

    def discard(self, image: str) -> tuple[str, ...]:
        """Delete an image with its snapshots, and return their ids."""
        raise self._lacks("images")

    def purge(self) -> None:
        """Remove what a deleted cluster has installed on hosts that the user listed."""
        return

    def _lacks(self, what: str) -> CloudError:
        return CloudError(
            f"{self!r} has no {what}", ErrorKind.CONFIGURATION, remedy="choose another provider."
        )
