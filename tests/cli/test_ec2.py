"""On EC2's API, over HTTP: what is shown before a yes, and what was left behind."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from dataclasses import replace

import boto3
import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from workbench.cloud.ec2 import Ec2
from workbench.core.fleet import FleetWish, Needs, Node, NodeState, Place, Purchase
from workbench.store.home import cluster_directory, owner_id
from workbench.store.wishes import LOCK_NAME

REGION = "us-east-1"
INSIDE = ("up", "--ec2", "--region", REGION, "--nodes", "3", "--type", "c5.large")
UP = (*INSIDE, "--ssh-from", "203.0.113.7")


@pytest.fixture(scope="module")
def one_endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(one_endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """Give the rehearsal's EC2 as it was at first, and have every program ask it."""
    one_endpoint.reset()
    monkeypatch.setenv("AWS_ENDPOINT_URL", one_endpoint.url)
    return one_endpoint


def test_the_price_the_dry_run_and_the_end_are_shown_before_the_yes(endpoint, workbench, store):
    result = workbench(*UP, "--max-price", "1", "--ttl", "2h")

    assert "0.75 Gbit/s" in result.stdout
    assert "checks passed." in result.stdout
    assert "Tried first: 3 nodes of c5.large in us-east-1" in result.stdout
    assert "for their disks, of at most $1.00/h" in result.stdout
    assert "all nodes, with disks" in " ".join(result.stdout.split())
    assert "Nodes let in ssh from 203.0.113.7/32, and all else from one another" in result.stdout
    assert "Everything is deleted after 2 h (" in result.stdout
    assert "Nobody said yes, and nothing was bought" in result.stderr
    assert store.clusters() == []
    assert Ec2(REGION, endpoint=endpoint.url).leftovers() == ()


def test_a_quota_that_does_not_reach_is_told_before_anything_is_asked(endpoint, workbench):
    result = workbench(*UP, "--nodes", "400", "--least", "400")

    assert result.exit_code == 2
    assert 'vCPUs of "All standard Spot Instance Requests"' in result.stderr


def test_from_outside_of_the_network_an_address_has_to_be_named(endpoint, workbench, store):
    result = workbench(*INSIDE, "--yes")

    assert result.exit_code == 1
    assert "This computer is not in vpc-" in result.stderr
    assert "--ssh-from 203.0.113.7" in result.stderr
    assert store.clusters() == []


@pytest.mark.parametrize(
    ("said", "why"),
    [("0.0.0.0/0", "public and more than one address"), ("home", "'home' is no network")],
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
def test_what_aws_refuses_is_told_before_anything_is_bought(
    endpoint, workbench, store, action, code, why
):
    endpoint.fail(action, code, times=-1)

    result = workbench(*UP, "--yes")

    assert why in result.stderr
    assert result.exit_code in (1, 2)
    assert store.clusters() == []
    assert not [call for call, params in endpoint.calls() if _buys(call, params)]


def test_without_credentials_or_a_region_the_remedy_is_told(endpoint, workbench, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    without_credentials = workbench(*UP, "--yes")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    without_region = workbench("up", "--ec2", "--yes")

    assert "aws configure" in without_credentials.stderr
    assert "--region us-east-1" in without_region.stderr


def test_a_quota_of_nothing_is_told_with_where_to_raise_it(endpoint, workbench):
    endpoint.quota("L-34B43A08", 0)

    result = workbench(*UP, "--yes")

    assert 'raise "All standard' in result.stderr or "Service Quotas" in result.stderr


def _buys(action, params):
    return action in ("CreateFleet", "RunInstances") and str(params.get("DryRun")) != "True"


def test_a_type_that_is_not_sold_there_is_refused(endpoint, workbench):
    result = workbench("offers", "--ec2", "--region", REGION, "--type", "p2.xlarge")

    assert result.stderr.strip() == (
        f"Of what else would do in {REGION}, nothing is of type p2.xlarge; ask for less of that."
    )


@pytest.fixture
def rented(store) -> FleetWish:
    """The nodes of a cluster that is up, whose supervisor holds its lock."""
    needs = Needs(types=("c5.large",))
    door, until = "203.0.113.7/32", time.time() + 7200
    fleet = FleetWish(Place.EC2, nodes=2, needs=needs, region=REGION, ssh_from=door, expires=until)
    store.wish_cluster("default", up=True, ranks=0, fleet=fleet)
    zone = f"{REGION}a"
    store.put_nodes(
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
    assert "$0.0800/h now; tried first: 1 node of c5.large in us-east-1a" in unasked.stdout
    assert "Until all is deleted, in 2 h, that comes to about $0." in unasked.stdout
    assert "Nobody said yes, and nothing was bought" in unasked.stderr
    assert store.cluster_wish("default").fleet.nodes == 2
    assert workbench("resize", "--nodes", "3", "--no-wait", "--yes").exit_code == 0
    assert store.cluster_wish("default").fleet.nodes == 3


def test_fewer_nodes_are_asked_for_without_a_question(endpoint, workbench, store, rented):
    assert workbench("resize", "--nodes", "1", "--no-wait").exit_code == 0

    assert store.cluster_wish("default").fleet.nodes == 1
    assert endpoint.calls() == []


def test_more_nodes_than_all_may_cost_are_refused(endpoint, workbench, store, rented):
    fleet = replace(rented, most_price=0.1)
    store.wish_cluster("default", up=True, ranks=0, fleet=fleet)

    result = workbench("resize", "--nodes", "3", "--no-wait", "--yes")

    assert "more than the $0.1/h that all may cost" in result.stderr
    assert store.cluster_wish("default").fleet.nodes == 2


def test_a_run_does_not_buy_a_deleted_cluster_again_unasked(
    endpoint, workbench, store, rented, tmp_path
):
    store.wish_cluster("default", up=False, ranks=0)
    script = tmp_path / "train.py"
    script.write_text("pass")

    result = workbench("run", str(script))

    assert "Tried first: 2 nodes of c5.large" in result.stdout
    assert "Nobody said yes, and nothing was bought" in result.stderr
    assert not store.cluster_wish("default").up
    assert store.runs() == []


def test_a_sweep_finds_what_was_left_in_any_region_and_deletes_it(endpoint, workbench, store):
    for region in (REGION, "eu-west-1"):
        Ec2(region, endpoint=endpoint.url, owner=owner_id()).buy(
            Purchase("forgotten", region, 0, 2, 2, ("c5.large",)), "", ()
        )

    deleted = workbench("sweep-leaks", "--yes")
    again = workbench("sweep-leaks", "--region", "eu-west-1")

    assert "eu-west-1" in deleted.stdout
    assert "instance" in deleted.stdout
    assert "nothing of them is left." in deleted.stdout
    assert again.stdout == "Nothing bears our tags.\n"
    for region in (REGION, "eu-west-1"):
        rows = boto3.client("ec2", region_name=region).describe_instances()["Reservations"]
        states = {one["State"]["Name"] for row in rows for one in row["Instances"]}
        assert states == {"terminated"}


def test_what_others_have_is_shown_and_stays_unless_that_is_said(endpoint, workbench, store):
    theirs = Ec2(REGION, endpoint=endpoint.url, owner="c0ffee")
    theirs.buy(Purchase("default", "theirs", 0, 1, 1, ("c5.large",)), "", ())

    asked = workbench("sweep-leaks", "--region", REGION, "--yes")
    before = theirs.leftovers()
    told = workbench("sweep-leaks", "--region", REGION, "--others", "--yes")

    assert "default (of c0ffee)" in asked.stdout
    assert "others' things stay unless you say --others" in asked.stdout
    assert before
    assert "nothing of them is left." in told.stdout
