"""The interface between the keeper of a fleet and a provider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.cloud.interface import Cloud
from workbench.core.fleet.cost import Bill
from workbench.core.fleet.model import Machine, Node, Purchase
from workbench.core.world.remote import Session
from workbench.core.world.world import Host

Say = Callable[[str], None]
"""Takes one sentence for the reader about what goes on; from any thread."""


@dataclass(frozen=True)
class NodeProvider:
    """A place, and what one needs to use its nodes; the functions run on threads.

    Args:
        open: Opens a verified session with a machine; raises ``MachineError``.
        user_data: What the nodes of a purchase do when they boot; it is kept with the purchase.
        noticed: Tells which machines the place has said it will take back. It is asked about
            every second, one at a time: who has to be attended to is attended to by it.
        equip: Gives a verified node what every node of the place needs before the reader's own
            preparation; raises ``MachineError``.
        forget: Removes what was kept here for the nodes' sake; nothing of them is left.
        part: Keeps nodes no longer from ending by themselves; they are to go.
        shut_down: Ends a node from within, where the place does not end it.
    """

    cloud: Cloud
    open: Callable[[Machine], Session]
    user_data: Callable[[Purchase], str] = lambda _: ""
    noticed: Callable[[], frozenset[str]] = frozenset
    equip: Callable[[Session, Say], None] = lambda session, say: None
    forget: Callable[[], None] = lambda: None
    part: Callable[[Sequence[str]], None] = lambda ids: None
    shut_down: Callable[[Session], None] = lambda session: None


@dataclass(frozen=True)
class MachineListing:
    """What was seen at the place.

    Args:
        seen: Epoch seconds at which it was asked.
        locked_out: Why the place does not take the credentials; empty where it does.
    """

    machines: tuple[Machine, ...]
    seen: float
    locked_out: str = ""


@dataclass(frozen=True)
class Load:
    """What is asked of the nodes now.

    Args:
        waiting: Runs that wait.
        busy: Whether a run is on.
        used: Addresses of the nodes on which a world stands.
        whole: Those of them whose world is not broken.
    """

    waiting: int = 0
    busy: bool = False
    used: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Fleet:
    """The nodes as they stand.

    Args:
        hosts: Those on which a world may stand, the head first.
        nodes: All that are not gone.
        message: One sentence for the reader; empty when there is nothing to say.
        finished: Whether everything was to be deleted, and nothing is left.
    """

    hosts: tuple[Host, ...]
    nodes: tuple[Node, ...]
    bill: Bill
    message: str
    finished: bool

    def __repr__(self) -> str:
        return f"<Fleet {len(self.hosts)} of {len(self.nodes)} nodes are ready>"
