"""Under all faults, nothing is bought twice, and after a deletion nothing costs money."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter

import pytest

from tests.simulation.trouble import Trouble
from tests.supervisor.fleets import Killed, Stage
from tests.weekly import examples
from workbench.core.fleet.cost import charge
from workbench.core.fleet.model import NodeState
from workbench.core.fleet.purchases import PurchaseRecord
from workbench.store import Store
from workbench.supervisor.fleet.fleet_loop import Load

SEQUENCES = examples(1_000)
BATCH = 50
STEPS = 50
BOUND = 6  # nodes that are ever asked for
# Whatever a supervisor does to the world or writes down; it may end before and after each.
DEEDS = (
    ("cloud", ("buy", "end", "clean", "machines", "offers")),
    (
        "store.fleets",
        ("put_purchase", "put_nodes", "put_prices", "settle", "account"),
    ),
)


class Fate:
    """Kills the supervisor at deeds that the seed chooses."""

    def __init__(self, stage: Stage, chance: random.Random, share: float) -> None:
        self._chance = chance
        self._share = share
        self._originals: list[tuple[object, str]] = []
        for place, names in DEEDS:
            thing = attrgetter(place)(stage)
            for name in names:
                setattr(thing, name, self._perilous(getattr(thing, name)))
                self._originals.append((thing, name))

    def relent(self) -> None:
        """Let everything be as it was."""
        for thing, name in self._originals:
            delattr(thing, name)

    def _perilous(self, deed):
        def do(*args, **options):
            if self._chance.random() < self._share:
                raise Killed
            answer = deed(*args, **options)
            if self._chance.random() < self._share:
                raise Killed
            return answer

        return do


class Sequence:
    """One seeded life of a cluster, with a place that troubles it."""

    def __init__(self, store: Store, seed: int) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        self.weather = Trouble(
            plenty=chance.choice([1, 2, 3, 16]),
            boot=(1.0, chance.choice([5.0, 90.0])),
            lag=chance.choice([0.0, 2.0, 45.0]),
            quota=chance.choice([4, 8, 256]),
            counted=chance.choice([0.0, 20.0, 180.0]),
            unknown=chance.choice([0.0, 0.0, 5.0, 45.0]),
            apart=chance.choice([frozenset(), frozenset({"cpu.2"}), frozenset({"cpu.2", "cpu.4"})]),
            lifetime=chance.choice([0.0, 0.0, 300.0, 3000.0]),
            trouble=chance.choice([0.0, 0.1, 0.4]),
        )
        self.stage = Stage(store, self.weather, f"c{seed}", seed)
        self.store = store
        self.most = 0  # nodes that were asked for
        self.spent: dict[str, float] = {}

    def live(self) -> None:
        """Ask, turn, kill, change one's mind, and delete; look after each step."""
        fate = Fate(self.stage, self.chance, self.chance.choice([0.0, 0.02, 0.1]))
        try:
            for _ in range(STEPS):
                self.step()
                self.look()
        finally:
            fate.relent()
        self.calm()
        if self.chance.random() < 0.5:
            self.revive()
        self.stage.delete()
        self.finish()

    def calm(self) -> None:
        """End the troubles."""
        self.stage.cloud.weather = Trouble(boot=self.weather.boot, lag=self.weather.lag)

    def step(self) -> None:
        chance, stage = self.chance, self.stage
        deed = chance.choices(["turn", "ask", "delete", "load", "kill"], [60, 4, 1, 2, 2])[0]
        try:
            if deed == "ask" or not stage.wish.revision:
                nodes = chance.randint(0, BOUND)
                self.most = max(self.most, nodes)
                word = chance.random() < 0.2
                least = min(chance.randint(1, 3), max(nodes, 1))
                stage.ask(nodes, min_nodes=least, across_zones=word)
            elif deed == "delete":
                stage.delete()
            elif deed == "load":
                used = [n.address for n in self.nodes() if chance.random() < 0.5]
                stage.load = Load(busy=chance.random() < 0.5, used=frozenset(used))
            elif deed == "kill":
                self.revive()
            else:
                self.turn()
        except Killed:
            self.revive()

    def nodes(self):
        return self.store.fleets.nodes(self.stage.cluster)

    def standing(self) -> dict[str, str]:
        """The nodes that are to stay, and their zones; one with a notice only trains until then."""
        staying = [n for n in self.nodes() if n.state is not NodeState.LEAVING and not n.reclaimed]
        return {n.id: n.zone for n in staying if n.zone}

    def turn(self) -> None:
        """Turn, and do some of what is under way, in any order."""
        stage, chance = self.stage, self.chance
        before, known = self.standing(), len(self.purchases())
        stage.keeper.tick(stage.wish, stage.load, stage.clock.now)
        stayed = {zone for id_, zone in self.standing().items() if before.get(id_) == zone}
        if stayed and not stage.wish.fleet.across_zones:
            assert {record.purchase.zone for record in self.purchases()[known:]} <= stayed
        waiting = len(stage.queue.waiting)
        for _ in range(waiting if chance.random() < 0.6 else chance.randint(0, waiting)):
            stage.queue.work(chance.randrange(len(stage.queue.waiting)))
        stage.clock.now += chance.choice([0.5, 2.0, 2.0, 10.0, 61.0])

    def revive(self) -> None:
        """Start again; some running calls still arrive, but no process reads their answers."""
        stage, chance = self.stage, self.chance
        late = stage.queue.waiting
        stage.start()
        for _, work in late:
            if chance.random() < 0.3:
                with contextlib.suppress(Exception, Killed):
                    work()

    def look(self) -> None:
        """See that nothing is paid twice, or more than can have been wanted."""
        machines = Counter(machine.token for machine in self.stage.cloud.truth())
        purchases = {record.purchase.token: record for record in self.purchases()}
        for token, count in machines.items():
            known = purchases.get(token)
            # A token without an order was settled: everything of it was gone by then.
            assert known is None or count <= known.purchase.count
        leaving = {n.id for n in self.nodes() if n.state is NodeState.LEAVING}
        taken = (
            self.stage.cloud.read_notices()
        )  # what the place takes back is replaced before it goes
        assert len({*self.stage.paid()} - leaving - {*taken}) <= self.most

    def purchases(self) -> list[PurchaseRecord]:
        return self.store.fleets.purchases(self.stage.cluster)

    def finish(self) -> None:
        stage = self.stage
        for _ in range(1500):
            fleet = stage.turn(2.0)
            if fleet.finished:
                break
            self.check_money()
        assert fleet.finished, (self.purchases(), self.nodes(), fleet.message)
        assert stage.paid() == []
        stage.clock.now += 120.0
        assert stage.cloud.leftovers() == ()
        stage.keeper.close()

    def check_money(self) -> None:
        """The counted costs are never more than all rented nodes can have cost."""
        now, prices = self.stage.clock.now, self.store.fleets.prices(self.stage.cluster)
        for node in self.store.fleets.nodes(self.stage.cluster, gone=True):
            if not node.launched or node.id not in prices:
                assert node.spent == 0.0
                continue
            until = max(node.ended or now, node.launched + 60.0)
            most = charge([(0.0, max(p for _, p in prices[node.id]))], node.launched, until)
            most += node.extra_price * (until - node.launched) / 3600.0
            assert 0.0 <= node.spent <= most * 1.000001
            if node.state is NodeState.GONE:
                assert self.spent.setdefault(node.id, node.spent) == node.spent


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[Store]:
    # One file for all: each sequence has a cluster of its own name.
    with Store(tmp_path_factory.mktemp("fleets") / "store.sqlite3") as store:
        store.connection.execute("PRAGMA synchronous = OFF")
        yield store


@pytest.mark.parametrize("first", range(0, SEQUENCES, BATCH))
def test_nothing_is_left_and_nothing_bought_twice(store, first) -> None:
    for seed in range(first, first + BATCH):
        print(f"seed {seed}")  # the last one shown is the one that failed
        Sequence(store, seed).live()
