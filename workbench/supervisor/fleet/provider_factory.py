"""Make the provider that a cluster's wish names."""

from __future__ import annotations

from pathlib import Path

from workbench.cloud.hosts.listed_hosts import HostsCloud
from workbench.cloud.hosts.local_session import LocalSession
from workbench.cloud.hosts.probe import is_here
from workbench.cloud.hosts.ssh import open_session
from workbench.cloud.rehearsal.provider import RehearsalCloud
from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import Machine, Provider
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import InputError
from workbench.requests.cloud_queries import rehearsal_folder, trusted_lines
from workbench.store import Store
from workbench.supervisor.fleet.provider import NodeProvider


def provider_of(wish: ClusterWish, store: Store) -> NodeProvider:
    """Return the provider of ``wish``.

    Raises:
        InputError: This provider cannot be used yet.
    """
    match wish.fleet.provider:
        case Provider.HOSTS:
            hosts = {host.address: host for host in wish.fleet.hosts}
            return NodeProvider(
                HostsCloud(wish.fleet.hosts),
                lambda machine: _open(hosts[machine.id], machine, wish.name),
            )
        case Provider.REHEARSAL:
            cloud = RehearsalCloud(rehearsal_folder())
            return NodeProvider(
                cloud,
                lambda machine: cloud.session(machine.id),
                noticed=lambda: cloud.noticed(wish.name),
            )
        case Provider.EC2:
            # boto3 takes half a second to load.
            from workbench.supervisor.fleet.ec2 import Ec2Provider

            return Ec2Provider(wish, store).provider()
    raise InputError(
        f"Nodes of {wish.fleet.provider} cannot be kept yet", "choose hosts (`--hosts`)."
    )


def _open(host: Host, machine: Machine, cluster: str) -> Session:
    if is_here(host.address):
        return LocalSession(Host(machine.address, host.slots), Path.home())
    return open_session(host, trusted_lines(cluster))
