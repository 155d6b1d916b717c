"""A user's own hosts are neither bought nor ended."""

from __future__ import annotations

import pytest

from workbench.cloud.hosts.listed_hosts import ListedHosts
from workbench.core.fleet.model import MachineState, Needs, Purchase
from workbench.core.fleet.node_provider import NodeProvider
from workbench.core.world.world import Host
from workbench.errors import CloudError

HOSTS = (Host("10.0.0.4", 2, user="me"), Host("no-such-host.invalid", 0), Host("127.0.0.1", 1))


@pytest.fixture
def cloud() -> NodeProvider:
    return ListedHosts(HOSTS)


def test_the_machines_are_the_hosts(cloud):
    machines = cloud.machines("any")

    assert [machine.id for machine in machines] == [host.address for host in HOSTS]
    assert [machine.slots for machine in machines] == [2, 0, 1]
    assert {machine.state for machine in machines} == {MachineState.RUNNING}


def test_a_name_that_only_ssh_knows_and_a_loopback_stay_as_they_are(cloud):
    assert [machine.address for machine in cloud.machines()] == [host.address for host in HOSTS]


def test_nothing_is_bought(cloud):
    with pytest.raises(CloudError, match="3 hosts"):
        cloud.buy(Purchase("one", "token", 0, 1, 1, ()), "", ())
    assert cloud.offers(Needs()) == ()


def test_nothing_is_ended_and_nothing_is_left(cloud):
    cloud.end(["10.0.0.4"])

    assert len(cloud.machines()) == 3
    assert cloud.clean("one") == cloud.leftovers() == ()
