"""Ask a place what it offers and a host who it is, off the thread on which a person clicks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from workbench.core.contact import Contact
from workbench.core.diagnosis import Finding
from workbench.core.fleet import FleetWish, Leftover, Place, Purchase
from workbench.core.world import Host
from workbench.errors import CloudRefused, InputError
from workbench.store import asking
from workbench.store.asking import Market

Background = Callable[[Callable[[], None]], None]


class Places(Protocol):
    """What is to be known before a person says yes; each call takes as long as it takes."""

    def offers(self, wish: FleetWish) -> Market:
        """Return all types that fit, whichever of them the person chose, with past prices."""
        ...

    def permissions(self, wish: FleetWish, purchase: Purchase) -> tuple[Finding, ...]:
        """Try every call that buying and deleting these nodes needs, without doing anything."""
        ...

    def contact(self, hosts: Sequence[Host], cluster: str) -> tuple[Contact, ...]:
        """Return what each host answers."""
        ...

    def trust(self, cluster: str, lines: Sequence[str]) -> None:
        """Keep the keys that a person said yes to."""
        ...

    def leftovers(self, cluster: str, wish: FleetWish) -> tuple[Leftover, ...]:
        """Return what bears the tags of ``cluster``."""
        ...


class AskedPlaces:
    """The places as they are; see ``store.asking``."""

    def offers(self, wish: FleetWish) -> Market:
        """Return what fits."""
        return asking.ask_offers(wish.place, replace(wish.needs, types=()), wish.region)

    def permissions(self, wish: FleetWish, purchase: Purchase) -> tuple[Finding, ...]:
        """Return what the dry run found."""
        found = asking.ask_permissions(wish.place, wish.region, purchase, wish.image, wish.role)
        return (*found, *_door(wish))

    def contact(self, hosts: Sequence[Host], cluster: str) -> tuple[Contact, ...]:
        """Return what each host answers."""
        return asking.ask_contact(hosts, cluster)

    def trust(self, cluster: str, lines: Sequence[str]) -> None:
        """Keep the keys."""
        asking.trust(cluster, lines)

    def leftovers(self, cluster: str, wish: FleetWish) -> tuple[Leftover, ...]:
        """Return what is left."""
        return asking.ask_leftovers(wish.place, wish.region, cluster)


def _door(wish: FleetWish) -> tuple[Finding, ...]:
    """Return whether this computer would be let in to the nodes."""
    if wish.place is not Place.EC2:
        return ()
    try:
        door = asking.ask_door(wish.place, wish.region, wish.ssh_from)
    except (CloudRefused, InputError) as error:
        return (Finding("ssh", False, "no way in from here", f"{error} (More settings: ssh from)"),)
    return (Finding("ssh", True, f"let in from {door}"),)


def in_background(work: Callable[[], None]) -> None:
    """Do ``work`` in a thread that does not keep the kernel."""
    threading.Thread(target=work, name="workbench question", daemon=True).start()
