"""On EC2's API, over HTTP: what is shown before a yes, and what was left behind."""

from __future__ import annotations

import contextlib
import fcntl
import io
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import boto3
import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from workbench.cli import command
from workbench.cloud import __main__ as queries
from workbench.cloud.ec2.provider import Ec2
from workbench.core.fleet.model import FleetWish, Needs, Node, NodeState, Purchase
from workbench.requests.environment import has_cuda_here
from workbench.requests.supervisor import LOCK_NAME
from workbench.store.paths import cluster_directory, owner_id

REGION = "us-east-1"
INSIDE = ("up", "--ec2", "--region", REGION, "--nodes", "3", "--type", "c5.large")
UP = (*INSIDE, "--ssh-from", "203.0.113.7")


@pytest.fixture(scope="module")
def one_endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def asked_by_programs(one_endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """Give the rehearsal's EC2 as it was at first, and have every program ask it."""
    one_endpoint.reset()
    monkeypatch.setenv("AWS_ENDPOINT_URL", one_endpoint.url)
    return one_endpoint


@pytest.fixture
def endpoint(asked_by_programs: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """Have this process answer queries: to start one for each takes longer than the answer."""
    start = subprocess.run

    def run(command, **options):
        if command[:3] != [sys.executable, "-m", "workbench.cloud"]:
            return start(command, **options)
        said = io.StringIO()
        with monkeypatch.context() as patch, contextlib.redirect_stdout(said):
            patch.setattr(sys, "stdin", io.StringIO(options["input"]))
            code = queries.main(command[3:])
        return subprocess.CompletedProcess(command, code, said.getvalue(), "")

    monkeypatch.setattr(subprocess, "run", run)
    return asked_by_programs


def test_the_price_the_dry_run_and_the_end_are_shown_before_the_yes(
    asked_by_programs, workbench, store
):
    result = workbench(*UP, "--max-price", "1", "--ttl", "2h")

    assert "0.75 Gbit/s" in result.stdout
    assert re.search(r"Dry run: \d+ checks passed, \d+ cannot be tested before", result.stdout)
    assert "Tried first: 3 nodes of c5.large in us-east-1" in result.stdout
    assert "for their disks and $0.015/h for public addresses (max price" in result.stdout
    assert "all nodes, with disks and addresses" in " ".join(result.stdout.split())
    assert "Nodes accept ssh from 203.0.113.7/32, and all other traffic only from" in result.stdout
    assert "The nodes are released after 2 h at the latest (" in result.stdout
    assert "Not confirmed, so nothing was bought" in result.stderr
    assert store.clusters() == []
    assert Ec2(REGION, endpoint=asked_by_programs.url).leftovers() == ()


def test_nodes_on_demand_are_agreed_to_at_their_fixed_price(endpoint, workbench):
    result = workbench(*UP, "--on-demand", "--ttl", "2h")

    said = " ".join(result.stdout.split())
    assert "$0.10/h" in said
    assert re.search(r"Dry run: \d+ checks passed, \d+ cannot be tested before", said)
    assert "bought on demand: their price is fixed, and EC2 does not take them back" in said
    assert "Not confirmed, so nothing was bought" in result.stderr
    assert Ec2(REGION, endpoint=endpoint.url).leftovers() == ()


def test_the_price_that_is_confirmed_is_the_most_that_a_node_may_cost(
    endpoint, workbench, store, monkeypatch
):
    monkeypatch.setattr(command, "ask_cluster", lambda *_, **how: asked.append(how["fleet"]))
    asked = []

    result = workbench(*UP, "--ttl", "2h", "--yes", "--no-wait")

    [fleet] = asked
    most = re.search(r"At most \$(\S+)/h is paid; otherwise it waits", result.stdout)
    assert float(most[1]) == pytest.approx(3 * fleet.most_price, rel=0.1)
    assert "VAT, and what a bucket stores, come on top." in result.stdout


def test_a_quota_that_does_not_reach_is_reported_before_anything_is_asked(endpoint, workbench):
    result = workbench(*UP, "--nodes", "400", "--min-nodes", "400")

    assert result.exit_code == 2
    assert (
        'left of "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"' in result.stderr
    )


def test_what_is_listed_at_all_is_said_before_the_yes(endpoint, workbench):
    result = workbench(*UP[:-3], "t3.large", *UP[-2:])

    said = " ".join(result.stdout.split())
    assert "at least 2 vCPUs, 4 GiB and 1 GiB a rank" in said
    assert "t3.large slows down to 30 % of its vCPUs" in said
    assert "Tried first: 3 nodes of t3.large in us-east-1" in said
    assert "close together" not in said.partition("Tried first")[2]


def test_a_type_that_cannot_carry_the_software_is_refused_before_anything_is_asked(
    endpoint, workbench
):
    result = workbench(*UP[:-3], "t3.nano", *UP[-2:])

    assert result.exit_code == 2
    assert "t3.nano has 2 vCPUs and 0.5 GiB, and a node needs at least 2 vCPUs, 4" in result.stderr


@pytest.mark.parametrize("type_", ["p3dn.24xlarge", "g6f.large"])
def test_gpus_that_the_image_does_not_drive_are_refused(endpoint, workbench, type_):
    result = workbench(*UP[:-3], type_, *UP[-2:])

    assert result.exit_code == 2
    assert "The image has no driver for the" in result.stderr


@pytest.mark.skipif(has_cuda_here(), reason="this environment computes on GPUs itself")
def test_gpus_that_no_rank_could_use_are_reported_before_the_confirmation(endpoint, workbench):
    typed = [*UP[:-3], "g4dn.xlarge", *UP[-2:]]

    said, remedied = (
        " ".join(workbench(*typed, *more).stdout.split()) for more in ((), ("--cuda",))
    )

    assert "g4dn.xlarge has GPUs, and ranks could not use them" in said
    assert "add --cuda to install cupy-cuda12x[ctk]>=14 and nvidia-nccl-cu12 on the nodes" in said
    assert "could not use them" not in remedied
    assert "Tried first: 3 nodes of g4dn.xlarge" in remedied


def test_from_outside_of_the_network_an_address_has_to_be_named(endpoint, workbench, store):
    result = workbench(*INSIDE, "--yes")

    assert result.exit_code == 1
    assert "This computer is not in vpc-" in result.stderr
    assert "--ssh-from auto" in result.stderr
    assert store.clusters() == []


@pytest.mark.parametrize(
    ("said", "why"),
    [("0.0.0.0/0", "public and more than 256 addresses"), ("home", "'home' is not a network")],
)
def test_a_door_to_the_world_is_refused(endpoint, workbench, said, why):
    result = workbench(*INSIDE, "--yes", "--ssh-from", said)

    assert why in result.stderr


@pytest.mark.parametrize(
    ("action", "code", "why"),
    [
        ("CreateFleet", "UnauthorizedOperation", "The dry run failed at ec2:CreateFleet"),
        ("DescribeVpcs", "AuthFailure", "credentials"),
    ],
)
def test_what_aws_refuses_is_reported_before_anything_is_bought(
    endpoint, workbench, store, action, code, why
):
    endpoint.fail(action, code, times=-1)

    result = workbench(*UP, "--yes")

    assert why in result.stderr
    assert result.exit_code in (1, 2)
    assert store.clusters() == []
    assert not [call for call, params in endpoint.calls() if _buys(call, params)]


def test_without_credentials_or_a_region_the_remedy_is_reported(endpoint, workbench, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    without_credentials = workbench(*UP, "--yes")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    without_region = workbench("up", "--ec2", "--yes")

    assert "aws configure" in without_credentials.stderr
    assert "--region us-east-1" in without_region.stderr


def test_a_quota_of_nothing_is_reported_with_where_to_raise_it(endpoint, workbench):
    endpoint.quota("L-34B43A08", 0)

    result = workbench(*UP, "--yes")

    assert 'aise "All Standard (A, C, D, H, I, M, R, T, Z) Spot' in result.stderr


def _buys(action, params):
    return action in ("CreateFleet", "RunInstances") and str(params.get("DryRun")) != "True"


def test_a_type_that_is_not_sold_there_is_refused(endpoint, workbench):
    result = workbench("offers", "--ec2", "--region", REGION, "--type", "p2.xlarge")

    assert result.stderr.strip() == (
        f"No offer in {REGION} that meets the other requirements is of type p2.xlarge; "
        "ease that requirement."
    )


@pytest.fixture
def rented(store) -> FleetWish:
    """The nodes of a cluster that is up, whose supervisor holds its lock."""
    needs = Needs(types=("c5.large",))
    ssh_source, until = "203.0.113.7/32", time.time() + 7200
    fleet = FleetWish(
        "ec2",
        nodes=2,
        needs=needs,
        region=REGION,
        settings=(("ssh_from", ssh_source),),
        expires=until,
    )
    store.wish_cluster("default", up=True, ranks=0, fleet=fleet)
    zone = f"{REGION}a"
    store.fleets.put_nodes(
        "default",
        [
            Node(f"i-{n}", NodeState.JOINED, f"10.0.0.{n}", 2, "c5.large", zone, price=0.04)
            for n in (1, 2)
        ],
    )
    with (cluster_directory("default") / LOCK_NAME).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield fleet


def test_more_nodes_are_bought_once_their_price_was_agreed_to(endpoint, workbench, store, rented):
    unasked = workbench("resize", "--nodes", "3", "--no-wait")

    assert "3 nodes would cost about $0." in unasked.stdout
    assert "$0.08/h now; tried first: 1 node of c5.large in us-east-1a" in unasked.stdout
    assert "Until its time to live is over, in 2 h, this costs about $0." in unasked.stdout
    assert "Not confirmed, so nothing was bought" in unasked.stderr
    assert store.cluster_wish("default").fleet.nodes == 2
    assert workbench("resize", "--nodes", "3", "--no-wait", "--yes").exit_code == 0
    assert store.cluster_wish("default").fleet.nodes == 3


def test_who_may_use_ssh_changes_without_a_purchase(endpoint, workbench, store, rented):
    result = workbench("up", "--ssh-from", "auto,198.51.100.0/24", "--no-wait")

    assert result.exit_code == 0, result.stderr
    fleet = store.cluster_wish("default").fleet
    assert fleet == replace(rented, settings=(("ssh_from", "auto,198.51.100.0/24"),))
    assert endpoint.calls() == []
    assert workbench("up", "--disk", "70", "--no-wait").exit_code != 0
    refused = workbench("up", "--ssh-from", "198.51.0.0/16", "--no-wait")
    assert "public and more than 256 addresses" in refused.stderr


def test_fewer_nodes_are_asked_for_without_a_question(endpoint, workbench, store, rented):
    assert workbench("resize", "--nodes", "1", "--no-wait").exit_code == 0

    assert store.cluster_wish("default").fleet.nodes == 1
    assert endpoint.calls() == []


def test_more_nodes_than_all_may_cost_are_refused(endpoint, workbench, store, rented):
    fleet = replace(rented, max_price=0.1)
    store.wish_cluster("default", up=True, ranks=0, fleet=fleet)

    result = workbench("resize", "--nodes", "3", "--no-wait", "--yes")

    assert "more than the max price of $0.10/h" in result.stderr
    assert store.cluster_wish("default").fleet.nodes == 2


def test_a_run_waits_for_a_cluster_that_is_being_deleted_and_buys_nothing(
    endpoint, workbench, store, rented, tmp_path
):
    store.wish_cluster("default", up=False, ranks=0)
    script = tmp_path / "train.py"
    script.write_text("pass")

    result = workbench("run", str(script))

    assert "Cluster 'default' on EC2 is still being deleted; " in result.stderr
    assert not store.cluster_wish("default").up
    assert store.runs() == []


def test_a_sweep_finds_what_was_left_in_any_region_and_deletes_it(endpoint, workbench, store):
    for region in (REGION, "eu-west-1"):
        Ec2(region, endpoint=endpoint.url, owner=owner_id()).buy(
            Purchase("forgotten", region, 0, 2, 2, ("c5.large",)), "", ()
        )

    deleted = workbench("sweep-leaks", "--yes")
    again = workbench("sweep-leaks", "--region", "eu-west-1")

    assert re.search(r"instance .* eu-west-1 .* \$0\.\d+/h", deleted.stdout)
    assert "was not searched" not in deleted.stderr
    assert re.search(r"Deleted \d+ resources\.", deleted.stdout)
    assert again.stdout == "No resource has our tags.\n"
    for region in (REGION, "eu-west-1"):
        rows = boto3.client("ec2", region_name=region).describe_instances()["Reservations"]
        states = {one["State"]["Name"] for row in rows for one in row["Instances"]}
        assert states == {"terminated"}


def test_a_sweep_of_regions_that_do_not_answer_does_not_say_that_nothing_is_there(
    endpoint, workbench, store
):
    endpoint.fail("DescribeInstances", "RequestLimitExceeded", "Slow down.", times=-1)

    swept = workbench("sweep-leaks", "--region", REGION)

    assert swept.exit_code == 1
    assert swept.stdout == "Not known: 1 of 1 regions could not be searched.\n"
    assert f"{REGION} was not searched: " in swept.stderr
    assert "run the command again in a minute" in swept.stderr


def test_what_a_command_asked_once_is_not_said_to_be_repeated(endpoint, workbench, store):
    endpoint.fail("DescribeInstanceTypes", "Strange", "Who knows.", times=-1)

    asked = workbench("offers", "--ec2", "--region", REGION, "--type", "c5.large")

    assert "change what it names, or run the command again later." in asked.stderr
    assert "this one again later" not in asked.stderr


def test_what_others_have_is_shown_and_stays_unless_that_is_said(endpoint, workbench, store):
    theirs = Ec2(REGION, endpoint=endpoint.url, owner="c0ffee")
    theirs.buy(Purchase("default", "theirs", 0, 1, 1, ("c5.large",)), "", ())

    asked = workbench("sweep-leaks", "--region", REGION, "--yes")
    before = theirs.leftovers()
    reported = workbench("sweep-leaks", "--region", REGION, "--others", "--yes")

    assert "default (owner: c0ffee)" in asked.stdout
    assert "add --others to delete resources of other people" in asked.stdout
    assert before
    assert re.search(r"Deleted \d+ resources\.", reported.stdout)


DENIED = (
    "You are not authorized to perform this operation. User: "
    "arn:aws:sts::123456789012:assumed-role/a-role-with-a-long-name/person@example.com is not "
    "authorized to perform: ec2:DescribeTags with an explicit deny in a service control policy"
)


def test_a_region_that_an_organisation_denies_is_named_and_is_no_failure(endpoint, workbench):
    endpoint.fail("DescribeTags", "UnauthorizedOperation", DENIED, times=-1)

    result = workbench("sweep-leaks", "--region", REGION)

    assert f"A policy denies {REGION}, so it was not searched" in result.stderr
    assert result.exit_code == 0


def test_a_region_that_is_not_permitted_otherwise_is_a_failure(endpoint, workbench):
    endpoint.deny("DescribeTags")

    result = workbench("sweep-leaks", "--region", REGION)

    assert f"{REGION} was not searched" in result.stderr
    assert result.exit_code == 1


@pytest.mark.parametrize("region", ["cn-north-1", "us-gov-west-1"])
def test_partitions_of_their_own_are_not_supported(endpoint, workbench, monkeypatch, region):
    named = workbench("up", "--ec2", "--region", region)
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    configured = workbench("up", "--ec2")

    for result in (named, configured):
        assert f"{region} is in another partition of AWS, which is not supported" in result.stderr
    assert endpoint.calls() == []


def test_subnets_are_named_on_the_command_line(endpoint, workbench):
    ec2 = boto3.client("ec2", region_name=REGION)
    zone = [{"Name": "availability-zone", "Values": [f"{REGION}b"]}]
    subnet = ec2.describe_subnets(Filters=zone)["Subnets"][0]["SubnetId"]

    result = workbench(*UP, "--subnet", subnet)

    assert "Tried first: 3 nodes of c5.large in us-east-1b" in result.stdout
    assert workbench(*UP, "--subnet", "mine").stderr.startswith("'mine' is not a subnet's id; ")


def test_the_size_of_the_disk_is_in_the_price(endpoint, workbench):
    usual, large = workbench(*UP), workbench(*UP, "--disk", "1000")

    assert large.stdout != usual.stdout
    assert "--disk must be from 8 to 16384 GiB, not 4." in workbench(*UP, "--disk", "4").stderr
