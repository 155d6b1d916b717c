"""Nodes are asked for by what one needs; nothing is bought before its total was shown."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.view.pages import text_of
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.fleet.model import (
    FleetWish,
    Leftover,
    Needs,
    Node,
    NodeState,
    Offer,
    Purchase,
)
from workbench.core.fleet.provider import find_provider
from workbench.core.fleet.purchases import PurchaseRecord
from workbench.core.node.findings import Finding
from workbench.core.node.host_findings import HostProbe
from workbench.core.world.world import Host
from workbench.errors import CloudError
from workbench.notebook.forms.cluster_panel import ClusterPanel
from workbench.requests.cloud_queries import CloudMarket
from workbench.requests.environment import has_cuda_here

HISTORY = ((0.0, 0.2), (86400.0, 0.3), (172800.0, 0.21))
OFFERS = (
    Offer(
        "g4dn.xlarge",
        "a",
        0.21,
        4,
        16.0,
        1,
        "T4",
        16.0,
        5.0,
        25.0,
        HISTORY,
        quota=8,
        extra_price=0.01,
    ),
    Offer(
        "g4dn.xlarge",
        "b",
        0.22,
        4,
        16.0,
        1,
        "T4",
        16.0,
        5.0,
        25.0,
        HISTORY,
        quota=8,
        extra_price=0.01,
    ),
    Offer("p3.2xlarge", "a", 0.9, 8, 61.0, 1, "V100", 16.0, 2.5, 10.0),
)
LINE = "10.0.0.1 ssh-ed25519 AAAA"


class FakePlaces:
    """Answers at once, and remembers what it was asked."""

    def __init__(self) -> None:
        self.found = OFFERS
        self.findings = (Finding("ec2:CreateFleet", True, "allowed"),)
        self.left: tuple[Leftover, ...] = ()
        self.trusted: list[str] = []
        self.refusal: Exception | None = None
        self.tried: list[Purchase] = []

    def offers(self, wish):
        if self.refusal:
            raise self.refusal
        return CloudMarket(wish.region or "us-east-1", self.found)

    def permissions(self, wish, purchase):
        self.tried.append(purchase)
        return self.findings

    def contact(self, hosts, cluster):
        known = bool(self.trusted)
        return tuple(HostProbe(host.address, LINE, "SHA256:abc", known, 1) for host in hosts)

    def trust(self, cluster, lines):
        self.trusted += lines

    def leftovers(self, cluster, wish):
        return self.left


@pytest.fixture
def places() -> FakePlaces:
    return FakePlaces()


@pytest.fixture
def panel(home, places, monkeypatch):
    monkeypatch.setattr("workbench.requests.cluster.wake_supervisor", lambda cluster: None)
    panel = ClusterPanel("default", places, background=lambda work: work())
    yield panel
    panel.close()


@pytest.fixture
def spot(panel):
    panel.provider.value = "ec2"
    panel.nodes.value = 2
    return panel


@pytest.fixture
def up(store, monkeypatch) -> FleetWish:
    """A cluster of two simulated nodes that is up."""
    monkeypatch.setattr("workbench.requests.cluster.wake_supervisor", lambda cluster: None)
    fleet = FleetWish("rehearsal", nodes=2, budget=2.0, expires=time.time() + 7210)
    store.wish_cluster("default", up=True, ranks=0, fleet=fleet)
    node = Node("i-1", NodeState.JOINED, "10.0.0.1", 1, price=0.2, spent=0.1, launched=1.0)
    store.fleets.put_nodes("default", [node, Node("i-2", NodeState.BOOTING, price=0.2)])
    store.put_cluster_fact(ClusterFact("default", ClusterState.READY, 1, 1))
    return fleet


@pytest.fixture
def shown(up, home, places):
    panel = ClusterPanel("default", places, background=lambda work: work())
    yield panel
    panel.close()


# -- what one needs


def test_nothing_starts_before_the_total_was_shown(spot) -> None:
    assert spot.start.disabled
    assert "Press Show what fits" in text_of(spot.form.total.value)

    spot.form.find.click()

    assert not spot.start.disabled
    assert "Total $0.44/h" in text_of(spot.form.total.value)


def test_types_that_fit_are_shown_with_prices_network_gpu_and_quota(spot) -> None:
    spot.nodes.value = 3

    spot.form.find.click()

    table = text_of(spot.form.table.value)
    assert "What fits, best first" in table
    for said in (
        "a and 1 other", "$0.21/h", "1 × T4, 16 GiB", "5 Gbit/s (bursts to 25)",
        "8 vCPUs, 4 missing", "$0.66/h",
    ):  # fmt: skip
        assert said in table
    spoken = 'aria-label="from $0.20/h to $0.30/h over 48 h, $0.21/h now"'
    assert spoken in spot.form.table.value


def test_the_requirements_of_listed_types_are_above_the_table(spot) -> None:
    spot.form.find.click()

    assert "at least 2 vCPUs, 4 GiB and 1 GiB a rank" in text_of(spot.form.table.value)


@pytest.mark.skipif(has_cuda_here(), reason="this environment computes on GPUs itself")
def test_gpus_that_no_rank_could_use_are_reported_with_the_remedy_beside(spot, store) -> None:
    form = spot.form
    form.boxes["gpus"].value = 1
    form.find.click()

    reported = text_of(form.total.value)
    form.boxes["cuda"].value = True
    remedied = text_of(form.total.value)
    spot.start.click()

    assert "has GPUs, and ranks could not use them" in reported
    assert f"tick “{form.boxes['cuda'].description}” to install cupy-cuda12x" in reported
    assert "could not use them" not in remedied
    assert store.cluster_wish("default").fleet.setting("cuda", False)


def test_a_type_that_slows_down_is_listed_only_if_it_was_named(spot, places) -> None:
    places.found = (replace(OFFERS[0], type="t3.large", sustained=0.3, placement=False), *OFFERS)
    spot.form.find.click()
    listed = spot.form.types.options

    spot.form.show(FleetWish("ec2", needs=Needs(types=("t3.large",))), time.time())
    spot.form.find.click()

    assert "t3.large" not in listed
    assert spot.form.types.value == "t3.large"
    assert "t3.large slows down to 30 % of its vCPUs" in text_of(spot.form.total.value)
    assert "2 nodes of t3.large in" in text_of(spot.form.total.value)


def test_start_asks_for_what_is_in_the_boxes(spot, store) -> None:
    form = spot.form
    form.boxes["gpus"].value, form.boxes["zones"].value, form.boxes["budget"].value = 1, "a, b", 2.5
    form.boxes["ttl"].value, form.boxes["data"].value = 4.0, "s3://mine/data"
    form.boxes["subnets"].value = "subnet-0a1b2c3d, subnet-0a1b2c3e"
    form.boxes["disk"].value = 200
    form.find.click()
    form.types.value = "g4dn.xlarge"

    spot.start.click()

    fleet = store.cluster_wish("default").fleet
    assert (fleet.provider, fleet.nodes, fleet.region) == ("ec2", 2, "us-east-1")
    assert (fleet.needs.gpus, fleet.needs.zones) == (1, ("a", "b"))
    assert fleet.needs.types == ("g4dn.xlarge",)
    assert fleet.setting("subnets", ()) == ("subnet-0a1b2c3d", "subnet-0a1b2c3e")
    assert fleet.setting("disk", 0) == 200
    assert (fleet.budget, fleet.data) == (2.5, "s3://mine/data")
    assert fleet.expires == pytest.approx(time.time() + 4 * 3600, abs=60)


def test_changed_requirements_clear_the_offers(spot) -> None:
    spot.form.find.click()

    spot.form.boxes["memory"].value = 32.0

    assert spot.start.disabled
    assert spot.form.table.value == ""


def test_missing_permission_disables_start_and_is_named(spot, places) -> None:
    places.findings = (Finding("ec2:TerminateInstances", False, "denied", "Add <it>."),)

    spot.form.find.click()

    assert spot.start.disabled
    assert "1 problem to fix before nodes can be bought" in text_of(spot.form.permissions.value)
    assert "Add <it>." in text_of(spot.form.permissions.value)
    assert places.tried[0].types == ("g4dn.xlarge",)


def test_a_price_above_its_limit_is_reported_and_nothing_starts(spot) -> None:
    spot.form.boxes["max_price"].value = 0.1

    spot.form.find.click()

    assert spot.start.disabled
    assert "above the max price of $0.10/h" in text_of(spot.form.total.value)


def test_requirements_that_nothing_fits_are_named(spot, places) -> None:
    spot.form.boxes["gpus"].value = 8
    spot.form.find.click()

    assert "other requirements has 8 GPUs" in text_of(spot.form.total.value)
    assert spot.start.disabled


@pytest.mark.parametrize(
    ("box", "value", "sentence"),
    [
        ("gpus", -1, "GPUs per node must be at least 0, not -1."),
        ("budget", -2.0, "Budget, $ must be at least 0, not -2."),
        ("ttl", float("nan"), "Time to live, h must be at least 0, not nan."),
    ],
)
def test_bad_input_is_one_sentence(spot, box, value, sentence) -> None:
    spot.form.boxes[box].value = value

    assert sentence in text_of(spot.form.total.value)
    assert spot.start.disabled


def test_another_provider_clears_the_message(spot) -> None:
    spot.form.find.click()
    said = spot.message.value

    spot.provider.value = "hosts"

    assert "buy these nodes with Start" in said
    assert "buy" not in spot.message.value


def test_with_0_nodes_there_is_nothing_to_start(spot) -> None:
    spot.form.find.click()

    spot.nodes.value = 0

    assert spot.start.disabled
    assert spot.start.tooltip == "With 0 nodes there is nothing to start."


def test_fewer_nodes_than_the_least_are_refused(spot, store) -> None:
    spot.form.find.click()
    spot.min_nodes.value = 3

    spot.start.click()

    assert store.cluster_wish("default") is None


def test_a_place_that_refuses_is_quoted(spot, places) -> None:
    places.refusal = CloudError("No credentials were found; run aws configure.", "credentials")

    spot.form.find.click()

    assert "No credentials were found; run aws configure." in text_of(spot.message.value)


def test_a_rehearsal_says_that_nothing_is_bought(panel) -> None:
    panel.provider.value = "rehearsal"

    panel.form.find.click()

    assert "(simulated: nothing is bought)" in text_of(panel.form.total.value)


# -- a person's own hosts


def test_an_unknown_key_is_shown_once_for_a_yes(panel, places, store) -> None:
    panel.provider.value = "hosts"
    panel.form.hosts.value = "10.0.0.1 slots=1\n10.0.0.2 cpu=1"

    panel.start.click()
    asked, before = panel.keys.shown.value, store.cluster_wish("default")
    panel.keys.yes.click()

    assert "SHA256:abc" in asked
    assert before is None
    assert places.trusted == [LINE, LINE]
    fleet = store.cluster_wish("default").fleet
    assert (fleet.nodes, fleet.hosts) == (2, (Host("10.0.0.1", 1), Host("10.0.0.2", 1)))
    assert panel.keys.widget.layout.display == "none"


def test_a_key_that_is_not_confirmed_starts_nothing(panel, places, store) -> None:
    panel.provider.value = "hosts"
    panel.form.hosts.value = "10.0.0.1 slots=1"
    panel.start.click()

    panel.keys.no.click()

    assert (places.trusted, store.cluster_wish("default")) == ([], None)
    assert "Nothing was started" in text_of(panel.message.value)


def test_a_host_file_is_read_as_mpiexec_takes_it(panel, tmp_path) -> None:
    (tmp_path / "hosts").write_text("10.0.0.1:2\n10.0.0.2 slots=2 # the second\n")
    panel.provider.value = "hosts"
    panel.form.file.value = str(tmp_path / "hosts")

    panel.form.read.click()

    assert (panel.form.count(), panel.nodes.value) == (2, 2)
    assert "2 hosts read." in text_of(panel.message.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("", "No hosts were given"), ("10.0.0.1 slots=x", "Line 1: slots must be a whole number")],
)
def test_hosts_that_are_not_valid_are_refused_with_the_line(panel, text, sentence) -> None:
    panel.provider.value = "hosts"
    panel.form.hosts.value = text

    panel.start.click()

    assert sentence in text_of(panel.message.value)


def test_an_invalid_host_file_is_refused(panel) -> None:
    panel.provider.value = "hosts"
    panel.form.file.value = "/no/such/hosts"

    panel.form.read.click()

    assert "The host file /no/such/hosts cannot be read" in text_of(panel.message.value)


# -- while it runs, and after


def test_nodes_money_and_purchases_are_shown_as_they_are(shown, store) -> None:
    store.fleets.put_purchase(
        PurchaseRecord(Purchase("default", "t", 0, 1, 1, ("g4dn.xlarge",), "a"), 1, 1.0)
    )
    shown.refresh(store)

    assert text_of(shown.state.value) == " ready, 1 rank, 1 of 2 nodes (1 booting)"
    assert (
        text_of(shown.price.value) == "$0.40/h now, $0.10 spent, $1.90 of $2.00 left, 2 h to live"
    )
    assert "1 node of g4dn.xlarge in a" in text_of(shown.facts.value)
    assert "being tried" in text_of(shown.facts.value)
    assert "booting" in text_of(shown.facts.value)


def test_the_boxes_take_up_what_was_asked_for(shown) -> None:
    assert (shown.provider.value, shown.nodes.value) == ("rehearsal", 2)
    assert shown.form.boxes["budget"].value == 2.0
    assert shown.provider.disabled


def test_a_deleted_cluster_leaves_the_next_one_a_whole_life_on_this_machine(
    home, places, store, up
) -> None:
    store.wish_cluster("default", up=False, ranks=0)

    panel = ClusterPanel("default", places, background=lambda work: work())
    place, panel.provider.value = panel.provider.value, "rehearsal"

    assert place == "local"
    assert (panel.nodes.value, panel.form.boxes["budget"].value) == (2, 2.0)  # to be looked at
    assert panel.read_wish().expires == pytest.approx(time.time() + 8 * 3600, abs=60)
    panel.close()


def test_a_rehearsal_that_is_typed_has_nothing_of_a_deleted_cluster(
    home, places, store, up
) -> None:
    deleted = replace(up, min_nodes=2, max_nodes=4, needs=Needs(types=("g4dn.xlarge",)))
    store.wish_cluster("default", up=False, ranks=0, fleet=deleted)
    store.put_cluster_fact(ClusterFact("default"))

    panel = ClusterPanel("default", places, background=lambda work: work())
    panel.start_nodes(find_provider("rehearsal"), 3)

    fleet = store.cluster_wish("default").fleet
    assert replace(fleet, expires=0.0, region="") == FleetWish("rehearsal", nodes=3)
    panel.close()


def test_more_nodes_that_cost_are_asked_for_after_a_yes_to_their_price(shown, store, up) -> None:
    store.wish_cluster("default", up=True, ranks=0, fleet=replace(up, provider="ec2"))
    shown.provider.value, shown.nodes.value = "ec2", 3
    shown.resize.click()

    assert "3 nodes would cost about $0." in text_of(shown.more.shown.value)
    assert shown.more.widget.layout.display is None
    shown.more.no.click()
    assert store.cluster_wish("default").fleet.nodes == 2

    shown.resize.click()
    shown.more.yes.click()

    assert shown.more.widget.layout.display == "none"
    assert store.cluster_wish("default").fleet.nodes == 3


def test_resize_to_nothing_keeps_the_definition(shown, store, up) -> None:
    shown.nodes.value = 0
    shown.resize.click()

    wish = store.cluster_wish("default")
    assert (wish.up, wish.fleet.nodes, wish.fleet.budget) == (True, 0, 2.0)


def test_extend_lets_it_live_longer(shown, store, up) -> None:
    shown.hours.value = 2.0
    shown.extend.click()

    assert store.cluster_wish("default").fleet.expires == pytest.approx(up.expires + 7200)


def test_delete_says_what_goes_and_waits_for_a_yes(shown, store) -> None:
    shown.end.click()
    still_up = store.cluster_wish("default").up
    shown.delete.no.click()

    assert (
        "Delete cluster default? 2 nodes and all that belongs to them are deleted. "
        "Price now: $0.40/h; so far: $0.10. Its ranks end."
    ) in text_of(shown.delete.shown.value)
    assert (still_up, store.cluster_wish("default").up) == (True, True)


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ((), "no resource of cluster 'default' is left"),
        (
            (Leftover("volume", "vol-1", "default", price=0.01),),
            "Left of cluster 'default', at $0.01/h: volume vol-1",
        ),
    ],
)
def test_after_delete_the_place_is_asked_what_is_left(shown, store, places, left, said) -> None:
    places.left = left
    shown.end.click()
    shown.delete.yes.click()
    store.put_cluster_fact(ClusterFact("default", ClusterState.DOWN))

    shown.refresh(store)

    assert said in text_of(shown.message.value)
    assert "It would have cost $0.10." in text_of(shown.message.value)


def test_every_box_and_button_has_a_name(panel) -> None:
    for place in ("local", "hosts", "ec2", "rehearsal"):
        panel.provider.value = place
        for widget in walk(panel.widget):
            if hasattr(widget, "disabled") and not hasattr(widget, "children"):
                assert widget.description


def test_what_a_user_needs_is_shown_and_the_rest_is_folded(panel) -> None:
    seen = {}
    for place in ("local", "hosts", "ec2"):
        panel.provider.value = place
        seen[place] = {one.description for one in visible(panel.widget)}

    assert "Nodes" not in seen["local"]
    assert {"Nodes", "Hosts", "Host file", "Read file"} <= seen["hosts"]
    assert {"Nodes", "Min nodes", "GPUs per node", "Region", "Budget, $", "Instance type"} <= (
        seen["ec2"]
    )
    assert "Prepare script" not in seen["ec2"]

    panel.form.more.value = True
    assert "Prepare script" in {one.description for one in visible(panel.widget)}


def visible(widget):
    """Give the boxes and buttons that can be seen."""
    if widget.layout.display == "none":
        return
    if hasattr(widget, "disabled") and hasattr(widget, "description"):
        yield widget
    for child in getattr(widget, "children", ()):
        yield from visible(child)


def walk(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)
