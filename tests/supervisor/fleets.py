"""A keeper on the rehearsal, whose turns are made by the test, with a queue for threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

from tests.simulation.trouble import Fault, Trouble, TroubledRehearsal
from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish, Machine, MachineState, Needs, Purchase
from workbench.core.world.remote import Session
from workbench.store import Store
from workbench.supervisor.fleet.fleet_loop import Fleet, FleetKeeper, Load

START = 1_700_000_000.0


class Killed(BaseException):
    """The supervisor ends here, as by SIGKILL."""


class Clock:
    """Time that passes on request."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Queue(Executor):
    """Work that waits until the test does it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Callable[[], Any], /) -> Future[Any]:  # type: ignore[override]  # no arguments here
        future: Future[Any] = Future()
        self.waiting.append((future, work))
        return future

    def work(self, number: int = 0) -> None:
        """Do one piece of it."""
        future, work = self.waiting.pop(number)
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - as a thread of a pool does
            future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while wait and self.waiting:
            self.work()


class StagedProvider(TroubledRehearsal):
    """A rehearsal whose stage sees what is done with its nodes."""

    def __init__(self, stage: Stage, weather: Trouble | None, seed: int) -> None:
        super().__init__(clock=stage.clock, weather=weather, seed=seed, cluster=stage.cluster)
        self._stage = stage

    def open(self, machine: Machine) -> Session:
        return self._stage.open(machine) if self._stage.open else super().open(machine)

    def user_data(self, purchase: Purchase) -> str:
        return f"#cloud-config {purchase.token}"

    def part(self, ids: Sequence[str]) -> None:
        self._stage.parted.update(ids)

    def shut_down(self, session: Session) -> None:
        self._stage.shut_down(session)


class Stage:
    """A store, a place, a clock, and the keeper between them."""

    def __init__(
        self, store: Store, weather: Trouble | None = None, cluster: str = "lab", seed: int = 0
    ) -> None:
        self.store = store
        self.cluster = cluster
        self.clock = Clock()
        self.cloud = StagedProvider(self, weather, seed)
        self.wish = ClusterWish(cluster, up=False, ranks=0)
        self.load = Load()
        self.prepare: Callable[..., None] | None = None
        self.parted: set[str] = set()
        self.received: dict[str, int] = {}
        self.open: Callable[..., Session] | None = None
        self.start()

    def start(self) -> None:
        """Begin as a supervisor that knows only the store."""
        self.queue = Queue()
        self.keeper = FleetKeeper(
            self.cluster,
            self.store,
            self.cloud,
            prepare=self.prepare,
            pool=self.queue,
            received=self._take_received,
        )

    def ask(self, nodes: int, *, up: bool = True, **fields: object) -> None:
        """Request nodes, as a person does."""
        fields = {"min_nodes": 1, "needs": Needs(types=("cpu.2", "cpu.4"))} | fields
        fleet = FleetWish("rehearsal", nodes=nodes, **fields)
        self.wish = self.store.wish_cluster(self.cluster, up=up, ranks=0, fleet=fleet)

    def delete(self) -> None:
        """Delete the cluster."""
        self.wish = self.store.wish_cluster(self.cluster, up=False, ranks=0)

    def _take_received(self) -> dict[str, int]:
        received, self.received = self.received, {}
        return received

    def shut_down(self, session: Session) -> None:
        """Have a machine end itself."""
        for machine in self.cloud.truth():
            if machine.address == session.host.address:
                self.cloud.interrupt(machine.id, 0.0)

    def fail(self, *calls: str, code: str = "ExpiredToken") -> None:
        """Have the place refuse each of these calls from now on, and no others."""
        faults = tuple(Fault(call, 0, code) for call in calls)
        self.cloud.weather = replace(self.cloud.weather, faults=faults)

    def turn(self, seconds: float = 1.0) -> Fleet:
        """Do one turn, and all that it has begun."""
        fleet = self.keeper.tick(self.wish, self.load, self.clock.now)
        while self.queue.waiting:
            self.queue.work()
        self.clock.now += seconds
        return fleet

    def until(
        self, right: Callable[[Fleet], bool], seconds: float = 1.0, turns: int = 600
    ) -> Fleet:
        """Turn until the fleet is as it is to be."""
        for _ in range(turns):
            fleet = self.turn(seconds)
            if right(fleet):
                return fleet
        raise AssertionError(
            f"{fleet!r} {fleet.message} {self.store.fleets.purchases(self.cluster)}"
        )

    def ready(self, nodes: int) -> Fleet:
        """Turn until so many nodes may carry a world."""
        return self.until(lambda fleet: len(fleet.hosts) == nodes)

    def paid(self) -> list[str]:
        """The machines that cost something."""
        return [
            machine.id
            for machine in self.cloud.truth()
            if machine.state in (MachineState.PENDING, MachineState.RUNNING)
        ]
