"""Nodes, worlds and a training as values and a clock, for the real supervisor to decide about.

The training visits each example of an epoch once; its state is what a snapshot holds. Every node
has a disk for snapshots. What must never happen raises where it would.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy

from tests.simulation.cluster import SimulatedCluster, SimulatedWorld
from workbench.core.cluster.generation import Death
from workbench.core.cluster.model import ClusterWish
from workbench.core.cluster.target_world import target_world, waits_for_more
from workbench.core.fleet.membership import by_worth, members
from workbench.core.fleet.model import COMING, FleetWish, Node, NodeState
from workbench.core.fleet.node_health import leave_in_time
from workbench.core.recovery.remaining_examples import dealt
from workbench.core.recovery.resumption import may_begin_without
from workbench.core.recovery.snapshot_copies import CopiesLeft, copies_left
from workbench.core.recovery.snapshots import (
    SnapshotManifest,
    for_training,
    superfluous,
)
from workbench.core.run.model import Assignment, Run
from workbench.core.run.rank_protocol import (
    AskPulse,
    AtEdge,
    Batch,
    Command,
    ContinueAs,
    Delivery,
    Ending,
    Event,
    EventReport,
    Interrupt,
    Progress,
    Pulse,
    Sample,
    SaveSoon,
    SnapshotSaved,
    StopAt,
    TrainingBegun,
    TrainingResumed,
)
from workbench.core.run_id import run_and_attempt
from workbench.core.world.remote import LostSession
from workbench.core.world.world import Host, RankFact, World
from workbench.store import Store
from workbench.supervisor.fleet.fleet_loop import Load

EXAMPLES = 48
BATCH = 2
STEP_SECONDS = 0.5
EVERY = 5
END_SECONDS = 0.5
REPEAT_SECONDS = 2.0
LATE_SHARE = 0.2  # of the turns: in these not all messages are there yet


class Clock:
    """The time of a history, which passes on request."""

    def __init__(self) -> None:
        self.now = 1_000.0


@dataclass(frozen=True)
class Lineage:
    """The state of the training: what a snapshot holds.

    Args:
        rest: The examples of the epoch that each rank has still to visit.
        visited: Those that were visited, in any order.
        spare: How many of them may be visited twice, because ranks get equal numbers.
    """

    iteration: int = 0
    epoch: int = 0
    rest: tuple[tuple[int, ...], ...] = ()
    visited: tuple[int, ...] = ()
    spare: int = 0

    def on(self, ranks: int) -> Lineage:
        """Return it dealt out to so many ranks."""
        if len(self.rest) == ranks:
            return self
        rest = [numpy.array(one, int) for one in self.rest]
        if not rest:
            rest = [numpy.arange(EXAMPLES)]
        return replace(
            self,
            rest=tuple(tuple(map(int, dealt(rest, r, ranks))) for r in range(ranks)),
            spare=self.spare + ranks - 1,
        )

    @property
    def epochs(self) -> float:
        """Epochs done, with the part of the present one."""
        left = sum(map(len, self.rest))
        return self.epoch + (len(self.visited) / (len(self.visited) + left) if left else 0.0)

    def step(self) -> Lineage:
        """Return it after one iteration."""
        taken = [example for one in self.rest for example in one[:BATCH]]
        rest = tuple(one[BATCH:] for one in self.rest)
        step = replace(
            self, iteration=self.iteration + 1, rest=rest, visited=(*self.visited, *taken)
        )
        if any(rest):
            return step
        counts = Counter(step.visited)
        assert set(counts) == {*range(EXAMPLES)}, "an example was left out of an epoch"
        assert len(step.visited) - EXAMPLES <= step.spare, "an example was visited twice"
        return Lineage(step.iteration, self.epoch + 1).on(len(rest))


Saved = tuple[SnapshotManifest, Lineage]


class Places:
    """The nodes: they boot, are noticed, vanish and come back, as ``ClusterHosts`` has them."""

    message = ""
    over = ""
    replaces = True

    def __init__(self, clock: Clock, chance: random.Random) -> None:
        self.nodes: dict[str, Node] = {}
        self.disks: dict[str, list[Saved]] = {}
        self.damaged: set[SnapshotManifest] = set()
        self.cut: set[str] = set()
        self.hung: dict[str, float] = {}  # since when nothing on a node answers
        self.taken: dict[str, float] = {}
        self.agreed = 0
        self._due: dict[str, float] = {}
        self._clock = clock
        self._chance = chance
        self._count = 0

    # -- for the supervisor

    @property
    def there(self) -> tuple[Node, ...]:
        """All nodes."""
        return (*self.nodes.values(),)

    @property
    def is_here(self) -> bool:
        """Whether there is this machine alone."""
        return False

    @property
    def is_cleared(self) -> bool:
        """Whether no node is left."""
        return True

    def take_up(self, wish: ClusterWish, used: frozenset[str], clock: object) -> None:
        """Do nothing: nodes answer at once."""

    def keep(self, wish: ClusterWish, load: Load, now: float) -> None:
        """Order what is missing, let the rest boot, and release what is not wanted."""
        self.turn()
        for node in [*self.nodes.values()]:
            is_in = node.address in load.used
            if node.state in (NodeState.READY, NodeState.JOINED):
                state = NodeState.JOINED if is_in else NodeState.READY
                self._put(node, state)
            elif node.state is NodeState.LEAVING and not is_in and node.id not in self.taken:
                del self.nodes[node.id]
        used = {node.id for node in self.nodes.values() if node.address in load.used}
        noticed = [
            n for n in self.nodes.values() if n.reclaimed and n.state is not NodeState.LEAVING
        ]
        for node in leave_in_time(noticed, used, load.lead, self._clock.now):
            self._put(node, NodeState.LEAVING)
        kept = [node for node in self.nodes.values() if not node.is_going]
        wanted = wish.fleet.nodes if wish.up and not load.over else 0
        for node in by_worth(kept, load.used)[wanted:]:
            self._put(node, NodeState.LEAVING)
        for _ in range(wanted - len(kept)):
            self._order()
        self.agreed = wanted
        staying = [n for n in self.nodes.values() if n.state is not NodeState.LEAVING]
        if not any(node.head for node in staying) and self._able():
            first = self._able()[0]
            self.nodes[first.id] = replace(first, head=True)

    def target(self, wish: ClusterWish, load: Load) -> World | None:
        """Return the desired world, as for real nodes."""
        if load.over:
            return World((), 0)
        hosts = tuple(Host(node.address, 1) for node in self._able())
        waits = waits_for_more(
            [*self.nodes.values()],
            {host.address for host in hosts},
            load.used,
            starts_early=wish.fleet.starts_early,
            has_begun=load.busy,
            has_work=load.busy or load.waiting > 0,
            now=self._clock.now,
        )
        return target_world(wish, hosts, waits=waits)

    def reach(self, host: Host) -> LostSession:
        """Return no way to a node: what ranks have begun there is not known from its files."""
        return LostSession(host)

    def reclaimed(self, addresses: Sequence[str]) -> list[str]:
        """Return the nodes that are taken back."""
        nodes = [self.nodes[id_] for id_ in self.taken]
        return [node.id for node in nodes if node.address in addresses]

    def leave(self, address: str, why: str) -> None:
        """Release a node."""
        for node in [node for node in self.nodes.values() if node.address == address]:
            self._put(node, NodeState.LEAVING)

    def why_gone(self, address: str) -> str:
        """Return why a node is gone."""
        there = {node.address for node in self.nodes.values()}
        return "its node is gone" if address in self.cut or address not in there else ""

    def close(self) -> None:
        """Do nothing."""

    # -- for the history

    def up(self, address: str) -> bool:
        """Whether processes on a node run and can be reached."""
        return address not in self.cut and any(n.address == address for n in self.nodes.values())

    def reachable(self) -> list[str]:
        """Return the addresses of the nodes that may carry a world."""
        return [node.address for node in self._able()]

    def answering(self) -> list[str]:
        """Return the addresses of all nodes that can be reached, also of those that leave."""
        known = dict.fromkeys(node.address for node in self.nodes.values())
        return [address for address in known if address not in self.cut]

    def turn(self) -> None:
        """Let the time that has passed change nodes."""
        for node in [*self.nodes.values()]:
            if self._due.get(node.id, 0.0) <= self._clock.now and node.state in COMING:
                after = {NodeState.ASKED: NodeState.VERIFIED, NodeState.VERIFIED: NodeState.READY}
                self._put(node, after[node.state])
                self._due[node.id] = self._clock.now + self._chance.choice([0.2, 1.0, 5.0])
            if self.taken.get(node.id, self._clock.now + 1) <= self._clock.now:
                del self.nodes[node.id], self.taken[node.id]

    def damage(self) -> None:
        """No snapshot that is there can be read any more."""
        self.damaged |= {manifest for disk in self.disks.values() for manifest, _ in disk}

    def lose(self, address: str) -> None:
        """A node is gone for good, without a word."""
        for id_ in [node.id for node in self.nodes.values() if node.address == address]:
            del self.nodes[id_]
            self.taken.pop(id_, None)

    def notice(self, address: str, seconds: float) -> None:
        """A node is to be taken back."""
        for node in [node for node in self.nodes.values() if node.address == address]:
            self.taken[node.id] = end = self._clock.now + seconds
            self.nodes[node.id] = replace(node, reclaimed=end)

    def _able(self) -> tuple[Node, ...]:
        open_ = {node.id for node in self.nodes.values() if node.address not in self.cut}
        return members(self.nodes.values(), open_, self.agreed)

    def _order(self) -> None:
        self._count += 1
        id_, address = f"i-{self._count:05}", f"10.0.{self._count >> 8}.{self._count & 255}"
        self.nodes[id_] = Node(id_, NodeState.ASKED, address, 1, since=self._clock.now)
        self._due[id_] = self._clock.now + self._chance.choice([0.5, 3.0, 60.0])
        self.disks[address] = []

    def _put(self, node: Node, state: NodeState) -> None:
        if node.state is not state:
            self.nodes[node.id] = replace(node, state=state, since=self._clock.now)


class _World(SimulatedWorld):
    """One MPI world of the simulation."""

    def __init__(self, generation: int, world: World, clock: Clock, ready_at: float) -> None:
        super().__init__(generation, world)
        self.ready_at, self._clock = ready_at, clock
        self.ended_at = 0.0
        self.assignment: Assignment | None = None
        self.lineage: Lineage | None = None
        self.first, self.next_step = 0, 0.0
        self.stop_at: int | None = None
        self.stop_at_epoch: int | None = None
        self.is_over, self.at_edge, self.is_asked = True, False, False
        self.waited = ""  # the run that waited at the edge
        self.writing: tuple[float, Saved] | None = None

    @property
    def boundary(self) -> int:
        """Iterations of this attempt."""
        return self.lineage.iteration - self.first if self.lineage else 0

    @property
    def is_ready(self) -> bool:
        """Whether its ranks have started."""
        return self._clock.now >= self.ready_at

    @property
    def is_ending(self) -> bool:
        """Whether the supervisor has ended it."""
        return bool(self.ended_at)

    @property
    def has_ended(self) -> bool:
        """Whether that is a moment ago."""
        return self._clock.now >= self.ended_at

    @property
    def has_exited(self) -> bool:
        """Whether the ranks have ended with their script, and the supervisor knows how."""
        if self.assignment is None or not self.assignment.wish.is_process or not self.is_over:
            return False
        execution = self.assignment.execution
        return all(sent.is_over for key, sent in self.sent.items() if key[0] == execution)

    def place(self, rank: int) -> tuple[str, str]:
        """Return the address of its node as both."""
        return (self.world.placement[rank],) * 2

    def stops(self, *, ends_epoch: bool) -> bool:
        """Return whether the ranks leave at this boundary."""
        if self.stop_at is not None and self.boundary >= self.stop_at:
            return True
        begun = self.stop_at_epoch is not None and self.boundary >= self.stop_at_epoch
        return begun and ends_epoch


class Copies:
    """The files of runs: snapshots are copied to this machine, and brought to nodes without one."""

    message = ""

    def __init__(self, places: Places, store: Store) -> None:
        self._places, self._store = places, store
        self._copies: dict[str, Saved] = {}
        self.all_lost: dict[str, int] = {}

    def open(self) -> None:
        """Do nothing: copies outlive a supervisor."""

    def begin(self, run: Run, hosts: Sequence[str], fleet: FleetWish) -> None:
        """Do nothing."""

    def end(self, run: str) -> None:
        """Do nothing."""

    def keep(self, fleet: FleetWish) -> None:
        """Copy the newest snapshots that can be reached."""
        for address in self._places.answering():
            for saved in self._places.disks[address]:
                known = self._copies.get(saved[0].run)
                if saved[0] in self._places.damaged:
                    continue
                if known is None or known[0] in self._places.damaged or saved[0].age > known[0].age:
                    self._copies[saved[0].run] = saved

    def can_begin(self, run: Run, hosts: Sequence[str], fleet: FleetWish) -> bool:
        """Bring the newest snapshot to the hosts of a run that continues."""
        if run.fact.attempt == 1:
            return True
        self.keep(fleet)
        saved = self._copies.get(run.id)
        if saved is not None and saved[0] not in self._places.damaged:
            disk = self._places.disks[hosts[0]]
            disk += [saved] if saved not in disk else []
        past, snapshot = (
            self._store.attempts.past(run.id),
            self._store.attempts.newest_snapshot(run.id),
        )
        if not may_begin_without(past, snapshot):
            return True
        held: dict[str, list[SnapshotManifest] | None] = {"": [saved[0]] if saved else []}
        for address in {node.address for node in self._places.nodes.values()}:
            found = [one for one, _ in self._places.disks[address] if one.run == run.id]
            held[address] = None if address in self._places.cut else found
        damaged = {(at, one.name) for at in held for one in self._places.damaged}
        found = copies_left(held, damaged)
        if found is CopiesLeft.NOTHING:
            self.all_lost[run.id] = run.fact.attempt
        return found is not CopiesLeft.UNKNOWN

    def has_lost_all(self, run: Run) -> bool:
        """Return whether no copy is left."""
        return self.all_lost.get(run.id) == run.fact.attempt

    def has_copy(self, run: str) -> bool:
        """Return whether there is a copy here."""
        return run in self._copies

    def copy_seconds(self, run: str) -> float:
        """Return that a copy takes no time."""
        return 0.0

    def output_folder(self, run: Run, hosts: Sequence[str]) -> str:
        """Return nothing: runs write no files."""
        return ""

    def snapshot_folder(
        self, run: Run, fleet: FleetWish, has_snapshot: Callable[[str], bool]
    ) -> str:
        """Return nothing."""
        return ""

    def close(self) -> None:
        """Do nothing."""


class ModelCluster(SimulatedCluster):
    """Worlds that train on the nodes of ``Places``.

    Attributes:
        total: Iterations of a training.
        is_kind: Whether each world comes up that is started from now on.
    """

    def __init__(self, clock: Clock, places: Places, chance: random.Random, total: int) -> None:
        super().__init__()
        self.total = total
        self.is_kind = False
        self._repeated = 0.0
        self._clock = clock
        self._places = places
        self._chance = chance
        self._inbox: list[Delivery] = []
        self._attempts: dict[str, int] = {}
        self.epoch_ends = set[tuple[str, int]]()  # run and iteration

    # -- for the supervisor

    def open(self, known: Mapping[int, Sequence[RankFact]]) -> None:
        """Connect again: ranks repeat what was not acknowledged."""
        self._repeat()

    def _repeat(self) -> None:
        self._inbox, self._repeated = [], self._clock.now
        for world in [one for one in self.worlds.values() if not one.deaths]:
            for sent in world.sent.values():
                self._inbox += [Delivery(world.generation, one) for one in sent.unconfirmed]

    def start_world(self, generation: int, world: World) -> None:
        """Start a world; one in five never comes up."""
        assert len({*world.placement}) <= self._places.agreed, "more nodes than agreed"
        assert generation not in self.worlds
        seconds = self._chance.choice([0.5, 1.5, 4.0, 4.0, 4.0 if self.is_kind else 200.0])
        self.worlds[generation] = _World(generation, world, self._clock, self._clock.now + seconds)

    def submit(self, generation: int, assignment: Assignment) -> None:
        """Begin to train, from the newest snapshot that a node of the world has."""
        world = self.worlds[generation]
        begun = world.assignment.execution if world.assignment else ""
        if world.deaths or world.ended_at or begun == assignment.execution:
            return
        if assignment.continues:
            world.waited = assignment.wish.id
            world.assignment, world.is_over, world.at_edge = assignment, False, True
            world.lineage = Lineage()
            world.stop_at = world.stop_at_epoch = None
            self._say(world)
            self._tell(world, AtEdge())
            return
        self._begin(world, assignment)

    def _begin(self, world: _World, assignment: Assignment) -> None:
        for other in self.worlds.values():
            assert other is world or not self._trains(other), "two worlds train at once"
        begun = {run_and_attempt(execution)[0] for execution, _ in world.sent}
        own = {assignment.wish.id, world.waited}
        assert not assignment.wish.is_process or begun <= own, "a script begins on used ranks"
        last = self._attempts.get(assignment.wish.id, 0)
        assert assignment.attempt > last, "an attempt began twice"
        self._attempts[assignment.wish.id] = assignment.attempt
        world.assignment, world.is_over = assignment, False
        world.stop_at = world.stop_at_epoch = None
        world.next_step = self._clock.now + self._chance.choice([0.2, 1.0])
        world.lineage, world.first = Lineage(), 0
        self._say(world)
        if assignment.resume:
            self._resume(world)
        else:
            world.lineage = world.lineage.on(world.world.size)
            self._tell(world, TrainingBegun())

    def post(self, generation: int, message: Batch | Pulse) -> None:
        """Send a message of a rank to the supervisor."""
        self._inbox.append(Delivery(generation, message))

    def obey(self, world: _World, ranks: Sequence[int], command: Command) -> None:
        """Do what a rank does with a command."""
        assignment = world.assignment
        if assignment is None or world.is_over or assignment.execution != command.run:
            return
        if world.at_edge and isinstance(command, ContinueAs):
            run, attempt = run_and_attempt(command.into)
            self._leave(world, Ending("finished", 0))
            world.at_edge = False
            wish = replace(assignment.wish, id=run, replays="")
            following = replace(assignment, wish=wish, attempt=attempt, continues="", resume=True)
            self._begin(world, following)
        elif world.at_edge and isinstance(command, Interrupt):
            world.at_edge = False
            self._leave(world, Ending("stopped", 0, "interrupted"))
        elif isinstance(command, StopAt):
            if command.epoch:
                world.stop_at_epoch = command.boundary
            else:
                world.stop_at = command.boundary
        elif isinstance(command, SaveSoon):
            world.is_asked = True
        elif isinstance(command, AskPulse):
            self._pulse(world)
        elif isinstance(command, Interrupt) and world.lineage is not None:
            self._leave(world, Ending("stopped", world.lineage.iteration, "interrupted"))

    def receive(self, seconds: float) -> list[Delivery]:
        """Return what the ranks sent, or the first of it: the rest may come in a later turn.

        A pulse is among it, so that the turn does not wait for more.
        """
        for world in self.worlds.values():
            if self._trains(world):
                self._pulse(world)
        most = len(self._inbox)
        taken = self._chance.randint(0, most) if self._chance.random() < LATE_SHARE else most
        messages, self._inbox = self._inbox[:taken], self._inbox[taken:]
        return messages

    def end_world(self, generation: int) -> None:
        """End the ranks of a world, which takes a moment."""
        if (world := self.worlds.get(generation)) is not None and not world.ended_at:
            world.ended_at = self._clock.now + END_SECONDS
            self._drop(world)

    def close(self) -> None:
        """End all worlds."""
        self.worlds.clear()

    # -- for the history

    def kill(self, generation: int, rank: int) -> None:
        """Kill a rank; Open MPI then ends the others."""
        world = self.worlds[generation]
        self._die(world, rank, "killed by signal 9")

    def turn(self) -> None:
        """Let time pass on the ranks."""
        if self._clock.now - self._repeated >= REPEAT_SECONDS:
            self._repeat()
        for world in self.worlds.values():
            for rank, address in enumerate(world.world.placement):
                if not self._places.up(address) and self._clock.now >= world.ready_at:
                    self._die(world, rank, "its host is out of reach")
            if world.writing is not None and world.writing[0] <= self._clock.now:
                self._finish_snapshot(world)
            hangs = not self._places.hung.keys().isdisjoint(world.world.placement)
            while self._trains(world) and not hangs and world.next_step <= self._clock.now:
                world.next_step += STEP_SECONDS
                self._step(world)

    # -- inside

    def _trains(self, world: _World) -> bool:
        is_up = not (world.deaths or world.ended_at or world.is_over or world.at_edge)
        return is_up and all(map(self._places.up, world.world.placement))

    def _die(self, world: _World, rank: int, cause: str) -> None:
        if rank not in {death.rank for death in world.deaths} and not world.ended_at:
            host = world.world.placement[rank]
            world.deaths += (Death(rank, host, cause),)
            self._drop(world)

    def _drop(self, world: _World) -> None:
        """Leave a snapshot torn that was being written."""
        world.writing, world.is_over = None, True

    def _resume(self, world: _World) -> None:
        assert world.assignment is not None
        assert world.lineage is not None
        run = world.assignment.wish.id
        there = {m: s for a in world.world.placement for m, s in self._on(a, run)}
        damaged = self._places.damaged
        chosen = for_training(there.keys() - damaged, 1)
        reachable = {m for a in self._places.reachable() for m, _ in self._on(a, run)}
        newest = for_training(reachable - damaged, 1)
        is_newest = not newest or (chosen and chosen[0].age >= newest[0].age)
        assert is_newest, (
            f"progress behind the newest snapshot, {newest[:1]}: {chosen[:1]} on "
            f"{world.world.placement} of {self._places.reachable()}"
        )
        if not chosen and (there or world.assignment.begins_again):
            world.lineage = world.lineage.on(world.world.size)
            self._tell(world, TrainingResumed(0, 1))
            return
        if not chosen:
            ending = Ending("failed", 0, "StateError: No complete snapshot of this run")
            self._leave(world, ending)
            return
        world.lineage = there[chosen[0]].on(world.world.size)
        world.first = chosen[0].iteration
        self._tell(world, TrainingResumed(world.first, 1))

    def _on(self, address: str, run: str) -> list[Saved]:
        return [one for one in self._places.disks.get(address, []) if one[0].run == run]

    def _step(self, world: _World) -> None:
        assert world.lineage is not None
        assert world.assignment is not None
        before, world.lineage = world.lineage, world.lineage.step()
        iteration = world.lineage.iteration
        if ends_epoch := world.lineage.epoch > before.epoch:
            self.epoch_ends.add((world.assignment.wish.id, iteration))
        self._say(world, (Sample("loss", iteration, self._clock.now, 1.0),))
        if iteration >= self.total:
            self._leave(world, Ending("finished", iteration))
        elif world.stops(ends_epoch=ends_epoch):
            self._write(world, 0.0)
            self._finish_snapshot(world)
            self._leave(world, Ending("stopped", iteration))
        elif (iteration % EVERY == 0 or world.is_asked) and world.writing is None:
            world.is_asked = False
            self._write(world, self._chance.choice([0.0, 0.3, 2.0]))

    def _write(self, world: _World, seconds: float) -> None:
        assert world.assignment is not None
        assert world.lineage is not None
        newest = self._attempts[world.assignment.wish.id]
        assert world.assignment.attempt == newest, "an earlier generation writes a snapshot"
        manifest = SnapshotManifest(
            world.assignment.wish.id,
            world.assignment.attempt,
            world.generation,
            1,
            world.lineage.iteration,
            world.lineage.epoch,
            world.world.size,
            final=False,
        )
        world.writing = (self._clock.now + seconds, (manifest, world.lineage))

    def _finish_snapshot(self, world: _World) -> None:
        assert world.writing is not None
        _, saved = world.writing
        world.writing = None
        for address in {*world.world.placement}:
            disk = self._places.disks[address]
            disk.append(saved)
            old = superfluous([one for one, _ in self._on(address, saved[0].run)])
            disk[:] = [one for one in disk if one[0] not in old]
        self._tell(world, SnapshotSaved(saved[0].iteration, 0.01))

    def _leave(self, world: _World, ending: Ending) -> None:
        self._drop(world)
        self._say(world, ending=ending)

    def _tell(self, world: _World, event: Event) -> None:
        self._say(world, events=(EventReport(event, self._clock.now),))

    def _say(
        self,
        world: _World,
        samples: tuple[Sample, ...] = (),
        ending: Ending | None = None,
        events: tuple[EventReport, ...] = (),
    ) -> None:
        assert world.assignment is not None
        assert world.lineage is not None
        for rank in range(world.world.size):
            batch = world.sent[world.assignment.execution, rank].add(
                world.assignment.execution,
                rank,
                samples=samples if rank == 0 else (),
                progress=Progress(world.lineage.iteration, epoch=world.lineage.epochs),
                ending=ending,
                events=events if rank == 0 else (),
            )
            self.post(world.generation, batch)

    def _pulse(self, world: _World) -> None:
        assert world.assignment is not None
        hung = self._places.hung
        since = min((hung[one] for one in world.world.placement if one in hung), default=0.0)
        waits = {"call": "allreduce", "seconds": self._clock.now - since} if since else {}
        for rank, address in enumerate(world.world.placement):
            pulse = Pulse(
                world.assignment.execution, rank, world.boundary, 1 / STEP_SECONDS, **waits
            )
            if address not in hung:
                self.post(world.generation, pulse)
