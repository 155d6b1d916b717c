"""Whatever goes wrong at a place, nothing is bought twice and nothing is left.

The place here is as unkind as a real one: answers are lost, lists lag, fleets come in part,
machines die or are taken back, and the supervisor is killed between any two steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.weekly import examples
from workbench.core.fleet.cost import meter_node
from workbench.core.fleet.fleet_plan import (
    Buy,
    Clean,
    Finish,
    FleetFact,
    Open,
    PrepareNode,
    Put,
    RecordPurchase,
    SessionState,
    Terminate,
    plan_fleet,
)
from workbench.core.fleet.membership import members
from workbench.core.fleet.model import (
    FleetWish,
    Leftover,
    Machine,
    MachineState,
    Needs,
    Node,
    NodeState,
    Offer,
    Purchase,
)
from workbench.core.fleet.node_health import BOOT_SECONDS
from workbench.core.fleet.purchases import (
    LAG_SECONDS,
    PAUSE_SECONDS,
    PurchaseOutcome,
    PurchaseRecord,
)

PROFILE = settings(derandomize=True, deadline=None, max_examples=examples(1_000))
SHORT_PROFILE = settings(PROFILE, max_examples=examples(300))
OFFERS = (
    Offer("g4dn.xlarge", "a", 0.2, 4, 16.0, gpus=1, network=5.0),
    Offer("g4dn.xlarge", "b", 0.3, 4, 16.0, gpus=1, network=5.0),
    Offer("g5.xlarge", "a", 0.35, 4, 16.0, gpus=1, network=2.5),
)
WISH = FleetWish("ec2", nodes=3, min_nodes=2, needs=Needs(gpus=1))
TURN_SECONDS = 5.0
STOP_SECONDS = 20.0
SLOW_SECONDS = 40.0
CLOSED = (MachineState.STOPPING, MachineState.GONE)


class Killed(Exception):
    """The supervisor was killed here."""


class Refused(Exception):
    """The place said no, with this kind."""


@dataclass
class UnkindPlace:
    """A place as one hears of it: what was armed goes wrong at the next call."""

    now: float = 100_000.0
    truth: dict[str, Machine] = field(default_factory=dict)
    tokens: dict[str, Purchase] = field(default_factory=dict)
    listed_from: dict[str, float] = field(default_factory=dict)
    group: bool = False
    armed: set[str] = field(default_factory=set)
    full: bool = False
    lag: float = 0.0
    landing: list[tuple[float, Purchase]] = field(default_factory=list)
    numbers: count = field(default_factory=lambda: count(1))

    def takes(self, fault: str) -> bool:
        """Tell whether a fault was armed; it happens once."""
        was = fault in self.armed
        self.armed.discard(fault)
        return was

    def buy(self, purchase: Purchase) -> None:
        if self.takes("throttle"):
            raise Refused("throttling")
        if self.takes("slow"):
            self.landing.append((self.now + SLOW_SECONDS, purchase))
            raise TimeoutError
        if self.full and purchase.token not in self.tokens:
            raise Refused("capacity")
        self._land(purchase)
        if self.takes("late"):
            raise TimeoutError

    def _land(self, purchase: Purchase) -> None:
        """Carry out a call; the same token again changes nothing."""
        if purchase.token in self.tokens:
            assert self.tokens[purchase.token] == purchase
            return
        self.tokens[purchase.token] = purchase
        number = purchase.min_nodes if self.takes("partial") else purchase.count
        for _ in range(number):
            self._launch(purchase)

    def _launch(self, purchase: Purchase) -> None:
        n = next(self.numbers)
        self.group = True
        self.truth[f"i-{n}"] = Machine(
            f"i-{n}",
            MachineState.PENDING,
            f"10.0.{n // 250}.{n % 250 + 1}",
            type=purchase.types[0],
            zone=purchase.zone,
            price=0.2,
            slots=1,
            launched=self.now,
            token=purchase.token,
        )
        self.listed_from[f"i-{n}"] = self.now + self.lag

    def machines(self) -> tuple[Machine, ...]:
        if self.takes("deaf"):
            raise TimeoutError
        youngest = self.now - LAG_SECONDS + TURN_SECONDS if self.takes("flicker") else self.now
        return tuple(
            machine
            for machine in self.truth.values()
            if self.listed_from[machine.id] <= self.now and machine.launched <= youngest
        )

    def end(self, ids: tuple[str, ...]) -> None:
        if self.takes("throttle"):
            raise Refused("throttling")
        for id_ in ids:
            if self.truth[id_].state not in CLOSED:
                self.change(id_, state=MachineState.STOPPING, ended=self.now, reason="asked")

    def clean(self) -> tuple[Leftover, ...]:
        if self.takes("throttle"):
            raise Refused("throttling")
        if all(m.state is MachineState.GONE for m in self.truth.values()):
            self.group = False
        return (Leftover("security group", "sg-1", "lab"),) if self.group else ()

    def change(self, id_: str, **changes: object) -> None:
        self.truth[id_] = replace(self.truth[id_], **changes)

    @property
    def running(self) -> list[Machine]:
        """What is paid, and not about to be taken back."""
        return [m for m in self.truth.values() if m.state not in CLOSED and not m.interrupted]

    def later(self, seconds: float) -> None:
        self.now += seconds
        for due, purchase in list(self.landing):
            if due <= self.now:
                self.landing.remove((due, purchase))
                self._land(purchase)
        for machine in list(self.truth.values()):
            age = self.now - machine.launched
            if machine.state is MachineState.PENDING and age >= 10:
                self.change(machine.id, state=MachineState.RUNNING, reach=machine.address)
            if machine.state is MachineState.STOPPING and self.now - machine.ended > STOP_SECONDS:
                self.change(machine.id, state=MachineState.GONE)


@dataclass
class Keeper:
    """A supervisor that obeys the plan; what it wrote down survives it, its sessions do not."""

    place: UnkindPlace = field(default_factory=UnkindPlace)
    wish: FleetWish = WISH
    wanted: bool = True
    asked: float = 99_999.0
    nodes: dict[str, Node] = field(default_factory=dict)
    purchases: dict[str, PurchaseRecord] = field(default_factory=dict)
    prices: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    contacts: dict[str, SessionState] = field(default_factory=dict)
    machines: tuple[Machine, ...] = ()
    seen: float = 0.0
    left: tuple[Leftover, ...] | None = None
    cleaned: float = 0.0
    finished: bool = False
    deadly: int = 0

    def fact(self) -> FleetFact:
        joined = {n.id for n in self.nodes.values() if n.state is NodeState.JOINED}
        return FleetFact(
            "lab",
            founded=99_999.0,
            asked=self.asked,
            nodes=tuple(self.nodes.values()),
            machines=self.machines,
            seen=self.seen,
            purchases=tuple(self.purchases.values()),
            offers=OFFERS,
            contacts=tuple(self.contacts.values()),
            used=frozenset(joined),
            left=self.left,
            cleaned=self.cleaned,
        )

    def turn(self) -> list[object]:
        """Look, decide, and act, as far as one lives."""
        self.place.later(TURN_SECONDS)
        now = self.place.now
        try:
            self.machines = self.place.machines()
            self.seen = now
        except TimeoutError:
            pass
        self._meter(now)
        fact = self.fact()
        actions = plan_fleet(self.wish, fact, wanted=self.wanted, now=now)
        assert actions == plan_fleet(self.wish, fact, wanted=self.wanted, now=now)
        try:
            for action in actions:
                self._step()
                self._act(action)
        except Killed:
            self.contacts, self.machines, self.seen, self.left = {}, (), 0.0, None
        self._join()
        return actions

    def _step(self) -> None:
        """Be killed before this step, if it is the one."""
        if self.deadly:
            self.deadly -= 1
            if not self.deadly:
                raise Killed

    def _act(self, action: object) -> None:
        match action:
            case Buy(record):
                self._buy(record)
            case RecordPurchase(record):
                self.purchases[record.purchase.token] = record
            case Put(node):
                self.nodes[node.id] = node
            case Open(id_):
                self.contacts[id_] = SessionState(id_, True, self.place.now)
            case PrepareNode(id_):
                self._put(id_, NodeState.READY)
            case Terminate(ids):
                self._call(lambda: self.place.end(ids))
            case Clean():
                begun = self.place.now
                self._call(self._clean)
                self.cleaned = begun
            case Finish():
                self.finished = True

    def _buy(self, record: PurchaseRecord) -> None:
        token = record.purchase.token
        assert self.wanted
        is_repeated = token in self.purchases
        assert is_repeated == (record.tries > 1)
        self.purchases[token] = record
        before = len(self.place.running)
        self._step()
        try:
            self.place.buy(record.purchase)
        except Refused as refusal:
            kind = str(refusal)
            record = replace(record, outcome=PurchaseOutcome.REFUSED, kind=kind, at=self.place.now)
            self.purchases[token] = record
        except TimeoutError:
            pass
        else:
            self._check(before)
            self._step()
            record = replace(record, outcome=PurchaseOutcome.BOUGHT, at=self.place.now)
            self.purchases[token] = record
        self._check(before)

    def _check(self, before: int) -> None:
        after = len(self.place.running)
        assert after <= max(before, self.wish.nodes), "more was bought than was wished for"

    def _call(self, call: Callable[[], None]) -> None:
        with contextlib.suppress(Refused):
            call()

    def _clean(self) -> None:
        self.left = self.place.clean()

    def _meter(self, now: float) -> None:
        for node in self.nodes.values():
            self.nodes[node.id] = meter_node(node, ((node.launched, 0.2),), now)

    def _join(self) -> None:
        """Let a world start on the nodes that may carry one, as soon as there are enough."""
        able = members(
            self.nodes.values(), {c.id for c in self.contacts.values() if c.open}, self.wish.nodes
        )
        if len(able) < min(self.wish.min_nodes, self.wish.nodes):
            able = ()
        for node in list(self.nodes.values()):
            if node.id in {n.id for n in able}:
                self._put(node.id, NodeState.JOINED)

    def _put(self, id_: str, state: NodeState) -> None:
        if self.nodes[id_].state is not state:
            self.nodes[id_] = replace(self.nodes[id_], state=state, since=self.place.now)

    # -- what happens

    def happen(self, event: str) -> None:
        place = self.place
        kind, _, argument = event.partition(" ")
        match kind:
            case "arm":
                place.armed.add(argument)
            case "kill":
                self.deadly = int(argument)
            case "full":
                place.full = True
            case "free":
                place.full = False
            case "lag":
                place.lag = float(argument)
            case "sleep":
                place.later(float(argument))
            case "nodes":
                self.wish = replace(self.wish, nodes=int(argument))
                self.asked = place.now
            case "die":
                for machine in place.running[:1]:
                    place.change(
                        machine.id, state=MachineState.GONE, ended=place.now, reason="died"
                    )
            case "take":
                for machine in place.running[-1:]:
                    place.change(machine.id, interrupted=True)
            case "taken":
                for machine in list(place.truth.values()):
                    if machine.interrupted and machine.state not in CLOSED:
                        place.change(machine.id, state=MachineState.GONE, ended=place.now)
            case "lose":
                for id_, contact in self.contacts.items():
                    self.contacts[id_] = replace(contact, open=False, since=place.now)

    def calm(self) -> None:
        """Stop all faults, and let the user repeat the request."""
        self.place.armed.clear()
        self.place.full, self.place.lag, self.deadly = False, 0.0, 0
        self.happen("taken")
        self.asked = self.place.now


events = st.lists(
    st.sampled_from(
        [
            "turn",
            "turn",
            "turn",
            "turn",
            "arm throttle",
            "arm late",
            "arm partial",
            "arm deaf",
            "arm slow",
            "arm flicker",
            "kill 1",
            "kill 2",
            "kill 3",
            "kill 5",
            "full",
            "free",
            "lag 50",
            "lag 0",
            "sleep 65",
            "sleep 700",
            "sleep 4000",
            "nodes 0",
            "nodes 1",
            "nodes 3",
            "nodes 5",
            "die",
            "take",
            "taken",
            "lose",
        ]
    ),
    max_size=40,
)


def lived(history: list[str]) -> Keeper:
    keeper = Keeper()
    for event in history:
        if event == "turn":
            keeper.turn()
        else:
            keeper.happen(event)
            keeper.turn()
    return keeper


@PROFILE
@given(events)
def test_whatever_happened_nothing_is_left_after_deletion(history) -> None:
    keeper = lived(history)
    keeper.wanted = False

    for _ in range(60):
        keeper.turn()
        if len(keeper.place.armed) == 0 and keeper.finished:
            break

    keeper.place.later(10 * LAG_SECONDS)
    assert keeper.finished
    assert {m.state for m in keeper.place.truth.values()} <= {MachineState.GONE}
    assert not keeper.place.group
    assert {n.state for n in keeper.nodes.values()} <= {NodeState.GONE}
    assert not any(record.is_open for record in keeper.purchases.values())


@SHORT_PROFILE
@given(events)
def test_whatever_happened_the_fleet_settles_at_what_is_wished(history) -> None:
    keeper = lived(history)
    keeper.calm()

    for _ in range(60):
        keeper.turn()

    assert keeper.turn() == []
    joined = [n for n in keeper.nodes.values() if n.state is NodeState.JOINED]
    assert len(joined) == keeper.wish.nodes == len(keeper.place.running)
    assert sum(node.head for node in joined) == min(1, keeper.wish.nodes)


@SHORT_PROFILE
@given(events, st.floats(0.1, 0.3))
def test_whatever_happens_the_budget_is_kept(history, budget) -> None:
    keeper = Keeper(wish=replace(WISH, budget=budget))

    for event in [*history, *["turn"] * 60]:
        # Who cannot act for longer than the reserve lasts cannot keep a budget.
        if event != "turn" and not event.startswith(("arm", "sleep", "kill")):
            keeper.happen(event)
        keeper.place.later(30)
        keeper.turn()

    place = keeper.place
    paid = sum(
        0.2 * max(60.0, (m.ended or place.now) - m.launched) / 3600 for m in place.truth.values()
    )
    assert paid <= budget


def test_the_supervisor_may_be_killed_at_every_step_of_the_start() -> None:
    for step in range(1, 40):
        keeper = Keeper()
        keeper.deadly = step

        for _ in range(60):
            keeper.turn()

        assert len(keeper.place.running) == len(keeper.place.truth) == 3, step
        assert [n.state for n in keeper.nodes.values()] == [NodeState.JOINED] * 3, step


def test_a_place_without_machines_is_asked_ever_less_often() -> None:
    keeper = Keeper()
    keeper.happen("full")

    for _ in range(2000):
        keeper.turn()

    # Five purchases each time; the pauses double up to the longest.
    hours = 2000 * TURN_SECONDS / 3600
    assert len(keeper.purchases) < 10 * (hours * 3600 / PAUSE_SECONDS[1] + 6)
    assert keeper.place.truth == {}


def test_nodes_that_never_come_up_end_the_buying() -> None:
    keeper = Keeper()
    keeper.happen("lag 0")

    for _ in range(600):
        keeper.turn()
        for machine in keeper.place.running:
            keeper.place.change(machine.id, state=MachineState.GONE, ended=keeper.place.now)

    assert len(keeper.place.truth) <= 6
    assert BOOT_SECONDS > LAG_SECONDS
