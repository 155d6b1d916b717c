"""The price of a machine includes its root volume and its public address."""

from __future__ import annotations

import pytest

from workbench.cloud.ec2.description import NodeSettings, extra_price
from workbench.cloud.ec2.provider import Ec2
from workbench.core.fleet.model import MachineState, Needs, Purchase

REGION, ZONE = "us-east-1", "us-east-1a"
TYPE, GPU_TYPE = "c5.large", "g4dn.xlarge"


@pytest.fixture
def ec2_of(endpoint):
    return lambda **more: Ec2(REGION, lambda: NodeSettings(**more), endpoint=endpoint.url)


def offer(ec2, type_):
    [found] = ec2.offers(Needs(types=(type_,), zones=(ZONE,)))
    return found


def size_of(api, machine):
    filters = [{"Name": "attachment.instance-id", "Values": [machine.id]}]
    [volume] = api.describe_volumes(Filters=filters)["Volumes"]
    return volume["Size"]


def give_no_addresses(api):
    for subnet in api.describe_subnets()["Subnets"]:
        off = {"Value": False}
        api.modify_subnet_attribute(SubnetId=subnet["SubnetId"], MapPublicIpOnLaunch=off)


def bought(ec2, type_):
    ec2.buy(Purchase("one", f"token {type_}", 0, 1, 1, (type_,), ZONE), "#cloud-config\n{}\n", [])
    [found] = [one for one in ec2.machines("one") if one.state is not MachineState.GONE]
    return found


@pytest.mark.parametrize("type_", [TYPE, GPU_TYPE])
def test_an_offer_costs_what_its_node_is_billed_then(api, ec2_of, type_):
    ec2 = ec2_of(ssh_sources=["203.0.113.7/32"])
    shown = offer(ec2, type_)

    machine = bought(ec2, type_)

    assert shown.address_price
    assert (
        shown.extra_price == machine.extra_price == extra_price(size_of(api, machine), public=True)
    )


def test_the_disk_is_as_large_as_the_image_needs(api, ec2_of):
    """An image for GPUs needs more than the usual root volume."""
    image = ec2_of(disk=8)

    cpu, gpu = (offer(image, type_).extra_price for type_ in (TYPE, GPU_TYPE))

    assert gpu > cpu > extra_price(7, public=True)


def test_no_address_is_billed_where_nodes_get_none(api, ec2_of):
    give_no_addresses(api)
    ec2 = ec2_of()
    shown = offer(ec2, TYPE)

    machine = bought(ec2, TYPE)

    assert not shown.address_price
    assert (
        shown.extra_price == machine.extra_price == extra_price(size_of(api, machine), public=False)
    )


def test_where_the_image_is_not_known_the_usual_disk_is_counted(endpoint, ec2_of):
    endpoint.deny("DescribeImages")

    assert offer(ec2_of(disk=50), TYPE).extra_price == extra_price(50, public=True)


def test_what_has_ended_is_not_billed_for_a_disk(ec2_of):
    ec2 = ec2_of()
    ec2.end([bought(ec2, TYPE).id])

    [gone] = ec2.machines("one")

    assert (gone.state, gone.extra_price) == (MachineState.GONE, 0.0)
