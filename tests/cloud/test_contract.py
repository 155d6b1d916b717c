"""One contract for every provider of nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.packages.crates.crates_nodes import Crates
from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.slurm import Site
from workbench.cloud.ec2.description import NodeSettings
from workbench.cloud.ec2.provider import Ec2
from workbench.cloud.hosts.listed_hosts import ListedHosts
from workbench.cloud.rehearsal.provider import Rehearsal, Weather
from workbench.cloud.slurm.provider import Slurm
from workbench.core.fleet.cloud_errors import ErrorKind, Reaction, step
from workbench.core.fleet.model import (
    FleetWish,
    Leftover,
    Machine,
    MachineState,
    Needs,
    Offer,
    Purchase,
)
from workbench.core.fleet.node_provider import ClusterContext, NodeProvider
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import CloudError

pytestmark = pytest.mark.contract

TAGS = (("workbench:expires", "2000000000"), ("mine", "yes"))
# Its jobs take seven seconds to end, each time.
ON_SLURM = pytest.param(
    "slurm", marks=[pytest.mark.root, pytest.mark.weekly, pytest.mark.timeout(120)]
)
# What differs from spot nodes has tests of its own: prices, quotas and the call that buys.
ON_DEMAND = pytest.param("ec2 on demand", marks=pytest.mark.weekly)


@dataclass
class Place:
    """A place, and how to let time pass there."""

    cloud: NodeProvider
    elapse: Callable[[float], None]
    types: tuple[str, ...] = ()
    lag: float = 60.0
    burstable: str = ""  # a type that no placement group takes
    harden: Callable[[], None] = lambda: None  # quotas lag, and new things are unknown at first
    is_market: bool = True  # there are GPUs, and prices that change
    script: Callable[[Purchase], str] = lambda purchase: ""

    def purchase(self, cluster: str = "lab", **changes: object) -> Purchase:
        purchase = Purchase(cluster, f"{cluster}-1", 0, 2, 2, self.types)
        return replace(purchase, **changes)

    def buy(self, purchase: Purchase) -> tuple[Machine, ...]:
        """Buy, and wait until all runs."""
        self.order(purchase)
        return self.until(
            lambda: self.of(purchase.cluster, MachineState.RUNNING),
            lambda machines: len(machines) == purchase.count,
        )

    def order(self, purchase: Purchase) -> None:
        self.cloud.buy(purchase, self.script(purchase), TAGS)

    def insist(self, purchase: Purchase) -> tuple[Machine, ...]:
        """Buy again, with the same token, while the place says that it is too early."""
        for _ in range(60):
            try:
                return self.buy(purchase)
            except CloudError as error:
                if error.kind != ErrorKind.EARLY:
                    raise
                self.elapse(2.0)
        raise AssertionError("it stayed too early")

    def of(self, cluster: str, *states: MachineState) -> tuple[Machine, ...]:
        return tuple(m for m in self.cloud.machines(cluster) if m.state in states)

    def until(self, look: Callable[[], object], right: Callable[[object], bool]) -> object:
        for _ in range(300):
            found = look()
            if right(found):
                return found
            self.elapse(1.0)
        raise AssertionError(f"it stayed at {found}")

    def gone(self, cluster: str) -> None:
        """Clean until nothing is left."""
        self.until(lambda: self.cloud.clean(cluster), lambda left: left == ())


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def elapse(self, seconds: float) -> None:
        self.now += seconds


class Slurms(NodeProvider):
    """Slurm's jobs of two clusters, whose records are apart."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self.by_cluster = {}
        for name in ("", "lab", "den"):
            own = folder / f"of {name}"
            own.mkdir()
            context = ClusterContext(name, lambda: FleetWish("slurm", slots=1), folder, own, "me")
            self.by_cluster[name] = Slurm(context, clock)

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        return self.by_cluster[""].offers(needs, history_seconds)

    def user_data(self, purchase: Purchase) -> str:
        return self.by_cluster[purchase.cluster].user_data(purchase)

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        self.by_cluster[purchase.cluster].buy(purchase, user_data, tags)

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        names = [cluster] if cluster else ["lab", "den"]
        return tuple(
            machine
            for name in names
            for machine in self.by_cluster[name].machines(name)
            if machine.reach or machine.state is not MachineState.RUNNING
        )

    def end(self, ids: Sequence[str]) -> None:
        for name in ("lab", "den"):
            known = {machine.id for machine in self.by_cluster[name].machines(name)}
            self.by_cluster[name].end([id_ for id_ in ids if id_ in known])

    def open(self, machine: Machine) -> Session:
        raise NotImplementedError

    def leftovers(self, cluster: str = "") -> tuple[Leftover, ...]:
        return self.by_cluster[cluster].leftovers(cluster)

    def clean(self, cluster: str, *, images: bool = False) -> tuple[Leftover, ...]:
        return self.by_cluster[cluster].clean(cluster)


@pytest.fixture
def on_slurm(site: Site, tmp_path: Path) -> Iterator[Place]:
    """Slurm, whose time passes as it does, though the provider sees more of it."""
    clock = Clock()
    began = time.time()

    def elapse(seconds: float) -> None:
        time.sleep(0.1)
        clock.now += seconds

    clock.now = began
    cloud = Slurms(tmp_path, clock)
    yield Place(cloud, elapse, ("main",), is_market=False, script=cloud.user_data)
    site.ask("scancel", "-u", "root")  # they take their time, which no other test waits for
    for one in cloud.by_cluster.values():
        one.forget()


@pytest.fixture
def prices(market: Place) -> Place:
    """A place with GPUs, and with prices that change."""
    if not market.is_market:
        pytest.skip("it has neither")
    return market


@pytest.fixture(params=["fake", "fake with a folder", "ec2", ON_DEMAND, "of a package", ON_SLURM])
def market(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place where nodes are bought."""
    clock = Clock()
    if request.param.startswith("ec2"):
        on_demand = request.param == "ec2 on demand"
        yield on_ec2(request.getfixturevalue("endpoint"), clock, on_demand=on_demand)
        return
    if request.param == "slurm":
        yield request.getfixturevalue("on_slurm")
        return
    if request.param == "of a package":
        yield Place(Crates(tmp_path, clock=clock), clock.elapse, ("crate", "crate.big"))
        return
    folder = tmp_path if request.param == "fake with a folder" else None
    cloud = Rehearsal(folder, clock=clock)
    harsh = Weather(quota=8, counted=60.0, unknown=20.0, apart=frozenset({"cpu.4"}))

    def harden() -> None:
        cloud.weather = harsh

    place = Place(cloud, clock.elapse, ("cpu.2", "cpu.4"), burstable="cpu.4", harden=harden)
    yield place
    cloud.weather = Weather()
    for cluster in {machine.tags for machine in place.cloud.machines()}:
        place.gone(dict(cluster)["workbench:cluster"])


def on_ec2(endpoint: Endpoint, clock: Clock, *, on_demand: bool) -> Place:
    """Return EC2, where nodes take their time to be listed, to boot and to end."""
    clock.now = time.time()
    began = clock.now

    def elapse(seconds: float) -> None:
        clock.elapse(seconds)
        endpoint.settings(ahead=clock.now - began)

    def harden() -> None:
        endpoint.settings(late=20, counted=60)
        endpoint.quota("L-1216C47A" if on_demand else "L-34B43A08", 8)

    endpoint.settings(lag=5, boot=10, ending=15)
    settings = NodeSettings(on_demand=on_demand)
    cloud = Ec2("us-east-1", lambda: settings, endpoint=endpoint.url, clock=clock, sleep=elapse)
    return Place(cloud, elapse, ("c5.large", "c5.xlarge"), burstable="t3.large", harden=harden)


@pytest.fixture
def crowded(market: Place) -> Place:
    """A place with quotas and placement groups."""
    if not market.burstable:
        pytest.skip("it has neither")
    market.harden()
    return market


@pytest.fixture(params=["fake", "hosts", "ec2", "of a package", ON_SLURM])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> NodeProvider:
    """A place where nothing was bought."""
    if request.param == "slurm":
        return request.getfixturevalue("on_slurm").cloud
    if request.param == "of a package":
        return Crates(tmp_path)
    if request.param == "ec2":
        return Ec2("us-east-1", endpoint=request.getfixturevalue("endpoint").url)
    if request.param == "hosts":
        return ListedHosts([Host("127.0.0.1", 2)])
    return Rehearsal()


def test_nothing_is_left_where_nothing_was_bought(empty) -> None:
    assert empty.leftovers() == empty.clean("lab") == ()
    assert empty.leftovers("lab") == ()


def test_to_end_what_is_not_there_is_as_good(empty) -> None:
    empty.end(["i-0123456789abcdef0"])
    empty.end([])


def test_offers_have_what_is_needed_and_the_cheapest_comes_first(prices) -> None:
    offers = prices.cloud.offers(Needs(gpus=1, memory=20.0))

    assert offers
    assert all(offer.gpus >= 1 and offer.memory >= 20.0 for offer in offers)
    assert [offer.price for offer in offers] == sorted(offer.price for offer in offers)
    assert len({(offer.type, offer.zone) for offer in offers}) == len(offers)


def test_prices_of_the_past_days_come_when_asked_for_oldest_first(prices) -> None:
    needs = Needs(types=prices.types)

    offers = prices.cloud.offers(needs, 86_400.0)

    assert all(offer.history for offer in offers)
    assert all(list(offer.history) == sorted(offer.history) for offer in offers)
    assert prices.cloud.offers(needs)


def test_what_is_bought_boots_and_has_token_and_tags(market) -> None:
    machines = market.buy(market.purchase())

    assert len({machine.id for machine in machines}) == len(machines) == 2
    assert len({machine.address for machine in machines}) == 2
    for machine in machines:
        assert machine.token == "lab-1"
        assert {*TAGS, ("workbench:cluster", "lab")} <= {*machine.tags}
        assert machine.type in market.types
        assert all((machine.address, machine.reach, machine.launched, not machine.ended))
        assert machine.price > 0


def test_all_nodes_of_a_purchase_are_of_one_type_in_one_zone(market) -> None:
    machines = market.buy(market.purchase(count=3))

    assert len({(machine.type, machine.zone) for machine in machines}) == 1


def test_the_same_token_buys_once(market) -> None:
    machines = market.buy(market.purchase())

    market.order(market.purchase())

    market.elapse(market.lag)
    assert {m.id for m in market.cloud.machines("lab")} == {m.id for m in machines}


def test_the_same_token_buys_once_even_after_the_nodes_have_ended(market) -> None:
    machines = market.buy(market.purchase())
    market.cloud.end([machine.id for machine in machines])

    market.order(market.purchase())

    market.elapse(market.lag)
    assert market.of("lab", MachineState.PENDING, MachineState.RUNNING) == ()


def test_another_token_buys_again(market) -> None:
    market.buy(market.purchase(count=1, min_nodes=1))

    market.order(market.purchase(count=1, min_nodes=1, token="lab-2"))

    market.until(lambda: market.of("lab", MachineState.RUNNING), lambda found: len(found) == 2)


def test_a_refusal_names_its_kind_and_nothing_was_bought(prices) -> None:
    with pytest.raises(CloudError) as refusal:
        prices.order(prices.purchase(max_price=0.000001))

    assert refusal.value.kind == ErrorKind.PRICE
    prices.elapse(prices.lag)
    assert prices.cloud.machines("lab") == ()
    prices.gone("lab")


def test_machines_are_listed_by_cluster_or_all(market) -> None:
    lab = market.buy(market.purchase("lab"))
    den = market.buy(market.purchase("den"))

    assert {m.id for m in market.cloud.machines()} == {m.id for m in lab + den}
    assert {m.id for m in market.cloud.machines("lab")} == {m.id for m in lab}


def test_a_machine_that_is_ended_goes_and_costs_nothing_more(market) -> None:
    first, second = market.buy(market.purchase())

    market.cloud.end([first.id])

    (gone,) = market.until(lambda: market.of("lab", MachineState.GONE), len)
    assert (gone.id, gone.price, gone.interrupted) == (first.id, 0.0, False)
    assert gone.launched <= gone.ended
    assert [m.id for m in market.of("lab", MachineState.RUNNING)] == [second.id]
    market.cloud.end([first.id])


def test_a_clean_cluster_leaves_nothing_and_others_alone(market) -> None:
    market.buy(market.purchase("lab"))
    den = market.buy(market.purchase("den"))
    before = market.cloud.leftovers("lab")

    market.gone("lab")

    assert len([left for left in before if left.kind == "instance"]) == 2
    assert market.cloud.leftovers("lab") == ()
    assert {left.cluster for left in market.cloud.leftovers()} == {"den"}
    assert {m.id for m in market.of("den", MachineState.RUNNING)} == {m.id for m in den}


def test_leftovers_say_what_they_cost_and_since_when(prices) -> None:
    prices.buy(prices.purchase())

    instances = [left for left in prices.cloud.leftovers() if left.kind == "instance"]

    assert all(isinstance(left, Leftover) and left.price > 0 and left.created for left in instances)


def test_a_type_that_no_placement_group_takes_is_bought_apart_from_one(crowded) -> None:
    asked = crowded.purchase(types=(crowded.burstable,), count=1, min_nodes=1, token="close")

    with pytest.raises(CloudError) as refusal:
        crowded.insist(replace(asked, placement=True))

    assert step(refusal.value.kind) is Reaction.NEXT_CANDIDATE
    [machine] = crowded.insist(replace(asked, token="apart"))
    assert machine.type == crowded.burstable


def test_what_is_too_new_to_be_known_is_waited_for_and_bought_once(crowded) -> None:
    machines = crowded.insist(crowded.purchase(placement=True))

    crowded.elapse(crowded.lag)
    assert {m.id for m in crowded.cloud.machines("lab")} == {m.id for m in machines}
    crowded.gone("lab")


def test_what_has_just_ended_still_counts_and_then_no_more(crowded) -> None:
    types = (crowded.types[1],)
    first = crowded.insist(crowded.purchase(types=types))
    crowded.cloud.end([machine.id for machine in first])
    crowded.until(lambda: crowded.of("lab", MachineState.RUNNING), lambda found: not found)

    with pytest.raises(CloudError) as refusal:
        crowded.insist(crowded.purchase(types=types, token="lab-2"))
    crowded.elapse(90.0)

    assert refusal.value.kind == ErrorKind.QUOTA
    assert len(crowded.insist(crowded.purchase(types=types, token="lab-3"))) == 2
