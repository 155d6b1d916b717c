"""The rehearsal: simulated EC2 nodes with prices, capacity, delays and interruptions, at no cost.

The processes of a node are processes of this machine that were started through a session with it.
With a folder, another process can open the same nodes.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from workbench.cloud.ec2.api import build_error
from workbench.cloud.ec2.tags import OwnerTags, resource_tags
from workbench.cloud.hosts.local_session import LocalSession, end_processes
from workbench.cloud.rehearsal.market import KINDS, ZONES, SimulatedType, kind_of, offers, price_at
from workbench.cloud.rehearsal.state import (
    LISTED_SECONDS,
    RehearsalState,
    ReplayedHistory,
    SharedState,
    SimulatedMachine,
    SimulatedResource,
)
from workbench.core.fleet.model import Leftover, Machine, MachineState, Needs, Offer, Purchase
from workbench.core.fleet.node_provider import ClusterContext, NodeProvider
from workbench.core.node.findings import Finding
from workbench.core.world.world import NODE_VARIABLE, Host
from workbench.errors import MachineError

HOUR = 3600.0
MOST_WAIT_SECONDS = 540.0  # a node is given up that does not boot within ten minutes
# EC2's error codes for resources that do not exist, or are not known yet.
UNKNOWN = {
    "launch template": "InvalidLaunchTemplateName.NotFoundException",
    "placement group": "InvalidPlacementGroup.Unknown",
    "key pair": "InvalidKeyPair.NotFound",
    "security group": "InvalidGroup.NotFound",
}
# In the order of deletion: a resource goes before those that it uses.
BELONGINGS = ("launch template", "placement group", "key pair", "security group")


@dataclass(frozen=True)
class Weather:
    """The simulated behaviour of the provider; by default mild, for a rehearsal to watch.

    Args:
        capacity: Free machines by type and zone, where it is not ``plenty``.
        boot: The shortest and the longest boot time in seconds.
        stop: Seconds that a machine takes to end; they are not billed.
        lag: Seconds until a new machine is listed.
        quota: vCPUs that may run of each class.
        counted: Seconds for which an ended machine still counts against quota and capacity.
        unknown: Seconds until a cluster's new resource is known to launches.
        apart: Types that no placement group supports, such as EC2's burstable ones.
        lifetime: Mean seconds until the provider reclaims a machine; 0 for never.
        notice: Seconds from the interruption notice until then.
    """

    plenty: int = 16
    capacity: Mapping[tuple[str, str], int] | None = None
    boot: tuple[float, float] = (2.0, 6.0)
    stop: float = 2.0
    lag: float = 1.0
    quota: int = 256
    counted: float = 0.0
    unknown: float = 0.0
    apart: frozenset[str] = frozenset()
    lifetime: float = 0.0
    notice: float = 120.0


class Rehearsal(NodeProvider):
    """The provider of a rehearsal.

    Args:
        folder: The folder for its state; None to keep it in memory.
        clock: Returns epoch seconds; nothing here ever waits.
        seed: Of the prices, delays and interruptions.
        cluster: The only cluster whose notices are reported; empty for all.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        weather: Weather | None = None,
        seed: int = 0,
        cluster: str = "",
    ) -> None:
        self._cluster = cluster
        self._folder = folder
        self._clock = clock
        self._seed = seed
        self.weather = weather or Weather()
        self._keeping = SharedState(folder)
        # Machines of other rehearsals on this machine may have the same ids.
        self._name = sha256(str(folder.resolve()).encode()).hexdigest() if folder else uuid4().hex

    def __repr__(self) -> str:
        return f"<Rehearsal {len(self.machines())} machines>"

    # -- the interface of every provider

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return all types that fit, one offer for each zone, cheapest first."""
        with self.calling("offers") as state:
            return offers(
                self._seed,
                needs,
                self._clock(),
                history_seconds,
                lambda kind: self.weather.quota - self._count_used(state, kind),
            )

    def permissions(self, purchase: Purchase) -> tuple[Finding, ...]:
        """Return that everything is allowed."""
        return (Finding("permissions", True, "a rehearsal needs no permission"),)

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Launch the nodes; the same token again launches no more."""
        with self.calling("buy") as state:
            what = repr((asdict(purchase), user_data, sorted(tags)))
            known = state.purchases.get(purchase.token)
            if known is not None:
                if known != what:
                    raise build_error(
                        "IdempotentParameterMismatch", "another purchase has this token"
                    )
                return
            self._provide(state, purchase)
            self._find_what_was_made(state, purchase.cluster)
            kind, zone, count = self._choice(state, purchase)
            if math.isinf(self._given_at(state, purchase.cluster)):
                raise build_error("InsufficientInstanceCapacity", "the recording gives no machine")
            state.purchases[purchase.token] = what
            for _ in range(count):
                self._launch(state, purchase, kind, zone, tags)

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return the machines of ``cluster``, or all of ours, including recently ended ones."""
        with self.calling("machines") as state:
            return tuple(
                self._machine(machine)
                for machine in state.machines.values()
                if cluster in ("", machine.cluster) and self._is_listed(machine)
            )

    def end(self, ids: Sequence[str]) -> None:
        """Begin to end machines; ignores those that are gone already."""
        with self.calling("end") as state:
            self._end(state, ids, "as requested")

    def leftovers(self, cluster: str = "") -> tuple[Leftover, ...]:
        """Return all resources with our tags, billed or not, without machines that have ended."""
        with self.calling("leftovers") as state:
            return tuple(self._list_leftovers(state, cluster))

    def clean(self, cluster: str, *, images: bool = False) -> tuple[Leftover, ...]:
        """Delete what can be deleted of ``cluster`` now, in order."""
        with self.calling("clean") as state:
            left = [machine for machine in state.machines.values() if machine.cluster == cluster]
            self._end(state, [one.id for one in left if self._is_listed(one)], "as requested")
            if all(self._state(machine) is MachineState.GONE for machine in left):
                for id_ in [t.id for t in state.things.values() if t.cluster == cluster]:
                    del state.things[id_]
            return tuple(self._list_leftovers(state, cluster))

    def open(self, machine: Machine) -> LocalSession:
        """Open a session with a running machine.

        Raises:
            MachineError: The machine does not run, or does not exist.
        """
        id_ = machine.id
        with self._keeping() as state:
            self._advance(state)
            known = state.machines.get(id_)
            if known is None or self._state(known) is not MachineState.RUNNING:
                raise MachineError(f"The node {id_} does not answer", "wait until it has booted.")
        folder = self._folder / "nodes" / id_ if self._folder else Path.cwd()
        kind = kind_of(known.type)
        host = Host(known.address, kind.slots if kind else 1)
        return LocalSession(
            host,
            folder,
            {NODE_VARIABLE: self._mark(id_)},
            lambda: self._runs(id_),
            lambda: self._visit(id_),
        )

    def interrupt(self, id_: str, notice: float | None = None) -> None:
        """Reclaim a machine after ``notice`` seconds, by default the usual time."""
        with self._keeping() as state:
            seconds = self.weather.notice if notice is None else notice
            state.machines[id_].taken = self._clock() + seconds
        # Advance in a second step, so that a node is seen to be gone once its processes have ended.
        with self._keeping() as state:
            self._advance(state)

    def replay(self, counts: Sequence[tuple[float, int]], ends: float, notice: float) -> None:
        """Give and take machines of the cluster as a recording did."""
        history = ReplayedHistory([(at, count) for at, count in counts], ends, notice)
        with self._keeping() as state:
            state.histories[self._cluster] = history
            self._advance(state)

    def read_notices(self) -> dict[str, float]:
        """Return when each machine with an interruption notice is taken, in epoch seconds."""
        with self._keeping() as state:
            self._advance(state)
            return {
                machine.id: machine.taken
                for machine in state.machines.values()
                if self._cluster in ("", machine.cluster)
                and machine.taken
                and not machine.ended
                and self._clock() >= machine.taken - self.weather.notice
            }

    @contextlib.contextmanager
    def calling(self, name: str) -> Iterator[RehearsalState]:
        """Hold the state for one call of the interface, after what has happened meanwhile.

        Args:
            name: Of the method.
        """
        with self._keeping() as state:
            self._advance(state)
            yield state

    # -- inside

    def _advance(self, state: RehearsalState) -> None:
        """Apply the interruptions and removals since the last call."""
        now = self._clock()
        for cluster, history in [*state.histories.items()]:
            self._replay(state, cluster, history, now)
        for machine in state.machines.values():
            if machine.taken and not machine.ended and machine.taken <= now:
                machine.ended, machine.interrupted = machine.taken, True
                machine.reason = "the provider reclaimed it"
                self._end_processes([machine])
        forgotten = [m.id for m in state.machines.values() if _gone_for(m, now) > LISTED_SECONDS]
        for id_ in forgotten:
            del state.machines[id_]

    def _replay(
        self, state: RehearsalState, cluster: str, history: ReplayedHistory, now: float
    ) -> None:
        """Choose the machines that a recording takes, each when its notice is due."""
        for at, count in history.counts:
            if history.known < at <= now + history.notice:
                there = [m for m in _standing(state, cluster) if m.given <= at]
                chance = random.Random(f"{self._seed} {at} {count}")
                for machine in chance.sample(there, max(0, len(there) - count)):
                    machine.taken = max(at, now)
                history.known = at
        if now >= history.ends:
            del state.histories[cluster]

    def _given_at(self, state: RehearsalState, cluster: str) -> float:
        """Return when a recording gives another machine; infinite if not soon."""
        now, history = self._clock(), state.histories.get(cluster)
        if history is None:
            return now
        ours = [m for m in state.machines.values() if m.cluster == cluster and not m.ended]
        later = [at for at, _ in history.counts if now < at <= now + MOST_WAIT_SECONDS]
        for at in (now, *later):
            there = [m for m in ours if not m.taken or m.taken > at]
            if history.count(at) > len(there):
                return at
        return math.inf

    def _provide(self, state: RehearsalState, purchase: Purchase) -> None:
        cluster = purchase.cluster
        for kind in BELONGINGS:
            close = kind == "placement group"  # which belongs to a zone
            id_ = f"{cluster}/{kind}" + (f" {purchase.zone}" if close else "")
            if not close or purchase.placement:
                state.things.setdefault(id_, SimulatedResource(kind, id_, cluster, self._clock()))

    def _find_what_was_made(self, state: RehearsalState, cluster: str) -> None:
        """Raise an error while a resource of the cluster is too new to be known."""
        for thing in state.things.values():
            if thing.cluster == cluster and self._clock() < thing.created + self.weather.unknown:
                raise build_error(
                    UNKNOWN[thing.kind], f"the {thing.kind} '{thing.id}' does not exist"
                )

    def _choice(self, state: RehearsalState, purchase: Purchase) -> tuple[SimulatedType, str, int]:
        """Return the cheapest available type and zone, and how many machines; or raise an error."""
        kinds = [kind for kind in KINDS if kind.type in purchase.types]
        places = [(k, zone) for k in kinds for zone in ZONES if purchase.zone in ("", zone)]
        if not places:
            raise build_error(
                "InvalidParameterValue", f"no type {purchase.types} in {purchase.zone}"
            )
        places = [
            p for p in places if not purchase.placement or p[0].type not in self.weather.apart
        ]
        if not places:
            raise build_error(
                "InvalidParameterCombination",
                "Cluster placement groups are not supported by the "
                f"'{purchase.types[0]}' instance type.",
            )
        price = {place: self._price(*place) for place in places}
        paid = [p for p in places if not purchase.max_price or price[p] <= purchase.max_price]
        if not paid:
            raise build_error("SpotMaxPriceTooLow", f"the price is {min(price.values())}")
        allowed = [
            (kind, zone)
            for kind, zone in paid
            if self._count_used(state, kind) + kind.vcpus * purchase.min_nodes <= self.weather.quota
        ]
        if not allowed:
            raise build_error("MaxSpotInstanceCountExceeded", "the quota is used up")
        for kind, zone in sorted(allowed, key=lambda place: price[place]):
            quota = (self.weather.quota - self._count_used(state, kind)) // kind.vcpus
            count = min(purchase.count, quota, self._free(state, kind, zone, purchase.placement))
            if count >= max(1, purchase.min_nodes):
                return kind, zone, count
        raise build_error("InsufficientInstanceCapacity", "there are not enough free machines")

    def _free(self, state: RehearsalState, kind: SimulatedType, zone: str, placement: bool) -> int:
        all_ = (self.weather.capacity or {}).get((kind.type, zone), self.weather.plenty)
        counted = self._find_counted(state)
        free = all_ - sum(m.type == kind.type and m.zone == zone for m in counted)
        return free // 2 if placement else free  # a placement group has less capacity

    def _find_counted(self, state: RehearsalState) -> list[SimulatedMachine]:
        """Return the machines that count against quota and capacity."""
        now = self._clock()
        return [
            m for m in state.machines.values()
            if not m.ended or now < m.ended + self.weather.counted
        ]  # fmt: skip

    def _count_used(self, state: RehearsalState, kind: SimulatedType) -> int:
        """Return the vCPUs in use of the quota class of ``kind``."""
        found = [kind_of(machine.type) for machine in self._find_counted(state)]
        return sum(k.vcpus for k in found if k and k.quota_name == kind.quota_name)

    def _launch(
        self,
        state: RehearsalState,
        purchase: Purchase,
        kind: SimulatedType,
        zone: str,
        tags: Sequence[tuple[str, str]],
    ) -> None:
        state.launched += 1
        number, now, weather = state.launched, self._clock(), self.weather
        chance = random.Random(f"{self._seed} machine {number}")
        given = self._given_at(state, purchase.cluster)
        if math.isinf(given):
            return
        boot = given - now + chance.uniform(*weather.boot)
        life = chance.expovariate(1.0 / weather.lifetime) if weather.lifetime else 0.0
        machine = SimulatedMachine(
            id=f"r-{number:06d}",
            cluster=purchase.cluster,
            token=purchase.token,
            type=kind.type,
            zone=zone,
            address=f"127.77.{number // 250 % 250}.{number % 250 + 1}",
            launched=now,
            boot=boot,
            given=given,
            taken=now + boot + life if life else 0.0,
            tags=[
                list(tag)
                for tag in resource_tags(OwnerTags(purchase.cluster), purchase.token, tags)
            ],
        )
        state.machines[machine.id] = machine

    def _end(self, state: RehearsalState, ids: Sequence[str], reason: str) -> None:
        ended = [state.machines[id_] for id_ in ids if id_ in state.machines]
        for machine in ended:
            if not machine.ended:
                machine.ended, machine.reason = self._clock(), reason
        self._end_processes(ended)

    def _mark(self, id_: str) -> str:
        return f"{id_}@{self._name[:12]}"

    def _end_processes(self, ended: Sequence[SimulatedMachine]) -> None:
        visited = [machine for machine in ended if machine.visited]
        if visited:
            end_processes(NODE_VARIABLE, {self._mark(machine.id) for machine in visited})
        for machine in visited:
            machine.visited = False

    def _list_leftovers(self, state: RehearsalState, cluster: str) -> Iterator[Leftover]:
        for machine in state.machines.values():
            if cluster in ("", machine.cluster) and self._is_listed(machine):
                seen = self._machine(machine)
                if seen.state is not MachineState.GONE:
                    yield Leftover(
                        "instance", machine.id, machine.cluster, "", seen.price, machine.launched
                    )
        for thing in state.things.values():
            if cluster in ("", thing.cluster):
                yield Leftover(thing.kind, thing.id, thing.cluster, created=thing.created)

    def _is_listed(self, machine: SimulatedMachine) -> bool:
        return self._clock() >= machine.launched + self.weather.lag

    def _visit(self, id_: str) -> None:
        """Record that processes may run on the machine."""
        with self._keeping() as state:
            state.machines[id_].visited = True

    def _runs(self, id_: str) -> bool:
        machine = self._keeping.look().machines.get(id_)
        if machine is None or (machine.taken and machine.taken <= self._clock()):
            return False
        return self._state(machine) is MachineState.RUNNING

    def _state(self, machine: SimulatedMachine) -> MachineState:
        now = self._clock()
        if machine.ended:
            over = now >= machine.ended + self.weather.stop
            return MachineState.GONE if over else MachineState.STOPPING
        booted = now >= machine.launched + machine.boot
        return MachineState.RUNNING if booted else MachineState.PENDING

    def _price(self, kind: SimulatedType, zone: str) -> float:
        return price_at(self._seed, kind, zone, self._clock())

    def _machine(self, machine: SimulatedMachine) -> Machine:
        kind = kind_of(machine.type)
        is_billed = machine.given <= self._clock() and not machine.ended
        return Machine(
            id=machine.id,
            state=self._state(machine),
            address=machine.address,
            reach=machine.address,
            type=machine.type,
            zone=machine.zone,
            price=self._price(kind, machine.zone) if kind and is_billed else 0.0,
            slots=kind.slots if kind else 1,
            launched=machine.given if machine.given <= self._clock() else 0.0,
            ended=machine.ended,
            token=machine.token,
            tags=tuple((key, value) for key, value in machine.tags),
            reason=machine.reason,
            interrupted=machine.interrupted,
        )


def open_rehearsal(context: ClusterContext) -> Rehearsal:
    """Return the rehearsal of all clusters of this user."""
    return Rehearsal(context.home / "rehearsal", cluster=context.cluster)


def _standing(state: RehearsalState, cluster: str) -> list[SimulatedMachine]:
    """Return the machines of a cluster that are there, or are still to come, and stay."""
    machines = state.machines.values()
    return [m for m in machines if m.cluster == cluster and not (m.ended or m.taken)]


def _gone_for(machine: SimulatedMachine, now: float) -> float:
    return now - machine.ended if machine.ended else 0.0
