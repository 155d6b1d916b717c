"""A cluster of threads in this process, for tests and experiments without MPI.

A rank executes its source with ``rank``, ``size``, ``report`` and ``barrier`` predefined, and with
``resume``, which returns the iteration to continue from, and ``snapshot``, which saves the present
one; after that it also saves where it stops. It behaves as on the real cluster: numbered batches
that are sent until acknowledged, stops at a boundary, interrupts, failures of ranks, and several
worlds at once.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.core.cluster.generation import Death, FailedCall, WorldFact, WorldState
from workbench.core.recovery.replay import KNOWN
from workbench.core.run.model import Assignment
from workbench.core.run.rank_events import (
    AtEdge,
    Event,
    EventReport,
    IteratorUndivided,
    SnapshotSaved,
    TrainingBegun,
    TrainingResumed,
)
from workbench.core.run.rank_protocol import (
    Acknowledge,
    AskPulse,
    Batch,
    Chunk,
    Command,
    ContinueAs,
    Delivery,
    Ending,
    Interrupt,
    Progress,
    Pulse,
    StopAt,
)
from workbench.core.run.samples import Sample, Samples
from workbench.core.run_id import run_and_attempt
from workbench.core.world.world import RankFact, World

HOST = "fakehost"
_NAMES = frozenset(
    {
        "rank", "size", "attempt", "report", "barrier", "print", "resume", "snapshot", "kill",
        "spoil", "sleep", "undivided",
    }
)  # fmt: skip


class _Stopped(BaseException):
    """The rank has reached the boundary at which it must stop."""


class _Killed(BaseException):
    """The rank's simulated process was killed."""


class _Rank(threading.Thread):
    """One rank in one run."""

    def __init__(self, world: _World, number: int, assignment: Assignment) -> None:
        super().__init__(name=f"fake-rank-{number}", daemon=True)
        self._world = world
        self._assignment = assignment
        self.number = number
        self.batches: list[Batch] = []
        self.acknowledged = 0
        self.boundary = 0
        self.first = 0  # the iteration that it continues from
        self.saves = False
        self.stop_at: int | None = None
        self.stop_at_epoch: int | None = None
        self.epoch = 0.0
        self.interrupted = False
        self.next_execution = ""  # the execution that this one continues as
        self.call = ""

    @property
    def iteration(self) -> int:
        return self.first + self.boundary

    @property
    def has_exited(self) -> bool:
        """Whether a script's process has ended in order, and the supervisor has all of it."""
        ending = self.batches[-1].ending if self.batches and not self.is_alive() else None
        is_well = ending is not None and ending.state != "failed" and not ending.error
        return is_well and self.acknowledged == len(self.batches)

    def run(self) -> None:
        self.send_batch()
        ending: Ending | None
        try:
            space = self._world.spaces.setdefault(self.number, {})
            space.update(self._namespace())
            exec(compile(self._assignment.wish.source, "<cell>", "exec"), space)
            ending = Ending("finished", self.iteration)
        except _Stopped:
            if self.saves:
                self._snapshot()
            ending = Ending("stopped", self.iteration)
        except KeyboardInterrupt:
            ending = Ending("stopped", self.iteration, "interrupted")
        except _Killed:
            self._world.die(self.number)
            return
        except SystemExit as error:
            said = f"SystemExit: {error.code}"
            ending = Ending(
                "failed" if error.code else "finished", self.iteration, said, exited=True
            )
        except Exception as error:  # noqa: BLE001  # the outermost edge of a user's code
            text = traceback.format_exc()
            ending = Ending("failed", self.iteration, f"{type(error).__name__}: {error}", text)
        self.send_batch(ending=ending)

    def send_batch(
        self,
        samples: tuple[Sample, ...] = (),
        chunks: tuple[Chunk, ...] = (),
        ending: Ending | None = None,
        events: tuple[EventReport, ...] = (),
    ) -> None:
        batch = Batch(
            self._assignment.execution,
            self.number,
            len(self.batches) + 1,
            Samples.of(samples),
            chunks,
            Progress(self.iteration, epoch=self.epoch),
            ending,
            events,
        )
        self.batches.append(batch)
        self._world.send(batch)

    def obey(self, command: Command) -> None:
        match command:
            case Acknowledge(_, sequence, resend):
                self.acknowledged = max(self.acknowledged, sequence)
                for batch in self.batches[sequence:] if resend else ():
                    self._world.send(batch)
            case AskPulse():
                self._world.send(self.pulse())
            case StopAt(_, boundary, epoch):
                if epoch:
                    self.stop_at_epoch = boundary
                else:
                    self.stop_at = boundary
            case Interrupt():
                self.interrupted = True
            case ContinueAs(_, into):
                self.next_execution = into

    def pulse(self) -> Pulse:
        return Pulse(self._assignment.execution, self.number, self.boundary, 1.0, self.call)

    def _namespace(self) -> dict[str, Any]:
        return {
            "rank": self.number,
            "size": self._assignment.ranks,
            "report": self._report,
            "barrier": self._barrier,
            "print": self._print,
            "resume": self._resume,
            "snapshot": self._snapshot,
            "undivided": lambda kind: self._tell(IteratorUndivided(kind)),
            "attempt": lambda: self._assignment.attempt,
            "kill": self._kill,
            "spoil": lambda: self._world.spoiled.add(self.number),
            "sleep": self._sleep,
            **dict(self._assignment.wish.options.parameters),
        }

    def _report(self, *, epoch: float = 0.0, iteration: int = 0, **values: float) -> None:
        self.boundary += 1
        if iteration:
            self.first = iteration - self.boundary
        ends_epoch, self.epoch = int(epoch) > int(self.epoch), epoch
        now = time.time()
        if self._assignment.is_restart and self.boundary == 1 and self.number == 0:
            self._tell(TrainingResumed(self.iteration - 1))
        self.send_batch(tuple(Sample(n, self.iteration, now, float(v)) for n, v in values.items()))
        if self.stop_at is not None and self.boundary >= self.stop_at:
            raise _Stopped
        if self.stop_at_epoch is not None and ends_epoch and self.boundary >= self.stop_at_epoch:
            raise _Stopped
        self._check()

    def _snapshot(self) -> None:
        self.saves = True
        self._world.snapshots[self._assignment.wish.id] = self.iteration
        self._tell(SnapshotSaved(self.iteration, 0.01))

    def _resume(self) -> int:
        if self._assignment.continues:
            self._wait_at_edge()
        if self._assignment.resume:
            no_snapshot = {self._assignment.wish.id: 0} if self._assignment.begins_again else {}
            self.first = (no_snapshot | self._world.snapshots)[self._assignment.wish.id]
            self._tell(TrainingResumed(self.first))
        else:
            self._tell(TrainingBegun())
        return self.first

    def _wait_at_edge(self) -> None:
        self._barrier()
        self._tell(AtEdge())
        while not self.next_execution:
            self._sleep(0.01)
        self.send_batch(ending=Ending("finished", 0))
        run, attempt = run_and_attempt(self.next_execution)
        wish = replace(self._assignment.wish, id=run, replays="")
        self._assignment = replace(self._assignment, wish=wish, attempt=attempt)
        self.batches = []
        self._world.running[self.next_execution, self.number] = self
        self.send_batch()

    def _tell(self, event: Event) -> None:
        if self.number == 0:
            self.send_batch(events=(EventReport(event, time.time()),))

    def _print(self, *values: object) -> None:
        text = " ".join(map(str, values)) + "\n"
        self.send_batch(chunks=(Chunk("stdout", time.time(), text),))

    def _barrier(self) -> None:
        self.call = "barrier"
        passed = self._world.arrive(self._assignment.execution, self._assignment.ranks)
        while not passed.is_set():
            self._sleep(0.01)
        self.call = ""

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._check()
            time.sleep(0.005)

    def _kill(self) -> None:
        raise _Killed

    def _check(self) -> None:
        if self._world.deaths or self._world.ended:
            raise _Killed
        if self.interrupted:
            raise KeyboardInterrupt


class _World:
    def __init__(
        self,
        generation: int,
        world: World,
        inbox: queue.Queue[Delivery],
        snapshots: dict[str, int],
    ) -> None:
        self.snapshots = snapshots
        self.generation = generation
        self.world = world
        self.inbox = inbox
        self.running: dict[tuple[str, int], _Rank] = {}
        self.deaths: tuple[Death, ...] = ()
        self.ended = False
        self.seen = False
        self.script = ""  # the execution with which the ranks end
        self.sizes = range(world.size)
        self.spoiled: set[int] = set()  # ranks that cannot begin another run
        self.spaces: dict[int, dict[str, Any]] = {}  # what cells have left on each rank
        self._barriers: dict[str, tuple[int, threading.Event]] = {}
        self._lock = threading.Lock()

    def send(self, message: Batch | Pulse) -> None:
        self.inbox.put(Delivery(self.generation, message))

    def arrive(self, run: str, size: int) -> threading.Event:
        with self._lock:
            count, event = self._barriers.get(run, (0, threading.Event()))
            if count + 1 == size:
                event.set()
                self._barriers.pop(run, None)
            else:
                self._barriers[run] = (count + 1, event)
            return event

    def die(self, rank: int) -> None:
        with self._lock:
            if not self.ended and not self.deaths:
                self.deaths = (Death(rank, HOST, "killed by its own cell"),)

    def fact(self) -> WorldFact:
        state = WorldState.READY
        if not self.seen:
            state = WorldState.STARTING
        elif self.ended:
            alive = any(rank.is_alive() for rank in self.running.values())
            state = WorldState.BROKEN if alive else WorldState.ENDED
        elif self.deaths:
            state = WorldState.BROKEN
        elif self.script and all(self.running[self.script, n].has_exited for n in self.sizes):
            state = WorldState.ENDED
        ranks = () if state is WorldState.STARTING else self.ranks()
        return WorldFact(self.generation, self.world.size, state, ranks, self.deaths)

    def ranks(self) -> tuple[RankFact, ...]:
        return tuple(
            RankFact(self.generation, n, HOST, pid=0, engine=n) for n in range(self.world.size)
        )


class FakeCluster:
    """A cluster of threads; see ``interface.Cluster``.

    Args:
        fault_tolerant: Whether it reports an MPI with fault tolerance.

    Attributes:
        snapshots: The iteration of each run's newest snapshot.
    """

    connection_file = ""
    names = KNOWN | _NAMES

    def __init__(self, *, fault_tolerant: bool = True) -> None:
        self.fault_tolerant = fault_tolerant
        self.has_news = False
        self.snapshots: dict[str, int] = {}
        self._worlds: dict[int, _World] = {}
        self._inbox: queue.Queue[Delivery] = queue.Queue()
        self._recovered: dict[int, bool] = {}
        self._failed: list[FailedCall] = []

    is_lost = False

    def open(self, known: Mapping[int, Sequence[RankFact]]) -> None:
        """Do nothing: threads end with their process."""

    def start_world(self, generation: int, world: World) -> None:
        """Start a world; the second ``observe`` reports it as ready."""
        self._worlds[generation] = _World(generation, world, self._inbox, self.snapshots)

    def observe(self) -> tuple[WorldFact, ...]:
        """Return the facts, and drop worlds that have ended."""
        facts = tuple(world.fact() for world in self._worlds.values())
        for fact in facts:
            self._worlds[fact.generation].seen = True
            if fact.state is WorldState.ENDED:
                del self._worlds[fact.generation]
        return facts

    def submit(self, generation: int, assignment: Assignment) -> None:
        """Start a thread for each participating rank that has not begun the run yet."""
        world = self._worlds[generation]
        size = assignment.ranks or world.world.size
        for number in range(size):
            execution = assignment.execution
            if (execution, number) in world.running:
                continue
            if number in world.spoiled:
                self._failed.append(FailedCall(execution, number, "ImportError: spoiled"))
                continue
            if assignment.wish.is_process:
                world.script, world.sizes = execution, range(size)
            rank = _Rank(world, number, replace(assignment, ranks=size))
            world.running[execution, number] = rank
            rank.start()

    def failed_calls(self) -> tuple[FailedCall, ...]:
        """Return the ranks that could not begin a run."""
        failed, self._failed = tuple(self._failed), []
        return failed

    def warm_up(self, generation: int) -> None:
        """Do nothing: all modules are imported."""

    def recover(self, generation: int) -> None:
        """Succeed at once, if the cluster is fault tolerant."""
        self._recovered[generation] = self.fault_tolerant

    def recovered(self, generation: int) -> bool | None:
        """Return whether ``recover`` was requested and succeeded."""
        return self._recovered.pop(generation, None)

    def send(self, generation: int, ranks: Sequence[int], command: Command) -> None:
        """Execute ``command`` on the ranks that are in that run."""
        world = self._worlds.get(generation)
        for number in ranks:
            rank = world.running.get((command.run, number)) if world else None
            if rank is not None:
                rank.obey(command)

    def receive(self, seconds: float) -> list[Delivery]:
        """Return what the ranks sent."""
        messages: list[Delivery] = []
        try:
            messages.append(self._inbox.get(timeout=seconds))
            while True:
                messages.append(self._inbox.get_nowait())
        except queue.Empty:
            return messages

    def wake_by(self, descriptor: int) -> bool:
        """Return false: it waits for messages alone."""
        return False

    def end_world(self, generation: int) -> None:
        """End all ranks of a world."""
        if generation in self._worlds:
            self._worlds[generation].ended = True
            self._worlds[generation].seen = True

    def close(self) -> None:
        """End all worlds, and wait for their threads."""
        for world in self._worlds.values():
            world.ended = True
            for rank in world.running.values():
                rank.join(5)
        self._worlds.clear()
