"""Set up EC2 nodes: keys, the first login, the environment, the lease."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from workbench.cloud.ec2.provider import Ec2
from workbench.cloud.ec2.userdata import Boot, first_host_key, node_user, user_data
from workbench.cloud.hosts.ssh import new_key
from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.cost import DISK_GIB
from workbench.core.fleet.cuda import CUDA
from workbench.core.fleet.model import FleetWish, Machine, Purchase
from workbench.core.world.remote import Session
from workbench.errors import CloudError, MachineError
from workbench.store import Store
from workbench.store.paths import cluster_directory, owner_id, types_folder
from workbench.supervisor.fleet import environment
from workbench.supervisor.fleet.bootstrap import greet
from workbench.supervisor.fleet.leases import NodeLeases
from workbench.supervisor.fleet.lookups import LookUps
from workbench.supervisor.fleet.provider import NodeProvider, Report
from workbench.supervisor.fleet.ssh_keys import KeyRing


class Ec2Provider:
    """The EC2 spot nodes of one cluster.

    The wish is read from the store each time, since it may have changed.
    """

    def __init__(self, wish: ClusterWish, store: Store) -> None:
        self._name = wish.name
        self._store = store
        self._last = wish.fleet
        self._ring = KeyRing(cluster_directory(wish.name))
        self._leases = NodeLeases(
            wish.name, lambda: self._wish().expires, seconds=lambda: self._wish().lease
        )
        self._known = LookUps(cluster_directory(wish.name))
        self._admitted: Sequence[str] = self._ssh_sources()
        self._cloud = Ec2(
            wish.fleet.region,
            owner=owner_id(),
            ssh_sources=self._ssh_sources,
            must_reach=True,
            profile=lambda: self._wish().role,
            image=lambda: self._wish().image,
            disk=lambda: self._wish().disk or DISK_GIB,
            known=self._known,
            subnets=lambda: self._wish().needs.subnets,
            types=types_folder(),
        )

    def __repr__(self) -> str:
        return f"<Ec2Provider {self._cloud!r} for {self._name}>"

    def provider(self) -> NodeProvider:
        """Return this as the provider of a fleet keeper."""
        return NodeProvider(
            self._cloud,
            self.open,
            self.user_data,
            noticed=self._leases.turn,
            equip=self.equip,
            forget=self._forget,
            part=self._leases.part,
            shut_down=self._leases.shut_down,
        )

    def user_data(self, purchase: Purchase) -> str:
        """Return the user data of a purchase, with a host key generated for it."""
        private, public = new_key()
        return user_data(
            Boot(
                cluster=purchase.cluster,
                host_key=private,
                host_public=public,
                user_key=self._ring.public,
                python="{}.{}".format(*sys.version_info),
                user=node_user(),
                expires=self._wish().expires,
            )
        )

    def open(self, machine: Machine) -> Session:
        """Log in to a machine that is verified by its host key, and renew its lease from now on.

        Raises:
            MachineError: It is unreachable, or has another host key.
        """
        self._admit()
        sent = self._store.fleets.sent(self._name, machine.token)
        session = greet(machine, self._ring, first_host_key(sent[0]) if sent else "", node_user())
        self._leases.begin(machine.id, session)
        return session

    def equip(self, session: Session, report: Report) -> None:
        """Install this machine's environment and a lease on a node.

        Raises:
            MachineError: A part of it could not be installed.
        """
        if environment.equip(session, report, more=CUDA if self._wish().cuda else ()):
            self._leases.restart(session)
        self._leases.lease(session)

    # -- inside

    def _forget(self) -> None:
        self._known.discard()
        self._ring.discard()

    def _wish(self) -> FleetWish:
        wish = self._store.cluster_wish(self._name)
        return wish.fleet if wish is not None else self._last

    def _ssh_sources(self) -> tuple[str, ...]:
        return tuple(filter(None, [self._wish().ssh_from]))

    def _admit(self) -> None:
        """Allow ssh from this computer's present address, if a new wish says so."""
        ssh_sources = self._ssh_sources()
        if ssh_sources == self._admitted:
            return
        try:
            self._cloud.admit(self._name)
        except CloudError as error:
            raise MachineError(str(error)) from error
        self._admitted = ssh_sources
