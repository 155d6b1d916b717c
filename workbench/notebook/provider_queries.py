"""Queries to providers and hosts, off the thread of the user interface."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from workbench.core.fleet.model import FleetWish, Leftover, Purchase
from workbench.core.node.findings import Finding
from workbench.core.node.host_findings import HostProbe
from workbench.core.world.world import Host
from workbench.errors import CloudError, InputError
from workbench.requests import cloud_queries
from workbench.requests.cloud_queries import CloudMarket
from workbench.store.paths import trust

Background = Callable[[Callable[[], None]], None]


class ProviderQueries(Protocol):
    """The queries before a confirmation; each call can be slow."""

    def offers(self, wish: FleetWish) -> CloudMarket:
        """Return all types that fit, with their price history, even if one was chosen."""
        ...

    def permissions(self, wish: FleetWish, purchase: Purchase) -> tuple[Finding, ...]:
        """Dry-run every call that buying and deleting these nodes needs."""
        ...

    def contact(self, hosts: Sequence[Host], cluster: str) -> tuple[HostProbe, ...]:
        """Probe each host."""
        ...

    def trust(self, cluster: str, lines: Sequence[str]) -> None:
        """Store confirmed host keys."""
        ...

    def leftovers(self, cluster: str, wish: FleetWish) -> tuple[Leftover, ...]:
        """Return the resources with the tags of ``cluster``."""
        ...


class CloudQueries:
    """The real providers; see ``requests.cloud_queries``."""

    def offers(self, wish: FleetWish) -> CloudMarket:
        """Return the offers that fit."""
        return cloud_queries.query_market(replace(wish, needs=replace(wish.needs, types=())))

    def permissions(self, wish: FleetWish, purchase: Purchase) -> tuple[Finding, ...]:
        """Return the findings of the dry run."""
        found = cloud_queries.ask_permissions(wish, purchase)
        return (*found, *_ssh_source(wish))

    def contact(self, hosts: Sequence[Host], cluster: str) -> tuple[HostProbe, ...]:
        """Probe each host."""
        return cloud_queries.ask_contact(hosts, cluster)

    def trust(self, cluster: str, lines: Sequence[str]) -> None:
        """Store the keys."""
        trust(cluster, lines)

    def leftovers(self, cluster: str, wish: FleetWish) -> tuple[Leftover, ...]:
        """Return what is left."""
        return cloud_queries.ask_leftovers(wish, cluster)


def _ssh_source(wish: FleetWish) -> tuple[Finding, ...]:
    """Return whether the nodes would accept ssh from this computer."""
    if not wish.place.admits_ssh:
        return ()
    try:
        ssh_source = cloud_queries.ask_ssh_source(wish)
    except (CloudError, InputError) as error:
        return (
            Finding("ssh", False, "no ssh access from here", f"{error} (More settings: ssh from)"),
        )
    return (Finding("ssh", True, f"accepted from {ssh_source}"),)


def in_background(work: Callable[[], None]) -> None:
    """Run ``work`` in a daemon thread."""
    threading.Thread(target=work, name="workbench question", daemon=True).start()
