"""The EC2 nodes of one cluster: keys, the first login, the environment, the lease."""

from __future__ import annotations

import configparser
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from workbench.cloud.ec2.description import check_region, node_settings
from workbench.cloud.ec2.image_lookup import LookupCache
from workbench.cloud.ec2.provider import Ec2, sweep
from workbench.cloud.hosts.ssh import new_key, open_session
from workbench.cloud.rented import equipment
from workbench.cloud.rented.bootstrap import greet
from workbench.cloud.rented.leases import NodeLeases
from workbench.cloud.rented.ssh_keys import KeyRing
from workbench.cloud.rented.userdata import BootData, first_host_key, node_user, user_data
from workbench.core.fleet.form import LEASE_SECONDS
from workbench.core.fleet.model import Machine, Purchase
from workbench.core.fleet.node_provider import ClusterContext, Report, Sweep
from workbench.core.fleet.offers import CUDA
from workbench.core.world.known_hosts import known_hosts_line
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import CloudError, MachineError, StateError

# Every account has it; it is only used to list the others.
ANY_REGION = "us-east-1"
TYPES_FOLDER = "types"


class Ec2Nodes(Ec2):
    """The EC2 nodes of one cluster; the wish may change meanwhile."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._wish = context.wish
        self._ring = KeyRing(context.folder)
        self._leases = NodeLeases(
            context.cluster,
            lambda: self._wish().expires,
            seconds=lambda: self._wish().setting("lease", LEASE_SECONDS),
        )
        self._known = LookupCache(context.folder)
        self._admitted: tuple[str, ...] = tuple(node_settings(self._wish()).ssh_sources)
        super().__init__(
            home_region(self._wish().region),
            lambda: node_settings(self._wish()),
            owner=context.owner,
            must_reach=True,
            known=self._known if context.cluster else None,
            types=context.home / TYPES_FOLDER,
        )

    def sweep(self) -> Sweep:
        """Return all resources with our tags in all regions, baked images too."""
        wished = self._wish().region
        return sweep(self.region or ANY_REGION, only=[wished] if wished else [])

    def user_data(self, purchase: Purchase) -> str:
        """Return the user data of a purchase, with a host key generated for it."""
        private, public = new_key()
        return user_data(
            BootData(
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
        sent = self._context.sent(machine.token)
        session = greet(machine, self._ring, first_host_key(sent) if sent else "", node_user())
        self._leases.begin(machine.id, session)
        return session

    def read_notices(self) -> Mapping[str, float]:
        """Renew the leases, and return when nodes are taken back."""
        return self._leases.turn()

    def equip(self, session: Session, report: Report) -> None:
        """Install this machine's environment and a lease on a node.

        Raises:
            MachineError: A part of it could not be installed.
        """
        if equipment.equip(
            session, report, more=CUDA if self._wish().setting("cuda", False) else ()
        ):
            self._leases.restart(session)
        self._leases.lease(session)

    def part(self, ids: Sequence[str]) -> None:
        """Stop to renew the leases of nodes that are to end."""
        self._leases.part(ids)

    def shut_down(self, session: Session) -> None:
        """Shut a node down from within."""
        self._leases.shut_down(session)

    def forget(self) -> None:
        """Delete the cluster's keys, and what was looked up for it."""
        self._known.discard()
        self._ring.discard()

    def bake(self, id_: str, name: str) -> str:
        """Begin to make an image of a node without its private files; return the image's id.

        Raises:
            StateError: The node is not ready yet.
            CloudError: EC2 refuses.
            MachineError: The node cannot be reached, or has a user's files on it.
        """
        known, cluster = self._ring.of(id_), self._context.cluster
        if known is None or not self._ring.private:
            raise StateError(
                f"{id_} is not ready yet, so its private files cannot be removed",
                "wait until it is ready.",
            )
        reach = self.address(id_, cluster)
        line = known_hosts_line(reach, known.key)
        opened = open_session(Host(reach, 1, node_user()), [line], self._ring.private)
        with contextlib.closing(opened) as session:
            return self.bake_from(session, id_, name, cluster)

    # -- inside

    def _admit(self) -> None:
        """Allow ssh from where a new wish says, or from this computer's new address."""
        try:
            ssh_sources = self._way.sources(self._settings().ssh_sources)
        except CloudError:
            return  # it may be as before
        if ssh_sources == self._admitted:
            return
        try:
            self.admit(self._context.cluster)
        except CloudError as error:
            raise MachineError(str(error)) from error
        self._admitted = ssh_sources


def home_region(named: str = "") -> str:
    """Return the region that was named, or that AWS's own configuration names; empty for none.

    Raises:
        InputError: Its partition is not supported.
    """
    region = named or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    region = region or _configured_region()
    return check_region(region) if region else ""


def _configured_region() -> str:
    path = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    profile = os.environ.get("AWS_PROFILE") or "default"
    section = profile if profile == "default" else f"profile {profile}"
    settings = configparser.RawConfigParser()
    try:
        settings.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return ""
    return settings.get(section, "region", fallback="")
