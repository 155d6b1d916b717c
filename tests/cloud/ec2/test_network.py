"""Nodes are bought where this computer can reach them, and let in its own address alone."""

from __future__ import annotations

import functools
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cloud.conftest import purchase as purchase_of
from tests.rehearsal.ec2.imds import Metadata
from workbench.cloud.ec2.api import build_error as classified
from workbench.cloud.ec2.description import NodeSettings
from workbench.cloud.ec2.image_lookup import find_image
from workbench.cloud.ec2.network import (
    ADDRESS_SECONDS,
    OwnLocation,
    WayOut,
    own_location,
    own_ssh_source,
)
from workbench.cloud.ec2.provider import Ec2
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import MachineState, Needs
from workbench.errors import CloudError, InputError

CARD = "meta-data/network/interfaces/macs/02:00:00:00:00:01"


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "metadata.json").write_text(
        json.dumps(
            {
                "meta-data/mac": "02:00:00:00:00:01",
                f"{CARD}/vpc-id": "vpc-1",
                "meta-data/local-ipv4": "172.31.4.5",
            }
        )
    )
    handler = type("Handler", (Metadata,), {"file": tmp_path / "metadata.json"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        server.shutdown()
        thread.join()


def test_a_computer_in_the_network_lets_in_its_own_private_address(environment):
    assert own_location(environment) == OwnLocation("vpc-1", "172.31.4.5")
    assert own_ssh_source("vpc-1", "us-east-1", environment) == "172.31.4.5/32"


def test_for_a_computer_of_another_network_the_remedy_is_shown(environment):
    with pytest.raises(CloudError, match="--ssh-from") as refused:
        own_ssh_source("vpc-2", "us-east-1", environment)

    assert refused.value.kind is ErrorKind.CONFIGURATION


def test_who_forbids_to_ask_is_not_asked_for(environment):
    forbidden = environment | {"AWS_EC2_METADATA_DISABLED": "true"}

    assert own_location(forbidden) == OwnLocation()


def test_a_computer_without_such_a_service_is_nowhere():
    nowhere = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"}

    assert own_location(nowhere) == OwnLocation()


class Address(BaseHTTPRequestHandler):
    """Answers with the address that the test has set."""

    now = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.now}\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Outside:
    """A service that tells addresses, an ssh server, and the time that passes."""

    def __init__(self, port: int, server: int) -> None:
        self.handler = Address
        self.seconds = 0.0
        self.way = WayOut(
            "us-east-1",
            {
                "WORKBENCH_ADDRESS_URL": f"http://127.0.0.1:{port}/",
                "WORKBENCH_SSH_SERVERS": f"127.0.0.1:9,127.0.0.1:{server}",
            },
            lambda: self.seconds,
        )


@pytest.fixture
def outside():
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Address) as server,
        socket.create_server(("127.0.0.1", 0)) as ssh,
    ):
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        Address.now = "203.0.113.7"
        yield Outside(server.server_port, ssh.getsockname()[1])
        server.shutdown()
        thread.join()


def test_auto_is_this_computers_public_address_also_when_it_changes(outside):
    assert outside.way.sources(["auto", "10.8.0.0/16"]) == ("203.0.113.7/32", "10.8.0.0/16")

    Address.now = "203.0.113.8"
    assert outside.way.sources(["auto"]) == ("203.0.113.7/32",)
    outside.seconds += ADDRESS_SECONDS
    assert outside.way.sources(["auto"]) == ("203.0.113.8/32",)


@pytest.mark.parametrize("answer", ["<html>", "2001:db8::1", ""])
def test_without_a_known_address_auto_is_refused_with_the_remedy(outside, answer):
    Address.now = answer

    with pytest.raises(CloudError, match="name it \\(--ssh-from 203") as refused:
        outside.way.sources(["auto"])

    assert refused.value.kind is ErrorKind.BUSY


def test_an_address_that_nodes_do_not_accept_is_named_with_the_command(outside):
    fault = outside.way.fault(["203.0.113.9/32"])

    assert str(fault) == (
        "This computer's public address is now 203.0.113.7, and nodes accept ssh from "
        "203.0.113.9/32 alone; let it in: `workbench up --ssh-from auto`, or with both addresses, "
        "separated by a comma."
    )
    assert outside.way.fault(["203.0.113.9/32", "203.0.113.0/29"]) is None
    assert outside.way.fault(["auto"]) is None
    assert outside.way.fault(["10.8.0.0/16"]) is None


def test_where_no_port_22_can_be_reached_the_network_is_at_fault(outside):
    closed = WayOut(
        "us-east-1",
        {"WORKBENCH_ADDRESS_URL": outside.way._url, "WORKBENCH_SSH_SERVERS": "127.0.0.1:9"},
    )

    assert str(closed.fault(["auto"])).startswith(
        "No connection to port 22 leaves this computer's network (neither 127.0.0.1:9 can"
    )
    assert "use another network or a VPN" in closed.explain(["auto"])


def test_a_computer_that_is_offline_forbids_nothing_and_says_so(outside):
    offline = WayOut("us-east-1", {"WORKBENCH_ADDRESS_URL": "http://127.0.0.1:9"})

    assert offline.fault(["203.0.113.9/32"]) is None
    assert offline.explain(["203.0.113.9/32"]).startswith("This computer may be offline")
    assert "VPN is up" in offline.explain(["10.8.0.0/16"])
    assert outside.way.explain(["auto"]) == ""


REGION, ZONE, TYPE = "us-east-1", "us-east-1a", "c5.large"
HERE = "203.0.113.7/32"
INSIDE = "172.31.200.1/32"
purchase = functools.partial(purchase_of, count=1, min_nodes=1)


@pytest.fixture
def ec2_of(endpoint):
    def make(ssh_source=HERE, **settings):
        wished = NodeSettings([ssh_source], **settings)
        return Ec2(REGION, lambda: wished, endpoint=endpoint.url, attempts=2)

    return make


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
