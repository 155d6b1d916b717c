"""Nodes are asked for by what one needs; nothing is bought before its total was shown."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from workbench.core.fleet.model import FleetWish, Needs, Offer
from workbench.core.fleet.provider import find_provider
from workbench.core.node.findings import Finding
from workbench.errors import CloudError, InputError, PriceQuestion
from workbench.pages import estimate
from workbench.pages.estimate import estimate_form, find_offers, start_nodes
from workbench.pages.nodes_form import find_label, form_message
from workbench.pages.requests import FormRequest
from workbench.requests import cloud_queries
from workbench.requests.cloud_queries import CloudMarket
from workbench.requests.environment import has_cuda_here

HISTORY = ((0.0, 0.2), (86400.0, 0.3), (172800.0, 0.21))
T4 = Offer(
    "g4dn.xlarge", "a", 0.21, 4, 16.0, 1, "T4", 16.0, 5.0, 25.0, HISTORY, quota=8, extra_price=0.01
)
OFFERS = (
    T4,
    replace(T4, zone="b", price=0.22),
    Offer("p3.2xlarge", "a", 0.9, 8, 61.0, 1, "V100", 16.0, 2.5, 10.0),
)
SPOT = FormRequest(provider="ec2", nodes=2, values={"region": "us-east-1"})


class FakeCloud:
    """Answers at once, and remembers what it was asked."""

    def __init__(self) -> None:
        self.found = OFFERS
        self.findings = (Finding("ec2:CreateFleet", True, "allowed"),)
        self.refusal: Exception | None = None
        self.tried: list[tuple[str, ...]] = []

    def query_market(self, wish):
        if self.refusal:
            raise self.refusal
        return CloudMarket(wish.region or "us-east-1", self.found)

    def ask_permissions(self, wish, purchase):
        self.tried.append(purchase.types)
        return self.findings

    def ask_ssh_source(self, wish):
        return "203.0.113.7/32"


@pytest.fixture(autouse=True)
def cloud(monkeypatch) -> FakeCloud:
    cloud = FakeCloud()
    for name in ("query_market", "ask_permissions", "ask_ssh_source"):
        monkeypatch.setattr(cloud_queries, name, getattr(cloud, name))
    monkeypatch.setattr(estimate, "_markets", estimate.Markets())
    monkeypatch.setattr("workbench.requests.cluster.wake_supervisor", lambda cluster: None)
    return cloud


def with_values(form: FormRequest, **values: str | bool) -> FormRequest:
    """Return the form with other values in its fields."""
    return FormRequest(
        provider=form.provider,
        nodes=form.nodes,
        min_nodes=form.min_nodes,
        type=form.type,
        values={**form.values, **values},
    )


def sized(nodes: int, min_nodes: int = 1) -> FormRequest:
    return FormRequest(provider="ec2", nodes=nodes, min_nodes=min_nodes, values=SPOT.values)


def test_nothing_starts_before_the_total_was_shown(store) -> None:
    before = estimate_form(store, "default", SPOT)

    find_offers(store, "default", SPOT)
    found = estimate_form(store, "default", SPOT)

    assert before.refusal.startswith("Press Show what fits")
    assert (found.refusal, found.price) == ("", 0.44)
    assert "Total $0.44/h" in found.says


def test_a_price_that_was_not_agreed_to_is_asked_about(store) -> None:
    find_offers(store, "default", SPOT)

    with pytest.raises(PriceQuestion, match=r"Total \$0\.44/h"):
        start_nodes(store, "default", SPOT, None)
    with pytest.raises(PriceQuestion):
        start_nodes(store, "default", SPOT, 0.43)

    assert store.cluster_wish("default") is None


def test_old_offers_are_asked_for_again(store, monkeypatch) -> None:
    monkeypatch.setattr(estimate, "MARKET_SECONDS", -1.0)
    find_offers(store, "default", SPOT)

    assert estimate_form(store, "default", SPOT).refusal.startswith("Press Show what fits")


def test_only_the_last_offers_are_kept(store) -> None:
    for number in range(40):
        find_offers(store, f"c{number}", SPOT)

    assert estimate_form(store, "c0", SPOT).refusal
    assert not estimate_form(store, "c39", SPOT).refusal


def test_types_that_fit_are_shown_with_prices_network_gpu_and_quota(store) -> None:
    found = find_offers(store, "default", sized(3)).offers

    row, other = sorted(found.rows, key=lambda one: one.cells[0])
    assert "What fits, best first" in found.title
    assert row.cells == (
        "g4dn.xlarge", "a and 1 other", "$0.21/h", "", "1 × T4, 16 GiB", "4", "16 GiB",
        "5 Gbit/s (bursts to 25)", "8 vCPUs, 4 missing", "$0.66/h",
    )  # fmt: skip
    assert row.chart == "from $0.20/h to $0.30/h over 48 h, $0.21/h now"
    assert (row.range, row.history) == ("$0.20–$0.30/h", HISTORY)
    assert (other.cells[3], other.history) == ("–", ())


def test_the_requirements_of_listed_types_are_above_the_table(store) -> None:
    title = find_offers(store, "default", SPOT).offers.title

    assert "at least 2 vCPUs, 4 GiB and 1 GiB a rank" in title


@pytest.mark.skipif(has_cuda_here(), reason="this environment computes on GPUs itself")
def test_gpus_that_no_rank_could_use_are_reported_with_the_remedy(store) -> None:
    form = with_values(SPOT, gpus="1")
    reported = find_offers(store, "default", form).says
    form = with_values(form, cuda=True)

    remedied = find_offers(store, "default", form)
    start_nodes(store, "default", form, remedied.price)

    assert "has GPUs, and ranks could not use them" in reported
    assert f"tick “{find_label(find_provider('ec2'), 'cuda')}” to install cupy-cuda12x" in reported
    assert "could not use them" not in remedied.says
    assert store.cluster_wish("default").fleet.setting("cuda", False)


def test_a_type_that_slows_down_is_listed_only_if_it_was_named(store, cloud) -> None:
    cloud.found = (replace(T4, type="t3.large", sustained=0.3, placement=False), *OFFERS)
    named = FormRequest(provider="ec2", type="t3.large", values=SPOT.values)

    listed = find_offers(store, "default", SPOT)
    found = find_offers(store, "default", named)

    assert "t3.large" not in listed.types
    assert "t3.large" in found.types
    assert "t3.large slows down to 30 % of its vCPUs" in found.says
    assert "2 nodes of t3.large in" in found.says


def test_start_asks_for_what_is_in_the_form(store) -> None:
    form = with_values(
        FormRequest(provider="ec2", nodes=2, type="g4dn.xlarge"),
        gpus="1", zones="a, b", budget="2.5", ttl="4", data="s3://mine/data", disk="200",
        subnets="subnet-0a1b2c3d, subnet-0a1b2c3e",
    )  # fmt: skip
    found = find_offers(store, "default", form)

    start_nodes(store, "default", with_values(form, region=found.region), found.price)

    fleet = store.cluster_wish("default").fleet
    assert (fleet.provider, fleet.nodes, fleet.region) == ("ec2", 2, "us-east-1")
    assert (fleet.needs.gpus, fleet.needs.zones) == (1, ("a", "b"))
    assert fleet.needs.types == ("g4dn.xlarge",)
    assert fleet.setting("subnets", ()) == ("subnet-0a1b2c3d", "subnet-0a1b2c3e")
    assert (fleet.setting("disk", 0), fleet.budget, fleet.data) == (200, 2.5, "s3://mine/data")
    assert fleet.expires == pytest.approx(time.time() + 4 * 3600, abs=60)
    # Each of the two may cost twice its present price.
    assert fleet.most_price == pytest.approx(found.price)
    assert "At most $0.88/h is paid; otherwise it waits." in found.says


def test_other_requirements_need_other_offers(store) -> None:
    find_offers(store, "default", SPOT)

    assert estimate_form(store, "default", with_values(SPOT, memory="32")).offers is None
    assert estimate_form(store, "default", sized(1)).price == 0.22


def test_a_missing_permission_refuses_a_start_and_is_named(store, cloud) -> None:
    cloud.findings = (Finding("ec2:TerminateInstances", False, "denied", "Add <it>."),)

    found = find_offers(store, "default", SPOT)

    assert found.refusal == "The dry run found problems; fix them first."
    assert found.findings.title == "1 problem to fix before nodes can be bought"
    assert found.findings.is_open
    assert "Add <it>." in found.findings.rows[0]
    assert cloud.tried == [("g4dn.xlarge",)]
    with pytest.raises(InputError, match="fix them first"):
        start_nodes(store, "default", SPOT, 1.0)


def test_what_the_dry_run_cannot_test_is_said(store, cloud) -> None:
    cloud.findings = (*cloud.findings, Finding("ec2:DeleteVolume", None, "not tested"))

    found = find_offers(store, "default", SPOT).findings

    passed = "2 checks of the dry run passed, 1 cannot be tested before resources exist"
    assert (found.title, found.is_open) == (passed, False)


def test_without_ssh_access_there_is_a_remedy(store, monkeypatch) -> None:
    def refuse(wish):
        raise CloudError("This address is not known.", "network")

    monkeypatch.setattr(cloud_queries, "ask_ssh_source", refuse)

    found = find_offers(store, "default", SPOT)

    assert "More settings: ssh from" in found.findings.rows[0][3]


def test_a_price_above_its_limit_is_reported(store) -> None:
    found = find_offers(store, "default", with_values(SPOT, max_price="0.1"))

    assert "above the max price of $0.10/h" in found.refusal


def test_a_budget_says_how_long_it_lasts(store) -> None:
    found = find_offers(store, "default", with_values(SPOT, budget="4.4"))

    assert "; $4.40 last 10 h" in found.says


def test_requirements_that_nothing_fits_are_named(store) -> None:
    found = find_offers(store, "default", with_values(SPOT, gpus="8"))

    assert "other requirements has 8 GPUs" in found.refusal
    assert found.offers is None


@pytest.mark.parametrize(
    ("box", "value", "sentence"),
    [
        ("gpus", "-1", "GPUs per node must be at least 0, not -1."),
        ("gpus", "1.5", "GPUs per node must be a whole number, not '1.5'."),
        ("budget", "-2", "Budget, $ must be at least 0, not -2."),
        ("ttl", "nan", "Time to live, h must be at least 0, not nan."),
        ("ttl", "soon", "Time to live, h must be a number, not 'soon'."),
    ],
)
def test_bad_input_is_one_sentence(store, box, value, sentence) -> None:
    found = estimate_form(store, "default", with_values(SPOT, **{box: value}))

    assert (found.refusal, found.says) == (sentence, sentence)


def test_0_nodes_buy_nothing(store) -> None:
    assert find_offers(store, "default", sized(0)).refusal == "With 0 nodes nothing is bought."


def test_fewer_nodes_than_the_least_are_refused(store) -> None:
    assert "must be from 1 to 2 nodes, not 3" in estimate_form(store, "x", sized(2, 3)).refusal


def test_a_provider_that_refuses_is_quoted(store, cloud) -> None:
    cloud.refusal = CloudError("No credentials were found; run aws configure.", "credentials")

    with pytest.raises(CloudError, match="No credentials were found"):
        find_offers(store, "default", SPOT)


def test_a_rehearsal_says_that_nothing_is_bought(store) -> None:
    found = find_offers(store, "default", FormRequest(provider="rehearsal"))

    assert "(simulated: nothing is bought)" in found.says


def test_a_type_of_the_last_time_is_in_the_form_and_is_dropped_if_it_is_not_offered(store) -> None:
    fleet = FleetWish("ec2", nodes=2, needs=Needs(types=("gone.large",)), region="us-east-1")
    store.wish_cluster("default", up=False, ranks=0, fleet=fleet)
    asked = form_message(store, "default").asked

    found = find_offers(store, "default", asked)

    assert asked.type == "gone.large"
    assert "gone.large" not in found.types
    assert "2 nodes of g4dn.xlarge" in found.says
