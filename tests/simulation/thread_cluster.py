"""A cluster whose ranks are threads in this process.

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
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.cluster import SimulatedCluster, SimulatedWorld
from workbench.core.cluster.generation import Death, FailedCall, WorldFact
from workbench.core.recovery.replay import KNOWN
from workbench.core.run.model import Assignment
from workbench.core.run.rank_protocol import (
    AskPulse,
    AtEdge,
    Batch,
    Chunk,
    Command,
    ContinueAs,
    Delivery,
    Ending,
    Event,
    EventReport,
    Interrupt,
    IteratorUndivided,
    Progress,
    Pulse,
    Sample,
    Samples,
    SnapshotSaved,
    StopAt,
    TrainingBegun,
    TrainingResumed,
)
from workbench.core.run_id import run_and_attempt
from workbench.core.world.world import World

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
        execution = self._assignment.execution
        batch = self._world.sent[execution, self.number].add(
            execution,
            self.number,
            samples=Samples.of(samples),
            chunks=chunks,
            progress=Progress(self.iteration, epoch=self.epoch),
            ending=ending,
            events=events,
        )
        self._world.send(batch)

    def obey(self, command: Command) -> None:
        match command:
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


class _World(SimulatedWorld):
    def __init__(
        self,
        generation: int,
        world: World,
        post: Callable[[int, Batch | Pulse], None],
        snapshots: dict[str, int],
    ) -> None:
        super().__init__(generation, world)
        self.snapshots = snapshots
        self._post = post
        self.running: dict[tuple[str, int], _Rank] = {}
        self.ended = False
        self.seen = False
        self.script = ""  # the execution with which the ranks end
        self.sizes = range(world.size)
        self.spoiled: set[int] = set()  # ranks that cannot begin another run
        self.spaces: dict[int, dict[str, Any]] = {}  # what cells have left on each rank
        self._barriers: dict[str, tuple[int, threading.Event]] = {}
        self._lock = threading.Lock()

    @property
    def is_ready(self) -> bool:
        """Whether it was observed before."""
        return self.seen

    @property
    def is_ending(self) -> bool:
        """Whether the supervisor has ended it."""
        return self.ended

    @property
    def has_ended(self) -> bool:
        """Whether no thread is left."""
        return not any(rank.is_alive() for rank in self.running.values())

    @property
    def has_exited(self) -> bool:
        """Whether the threads have ended with their script, and the supervisor knows how."""
        keys = [(self.script, number) for number in self.sizes] if self.script else []
        return bool(keys) and all(
            self.sent[key].is_over and not self.running[key].is_alive() for key in keys
        )

    def place(self, rank: int) -> tuple[str, str]:
        """Return the only host."""
        return HOST, "localhost"

    def send(self, message: Batch | Pulse) -> None:
        self._post(self.generation, message)

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


class ThreadCluster(SimulatedCluster):
    """A cluster of threads.

    Args:
        fault_tolerant: Whether it reports an MPI with fault tolerance.

    Attributes:
        snapshots: The iteration of each run's newest snapshot.
    """

    names = KNOWN | _NAMES

    def __init__(self, *, fault_tolerant: bool = True) -> None:
        super().__init__(fault_tolerant=fault_tolerant)
        self.snapshots: dict[str, int] = {}
        self._inbox: queue.Queue[Delivery] = queue.Queue()

    def start_world(self, generation: int, world: World) -> None:
        """Start a world; the second ``observe`` reports it as ready."""
        self.worlds[generation] = _World(generation, world, self.post, self.snapshots)

    def observe(self) -> tuple[WorldFact, ...]:
        """Return the facts; a world that starts is ready at the next call."""
        worlds = [*self.worlds.values()]
        facts = super().observe()
        for world in worlds:
            world.seen = True
        return facts

    def submit(self, generation: int, assignment: Assignment) -> None:
        """Start a thread for each participating rank that has not begun the run yet."""
        world = self.worlds[generation]
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

    def post(self, generation: int, message: Batch | Pulse) -> None:
        """Send a message of a rank to the supervisor."""
        self._inbox.put(Delivery(generation, message))

    def obey(self, world: _World, ranks: Sequence[int], command: Command) -> None:
        """Execute ``command`` on the ranks that are in that run."""
        for number in ranks:
            rank = world.running.get((command.run, number))
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

    def end_world(self, generation: int) -> None:
        """End all ranks of a world."""
        if generation in self.worlds:
            self.worlds[generation].ended = True
            self.worlds[generation].seen = True

    def close(self) -> None:
        """End all worlds, and wait for their threads."""
        for world in self.worlds.values():
            world.ended = True
            for rank in world.running.values():
                rank.join(5)
        self.worlds.clear()
