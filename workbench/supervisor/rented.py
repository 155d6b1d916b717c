"""Join what it takes to use nodes of EC2: keys, the first log-in, the environment, the lease."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from workbench.cloud.ec2 import Ec2
from workbench.cloud.ssh import new_key
from workbench.cloud.userdata import Boot, first_host_key, node_user, user_data
from workbench.core.cluster import ClusterWish
from workbench.core.cost import extra_price
from workbench.core.fleet import FleetWish, Machine, Place, Purchase
from workbench.core.session import Session
from workbench.errors import CloudRefused, MachineError
from workbench.store import Store
from workbench.store.home import cluster_directory, owner_id
from workbench.supervisor import equipment
from workbench.supervisor.attendance import Attendance
from workbench.supervisor.greeting import greet
from workbench.supervisor.keys import KeyRing
from workbench.supervisor.lender import Lender, Say

# Nobody has taken up the node by then: it ends. A bare image installs for some minutes first.
BOOT_SECONDS = 1200.0


class Rented:
    """The nodes of one cluster, on EC2's spot market.

    What a wish says is read from the store when it is needed: it may be made anew meanwhile.
    """

    def __init__(self, wish: ClusterWish, store: Store) -> None:
        self._name = wish.name
        self._store = store
        self._last = wish.fleet
        self._ring = KeyRing(cluster_directory(wish.name))
        self._attendance = Attendance(wish.name, lambda: self._wish().expires)
        self._admitted: Sequence[str] = self._doors()
        self._cloud = Ec2(
            wish.fleet.region,
            public_key=self._ring.public,
            owner=owner_id(),
            doors=self._doors,
            must_reach=True,
            profile=lambda: self._wish().role,
            image=lambda: self._wish().image,
        )

    def __repr__(self) -> str:
        return f"<Rented {self._cloud!r} for {self._name}>"

    def lender(self) -> Lender:
        """Return it as a keeper of nodes is given it."""
        return Lender(
            self._cloud,
            self.open,
            self.user_data,
            noticed=self._attendance.turn,
            extra=extra_price(Place.EC2),
            equip=self.equip,
            forget=self._ring.discard,
        )

    def user_data(self, purchase: Purchase) -> str:
        """Return what the nodes of a purchase do when they boot, with a host key made for it."""
        private, public = new_key()
        return user_data(
            Boot(
                cluster=purchase.cluster,
                host_key=private,
                host_public=public,
                user_key=self._ring.public,
                prefix=sys.prefix,
                python="{}.{}".format(*sys.version_info),
                user=node_user(),
                boot_seconds=BOOT_SECONDS,
                expires=self._wish().expires,
            )
        )

    def open(self, machine: Machine) -> Session:
        """Log in to a machine, by the key that it must have, and attend to it from now on.

        Raises:
            MachineError: It cannot be reached, or is not the one that it should be.
        """
        self._admit()
        sent = self._store.sent(self._name, machine.token)
        session = greet(machine, self._ring, first_host_key(sent[0]) if sent else "", node_user())
        self._attendance.begin(machine.id, session)
        return session

    def equip(self, session: Session, say: Say) -> None:
        """Give a node the environment that is here, and a lease.

        Raises:
            MachineError: It lacks something that it could not be given.
        """
        if equipment.equip(session, say):
            self._attendance.restart(session)
        self._attendance.lease(session)

    # -- inside

    def _wish(self) -> FleetWish:
        wish = self._store.cluster_wish(self._name)
        return wish.fleet if wish is not None else self._last

    def _doors(self) -> tuple[str, ...]:
        return tuple(filter(None, [self._wish().ssh_from]))

    def _admit(self) -> None:
        """Let this computer in from where it is now, when a new wish says so."""
        doors = self._doors()
        if doors == self._admitted:
            return
        try:
            self._cloud.admit(self._name)
        except CloudRefused as error:
            raise MachineError(str(error)) from error
        self._admitted = doors
