"""Seeded lives of a cluster on the rehearsal's EC2 with all of its errors, over HTTP."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from tests.supervisor.fleets import Clock, Stage, StagedProvider
from tests.supervisor.test_fleet_property import Sequence
from tests.weekly import WEEKLY
from workbench.cloud.ec2.inventory import STATES
from workbench.cloud.ec2.provider import Ec2
from workbench.cloud.ec2.tags import TOKEN
from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish, Machine, Needs
from workbench.core.fleet.node_provider import CLUSTER
from workbench.core.world.remote import Completed
from workbench.core.world.world import Host
from workbench.store import Store
from workbench.supervisor.fleet.fleet_loop import Load

SEQUENCES = 6 if WEEKLY else 2
REGION = "us-east-1"
TYPES, ZONES = ("c5.large", "c5.xlarge", "t3.large"), ("us-east-1a", "us-east-1b", "us-east-1e")
QUOTA = "L-34B43A08"
# Calls that the seed has fail, with what EC2 says of them.
FAULTS = (
    ("CreateFleet", "InternalError"),
    ("CreateFleet", "UnauthorizedOperation"),
    ("CreateSecurityGroup", "RequestLimitExceeded"),
    ("CreateLaunchTemplate", "Unavailable"),
    ("CreatePlacementGroup", "InternalError"),
    ("DescribeInstances", "RequestLimitExceeded"),
    ("TerminateInstances", "InternalError"),
    ("DeleteFleets", "InternalError"),
    ("DeleteLaunchTemplate", "Unavailable"),
    ("DeleteSecurityGroup", "DependencyViolation"),
)


class EndpointClock(Clock):
    """The endpoint's own time, which is constant while the test runs."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.now = time.time()

    @property
    def now(self) -> float:  # type: ignore[override]  # a value elsewhere
        return self._now

    @now.setter
    def now(self, value: float) -> None:
        self._now = value
        self._endpoint.settings(clock=value)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Silent:
    """A session with a node on which every command ends well and says nothing."""

    is_open = True

    def __init__(self, machine: Machine) -> None:
        self.host = Host(machine.address, machine.slots)

    def run(self, command, *, input="", seconds=60.0) -> Completed:
        return Completed(0, "", "")

    def put(self, data, path, mode=0o600) -> None:
        return None

    def close(self) -> None:
        self.is_open = False


class StrictEc2(Ec2):
    """The place as the product has it, and as it really is."""

    rehearsed: Endpoint
    _stage: Stage

    open = StagedProvider.open
    user_data = StagedProvider.user_data
    part = StagedProvider.part
    shut_down = StagedProvider.shut_down

    def truth(self) -> tuple[Machine, ...]:
        """Return all machines as they are, listed already or not."""
        return tuple(
            Machine(one["id"], STATES[one["state"]], token=one["tags"][TOKEN])
            for one in self.rehearsed.machines()
            if CLUSTER in one["tags"]
        )

    def read_notices(self) -> dict[str, float]:
        """Return the interruption notices as nodes receive them."""
        found, cluster = self.rehearsed.machines(), self._stage.cluster
        return {
            one["id"]: 0.0 for one in found if one["noticed"] and one["tags"][CLUSTER] == cluster
        }


class StrictStage(Stage):
    """A keeper that buys from the endpoint."""

    def __init__(self, store: Store, endpoint: Endpoint, cluster: str) -> None:
        self.store, self.cluster = store, cluster
        self.clock = EndpointClock(endpoint)
        self.cloud = StrictEc2(
            REGION, endpoint=endpoint.url, attempts=1, clock=self.clock, sleep=self.clock.sleep
        )
        self.cloud.rehearsed, self.cloud._stage = endpoint, self
        self.wish = ClusterWish(cluster, up=False, ranks=0)
        self.load = Load()
        self.prepare = None
        self.parted = set()
        self.received = {}
        self.open = Silent
        self.start()

    def start(self) -> None:
        """Begin as a supervisor that knows only the store."""
        self.cloud._bought.clear()
        super().start()

    def ask(self, nodes: int, *, up: bool = True, **fields: object) -> None:
        fleet = FleetWish("ec2", nodes=nodes, needs=Needs(types=TYPES), **fields)
        self.wish = self.store.wish_cluster(self.cluster, up=up, ranks=0, fleet=fleet)


class StrictSequence(Sequence):
    """One seeded life on the endpoint."""

    def __init__(self, store: Store, endpoint: Endpoint, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.endpoint, self.store = endpoint, store
        endpoint.settings(
            boot=chance.choice([2, 60]),
            ending=chance.choice([0, 20]),
            lag=chance.choice([0, 2, 45]),
            late=chance.choice([0, 3, 25]),
            counted=chance.choice([0, 60]),
        )
        endpoint.quota(QUOTA, chance.choice([4, 8, 640]))
        for type_ in TYPES:
            for zone in ZONES:
                free = chance.choice([0, 1, 3, 1000])
                endpoint.pool(type_, zone, free, close=chance.randint(0, free))
        self.trouble = chance.choice([0.0, 0.1, 0.3])
        self.stage = StrictStage(store, endpoint, f"e{seed}")
        self.most = 0
        self.spent: dict[str, float] = {}

    def step(self) -> None:
        if self.chance.random() < self.trouble:
            self.make_trouble()
        super().step()

    def make_trouble(self) -> None:
        """Have a call fail, or the place take a machine back."""
        chance = self.chance
        alive = [m["id"] for m in self.endpoint.machines() if m["state"] in ("pending", "running")]
        if alive and chance.random() < 0.3:
            self.endpoint.interrupt(chance.choice(alive), chance.choice([0, 120]))
            return
        action, code = chance.choice(FAULTS)
        self.endpoint.fail(action, code, times=chance.randint(1, 2), after=chance.random() < 0.5)

    def calm(self) -> None:
        self.endpoint.clear_faults()
        self.endpoint.settings(late=0, counted=0)
        self.endpoint.quota(QUOTA, 640)


@pytest.fixture(scope="module")
def one_endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("fleets") / "store.sqlite3") as store:
        yield store


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_nothing_is_left_and_nothing_bought_twice_on_ec2(store, one_endpoint, seed) -> None:
    one_endpoint.reset()
    StrictSequence(store, one_endpoint, seed).live()
