"""On EC2's API, over HTTP: what is shown before a yes, and what was left behind."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from workbench.cloud.ec2 import Ec2
from workbench.core.fleet import Purchase
from workbench.store.home import owner_id

REGION = "us-east-1"
UP = ("up", "--ec2", "--region", REGION, "--nodes", "3", "--type", "c5.large")


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
    assert "of at most $1.00/h" in result.stdout
    assert "Everything is deleted after 2 h (" in result.stdout
    assert "Nobody said yes, and nothing was bought" in result.stderr
    assert store.clusters() == []
    assert Ec2(REGION, endpoint=endpoint.url).leftovers() == ()


def test_a_quota_that_does_not_reach_is_told_before_anything_is_asked(endpoint, workbench):
    result = workbench(*UP[:-4], "--nodes", "400", "--least", "400", "--type", "c5.large")

    assert result.exit_code == 2
    assert 'vCPUs of "All standard Spot Instance Requests"' in result.stderr


def test_a_type_that_is_not_sold_there_is_refused(endpoint, workbench):
    result = workbench("offers", "--ec2", "--region", REGION, "--type", "p2.xlarge")

    assert result.stderr.strip() == (
        f"Of what else would do in {REGION}, nothing is of type p2.xlarge; ask for less of that."
    )


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
