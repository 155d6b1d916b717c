"""Say for each place how its nodes are bought and logged in to."""

from __future__ import annotations

from pathlib import Path

from workbench.cloud.contact import is_here
from workbench.cloud.fake import FakeCloud
from workbench.cloud.hosts import HostsCloud
from workbench.cloud.local import LocalSession
from workbench.cloud.ssh import open_session
from workbench.core.cluster import ClusterWish
from workbench.core.fleet import Machine, Place
from workbench.core.session import Session
from workbench.core.world import Host
from workbench.errors import InputError
from workbench.store import Store
from workbench.store.asking import rehearsal_folder, trusted_lines
from workbench.supervisor.lender import Lender


def lender_of(wish: ClusterWish, store: Store) -> Lender:
    """Return the place of ``wish``, and the way to its nodes.

    Raises:
        InputError: Nothing here lends from that place.
    """
    match wish.fleet.place:
        case Place.HOSTS:
            hosts = {host.address: host for host in wish.fleet.hosts}
            return Lender(
                HostsCloud(wish.fleet.hosts),
                lambda machine: _open(hosts[machine.id], machine, wish.name),
            )
        case Place.FAKE:
            cloud = FakeCloud(rehearsal_folder())
            return Lender(
                cloud,
                lambda machine: cloud.session(machine.id),
                noticed=lambda: cloud.noticed(wish.name),
            )
        case Place.EC2:
            # boto3 takes half a second to load.
            from workbench.supervisor.rented import Rented

            return Rented(wish, store).lender()
    raise InputError(f"Nodes of {wish.fleet.place} cannot be kept yet; choose hosts.")


def _open(host: Host, machine: Machine, cluster: str) -> Session:
    if is_here(host.address):
        return LocalSession(Host(machine.address, host.slots), Path.home())
    return open_session(host, trusted_lines(cluster))
