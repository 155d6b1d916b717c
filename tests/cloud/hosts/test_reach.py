"""Nodes are bought where they can be reached, or not at all."""

from __future__ import annotations

import itertools

import boto3
import pytest

from workbench.cloud.ec2.api import build_error as classified
from workbench.cloud.ec2.description import NodeSettings
from workbench.cloud.ec2.image_lookup import find_image
from workbench.cloud.ec2.provider import Ec2
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import MachineState, Needs, Purchase
from workbench.errors import CloudError, InputError

REGION, ZONE, TYPE = "us-east-1", "us-east-1a", "c5.large"
HERE = "203.0.113.7/32"
INSIDE = "172.31.200.1/32"
tokens = (f"reach{number}" for number in itertools.count())


@pytest.fixture
def api(endpoint):
    """The account, as its owner changes it."""
    return boto3.client("ec2", region_name=REGION, endpoint_url=endpoint.url)


@pytest.fixture
def ec2_of(endpoint):
    def make(ssh_source=HERE, **settings):
        wished = NodeSettings([ssh_source], **settings)
        return Ec2(REGION, lambda: wished, endpoint=endpoint.url, attempts=2)

    return make


def purchase(**changes):
    asked = {"cluster": "one", "token": next(tokens), "number": 0, "count": 1, "min_nodes": 1}
    return Purchase(**(asked | {"types": (TYPE,), "zone": ZONE} | changes))


def bought(ec2, **changes):
    ec2.buy(purchase(**changes), "#cloud-config\n{}\n", [])
    return [one for one in ec2.machines("one") if one.state is not MachineState.GONE]


def default_subnets(api):
    return api.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]


def give_no_public_addresses(api):
    for subnet in default_subnets(api):
        api.modify_subnet_attribute(
            SubnetId=subnet["SubnetId"], MapPublicIpOnLaunch={"Value": False}
        )


def test_a_node_has_a_public_address_where_its_subnet_gives_none(api, ec2_of):
    give_no_public_addresses(api)

    [node] = bought(ec2_of())

    assert node.reach
    assert node.reach != node.address


def finding(ec2, check, **changes):
    [found] = [one for one in ec2.permissions(purchase(**changes)) if one.check == check]
    return found


def test_a_role_without_an_instance_profile_is_found_before_anything_is_bought(ec2_of):
    found = finding(ec2_of(profile="workbench-node"), "ec2:RunInstances")

    assert found.ok is False
    assert "aws iam create-instance-profile" in found.remedy


def test_what_names_things_of_ours_that_do_not_exist_is_unknown(ec2_of):
    found = finding(ec2_of(), "ec2:CreateFleet")

    assert found.ok is None
    assert found.found.startswith("unknown")


def test_only_a_dry_run_that_would_have_succeeded_is_allowed(endpoint, ec2_of):
    endpoint.fail("RunInstances", "OptInRequired", "You must accept the terms.", times=-1)

    found = finding(ec2_of(), "ec2:RunInstances")

    assert found.ok is False
    assert "OptInRequired: You must accept the terms" in found.remedy


def test_a_cluster_has_no_key_pair(endpoint, ec2_of):
    bought(ec2_of())

    assert "ImportKeyPair" not in {name for name, _ in endpoint.calls()}


def test_a_computer_within_the_network_leaves_addresses_to_the_subnet(api, ec2_of):
    give_no_public_addresses(api)

    [node] = bought(ec2_of(INSIDE))

    assert node.reach == node.address


def main_table(api):
    filters = [{"Name": "association.main", "Values": ["true"]}]
    [table] = api.describe_route_tables(Filters=filters)["RouteTables"]
    return table["RouteTableId"]


def test_a_subnet_without_a_way_to_the_internet_is_refused_before_anything_is_bought(
    api, endpoint, ec2_of
):
    api.delete_route(RouteTableId=main_table(api), DestinationCidrBlock="0.0.0.0/0")

    found = finding(ec2_of(), "network")
    with pytest.raises(CloudError, match="no route to an internet gateway") as refused:
        bought(ec2_of())

    assert found.ok is False
    assert "--subnet" in found.remedy
    assert refused.value.kind is ErrorKind.CONFIGURATION
    made = {name for name, asked in endpoint.calls() if not asked.get("DryRun")}
    assert not {"CreateSecurityGroup", "CreateFleet"} & made
    assert finding(ec2_of(INSIDE), "network").ok


def test_routes_that_may_not_be_read_do_not_prevent_buying(endpoint, ec2_of):
    endpoint.deny("DescribeRouteTables")

    assert bought(ec2_of())
    assert finding(ec2_of(), "ec2:DescribeRouteTables").ok is False


def own_network(api):
    """Make a network with two public subnets and a private one; return their ids by zone."""
    vpc = api.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    gateway = api.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    api.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = api.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    api.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    subnets = {}
    for number, zone in enumerate("abc"):
        made = api.create_subnet(
            VpcId=vpc, CidrBlock=f"10.9.{number}.0/24", AvailabilityZone=f"{REGION}{zone}"
        )
        subnets[zone] = made["Subnet"]["SubnetId"]
        if zone != "c":
            api.associate_route_table(RouteTableId=table, SubnetId=subnets[zone])
    return subnets


def without_a_default_network(api):
    [default] = api.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
    for subnet in default_subnets(api):
        api.delete_subnet(SubnetId=subnet["SubnetId"])
    filters = [{"Name": "attachment.vpc-id", "Values": [default["VpcId"]]}]
    [gateway] = api.describe_internet_gateways(Filters=filters)["InternetGateways"]
    id_ = gateway["InternetGatewayId"]
    api.detach_internet_gateway(InternetGatewayId=id_, VpcId=default["VpcId"])
    api.delete_internet_gateway(InternetGatewayId=id_)
    api.delete_vpc(VpcId=default["VpcId"])


def test_nodes_are_bought_in_the_subnets_that_are_named(api, ec2_of):
    subnets = own_network(api)
    without_a_default_network(api)
    named = (subnets["a"], subnets["b"])
    ec2 = ec2_of(subnets=named)

    offers = ec2.offers(Needs(types=(TYPE,)))
    [node] = bought(ec2, zone=f"{REGION}b")

    assert {offer.zone for offer in offers} == {f"{REGION}a", f"{REGION}b"}
    assert node.address.startswith("10.9.1.")
    assert node.reach != node.address
    assert [one for one in ec2.permissions(purchase()) if one.ok is False] == []


def test_a_region_without_a_default_network_is_reported_with_both_remedies(api, ec2_of):
    without_a_default_network(api)

    found = finding(ec2_of(), "network")

    assert found.ok is False
    assert "create-default-vpc" in found.remedy
    assert "--subnet" in found.remedy


def test_a_named_subnet_that_cannot_be_reached_is_refused(api, ec2_of):
    private = own_network(api)["c"]
    ec2 = ec2_of(subnets=[private])

    with pytest.raises(CloudError, match=f"{private} of us-east-1c has no route"):
        bought(ec2, zone=f"{REGION}c")

    assert ec2.leftovers() == ()


def test_subnets_that_do_not_go_together_are_refused(api, ec2_of):
    own, [default, *_] = own_network(api), default_subnets(api)
    other = api.create_subnet(
        VpcId=api.describe_subnets(SubnetIds=[own["a"]])["Subnets"][0]["VpcId"],
        CidrBlock="10.9.9.0/24",
        AvailabilityZone=ZONE,
    )["Subnet"]["SubnetId"]

    with pytest.raises(InputError, match="name subnets of one"):
        ec2_of(subnets=(own["a"], default["SubnetId"])).offers(Needs())
    with pytest.raises(InputError, match="are both in us-east-1a"):
        ec2_of(subnets=(own["a"], other)).offers(Needs())
    with pytest.raises(CloudError, match="--subnet"):
        ec2_of(subnets=("subnet-0123456789abcdef0",)).offers(Needs())


def test_a_parameter_of_ones_own_that_may_not_be_read_is_named_with_the_remedy():
    calls = Refusing("AccessDeniedException", "User me is not authorized to: ssm:GetParameters")

    with pytest.raises(CloudError, match=r"/mine/image.*below /workbench/") as refused:
        find_image(calls, "/mine/image", gpus=False)

    assert refused.value.kind is ErrorKind.PERMISSION


class Refusing:
    """A region that refuses every call."""

    region = REGION

    def __init__(self, code, message):
        self._answer = (code, message)

    def call(self, *_, **__):
        raise classified(*self._answer)
