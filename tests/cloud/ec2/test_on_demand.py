"""Nodes on demand: the same purchase at fixed prices, with quotas of their own."""

from __future__ import annotations

import functools
import json

import pytest

from tests.cloud.conftest import purchase as purchase_of
from workbench.cloud.ec2.description import NodeSettings
from workbench.cloud.ec2.list_prices import KEPT_SECONDS, read_prices
from workbench.cloud.ec2.provider import Ec2
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Needs
from workbench.errors import CloudError

REGION, ZONE = "us-east-1", "us-east-1a"
# $/h on the rehearsal's list: $0.05 a vCPU, and as much as eight for a GPU.
SMALL, SMALL_PRICE = "c5.large", 0.1
LARGE, LARGE_PRICE = "c5.xlarge", 0.2
QUOTA = "L-1216C47A"


@pytest.fixture
def ec2(endpoint):
    return open_ec2(endpoint)


def open_ec2(endpoint, **options):
    return Ec2(REGION, lambda: NodeSettings(on_demand=True), endpoint=endpoint.url, **options)


purchase = functools.partial(purchase_of, token="abc", count=2, min_nodes=1)


def requests(endpoint, action):
    return [params for name, params in endpoint.calls() if name == action]


def test_the_same_call_buys_without_the_spot_market_and_without_a_spot_request(ec2, endpoint):
    ec2.buy(purchase(max_price=0.5), "", ())

    [asked] = requests(endpoint, "CreateFleet")
    assert asked["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "on-demand"
    assert "SpotOptions" not in asked
    assert asked["OnDemandOptions"]["MinTargetCapacity"] == 1
    assert all("MaxPrice" not in one for one in asked["LaunchTemplateConfigs"][0]["Overrides"])
    assert [one.price for one in ec2.machines("one")] == [SMALL_PRICE] * 2
    assert "spot request" not in {left.kind for left in ec2.leftovers("one")}


def test_an_adapter_of_spot_nodes_knows_their_fixed_price_too(ec2, endpoint):
    ec2.buy(purchase(), "", ())

    sweeping = Ec2(REGION, endpoint=endpoint.url)

    assert [one.price for one in sweeping.machines()] == [SMALL_PRICE] * 2


def test_offers_have_the_fixed_price_and_the_quota_of_running_machines(ec2, endpoint):
    endpoint.quota(QUOTA, 10)
    ec2.buy(purchase(), "", ())

    offers = ec2.offers(Needs(types=(SMALL, "g4dn.xlarge")), 86_400.0)

    small = [offer for offer in offers if offer.type == SMALL]
    assert {offer.price for offer in small} == {SMALL_PRICE}
    assert {offer.quota for offer in small} == {10 - 4}
    assert {one.quota_name for one in offers} == {
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
        "Running On-Demand G and VT instances",
    }
    [spot, *_] = Ec2(REGION, endpoint=endpoint.url).offers(Needs(types=(SMALL,)))
    assert (spot.quota, spot.price < SMALL_PRICE) == (640, True)


def test_every_call_passes_its_dry_run(ec2):
    found = ec2.permissions(purchase())

    assert [one for one in found if one.ok is False] == []
    assert "ec2:RunInstances" in {one.check for one in found}


def test_a_purchase_over_the_quota_is_found_before_it_is_made(ec2, endpoint):
    endpoint.quota(QUOTA, 3)

    [wrong] = [one for one in ec2.permissions(purchase()) if one.ok is False]

    assert (wrong.check, wrong.found) == ("quota", "VcpuLimitExceeded")


def test_types_above_the_max_price_are_left_out_since_ec2_takes_no_maximum(ec2, endpoint):
    ec2.buy(purchase(types=(LARGE, SMALL), max_price=SMALL_PRICE), "", ())

    assert {one.type for one in ec2.machines("one")} == {SMALL}
    with pytest.raises(CloudError, match=r"costs \$0\.20/h on demand") as refused:
        ec2.buy(purchase(token="def", types=(LARGE,), max_price=LARGE_PRICE / 2), "", ())
    assert refused.value.kind == ErrorKind.PRICE


def test_a_zone_without_capacity_is_refused_as_on_the_spot_market(ec2, endpoint):
    endpoint.pool(SMALL, ZONE, free=0)

    with pytest.raises(CloudError) as refused:
        ec2.buy(purchase(), "", ())

    assert refused.value.kind == ErrorKind.CAPACITY


def test_a_user_who_may_not_read_the_price_list_learns_which_right_is_missing(ec2, endpoint):
    endpoint.fail(
        "GetProducts",
        "AccessDeniedException",
        "User: arn:aws:iam::123456789012:user/me is not authorized to perform: pricing:GetProducts",
        times=-1,
    )

    with pytest.raises(CloudError, match="pricing:GetProducts") as refused:
        ec2.offers(Needs(types=(SMALL,)))

    assert refused.value.kind == ErrorKind.PERMISSION


def test_the_whole_list_is_asked_once_a_day_by_all_processes(endpoint, tmp_path):
    here = open_ec2(endpoint, types=tmp_path)
    first = here.offers(Needs(vcpus=64))
    pages = len(requests(endpoint, "GetProducts"))

    again = open_ec2(endpoint, types=tmp_path).offers(Needs(vcpus=64))

    assert [(o.type, o.price) for o in again] == [(o.type, o.price) for o in first]
    assert len(requests(endpoint, "GetProducts")) == pages > 1
    [kept] = tmp_path.glob("prices-*.json")
    old = json.loads(kept.read_text())
    kept.write_text(json.dumps({**old, "at": old["at"] - KEPT_SECONDS}))
    open_ec2(endpoint, types=tmp_path).offers(Needs(vcpus=64))
    assert len(requests(endpoint, "GetProducts")) == 2 * pages


@pytest.mark.parametrize("region", ["eu-west-1", "ap-northeast-1", "us-west-2"])
def test_the_nearest_of_the_few_price_lists_is_asked(endpoint, region):
    far = Ec2(region, lambda: NodeSettings(on_demand=True), endpoint=endpoint.url)

    assert {offer.price for offer in far.offers(Needs(types=(SMALL,)))} == {SMALL_PRICE}


def test_only_what_an_hour_costs_in_dollars_is_read():
    def row(type_, **dimensions):
        terms = {"T": {"priceDimensions": dimensions}}
        return json.dumps(
            {"product": {"attributes": {"instanceType": type_}}, "terms": {"OnDemand": terms}}
        )

    hour = {"unit": "Hrs", "pricePerUnit": {"USD": "0.0850000000"}}
    free = {"unit": "Hrs", "pricePerUnit": {"USD": "0.0000000000"}}
    other = {"unit": "Quantity", "pricePerUnit": {"USD": "9"}}
    yuan = {"unit": "Hrs", "pricePerUnit": {"CNY": "1"}}

    assert read_prices(
        [row("c5.large", a=hour, b=other), row("x.large", a=free), row("y.large", a=yuan)]
    ) == {"c5.large": 0.085}
