"""The interface between the keeper of a fleet and a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workbench.cloud.interface import Cloud
from workbench.core.fleet.cost import Bill
from workbench.core.fleet.model import Machine, Node, Purchase
from workbench.core.world.remote import Session
from workbench.core.world.world import Host

Report = Callable[[str], None]
"""Takes one progress sentence for the user; from any thread."""


@dataclass(frozen=True)
class NodeProvider:
    """A provider's compute, and the functions that use its nodes; these run on threads.

    Args:
        open: Opens a verified session with a machine; raises ``MachineError``.
        user_data: Returns the user data of a purchase, which is stored with it.
        noticed: Returns when each machine with an interruption notice is taken back, in epoch
            seconds; 0 if unknown. It is called every second, by one thread at a time, and also
            renews leases.
        equip: Installs what every node of the provider needs, before the user's own prepare script;
            raises ``MachineError``.
        forget: Deletes what is stored here for the nodes; they are all gone.
        part: Stops keeping nodes alive; they are to end.
        shut_down: Shuts a node down from within, if the provider does not end it.
    """

    cloud: Cloud
    open: Callable[[Machine], Session]
    user_data: Callable[[Purchase], str] = lambda _: ""
    noticed: Callable[[], Mapping[str, float]] = dict
    equip: Callable[[Session, Report], None] = lambda session, report: None
    forget: Callable[[], None] = lambda: None
    part: Callable[[Sequence[str]], None] = lambda ids: None
    shut_down: Callable[[Session], None] = lambda session: None


@dataclass(frozen=True)
class MachineListing:
    """The machines that the provider listed.

    Args:
        seen: Epoch seconds of the query.
        locked_out: Why the provider rejects the credentials; empty if it does not.
    """

    machines: tuple[Machine, ...]
    seen: float
    locked_out: str = ""


@dataclass(frozen=True)
class Load:
    """The present use of the nodes.

    Args:
        waiting: Number of waiting runs.
        busy: Whether a run is active.
        used: Addresses of the nodes that have a world.
        whole: Those of them whose world is not broken.
    """

    waiting: int = 0
    busy: bool = False
    used: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Fleet:
    """The nodes of a cluster as they are.

    Args:
        hosts: The nodes that can carry a world, the head first.
        nodes: All nodes that are not gone.
        message: One sentence for the user; empty if there is nothing to report.
        finished: Whether all nodes were to be deleted, and none is left.
        over: Why all nodes are about to go though the cluster is wanted, as a clause; or empty.
    """

    hosts: tuple[Host, ...]
    nodes: tuple[Node, ...]
    bill: Bill
    message: str
    finished: bool
    over: str = ""

    def __repr__(self) -> str:
        return f"<Fleet {len(self.hosts)} of {len(self.nodes)} nodes are ready>"
