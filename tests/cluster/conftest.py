"""Fixtures: the fake cluster, and real mpiexec with real engines, here and on several hosts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.rehearsal.conftest import possible
from tests.rehearsal.hosts import Hosts, RehearsalHost
from tests.simulation.thread_cluster import ThreadCluster
from workbench.cloud.hosts.ssh import SshSession, open_session
from workbench.cluster.interface import Cluster
from workbench.cluster.mpi_cluster import MpiCluster
from workbench.cluster.remote_hosts import Login
from workbench.core.cluster.generation import WorldFact, WorldState
from workbench.core.run.model import Assignment, RunKind, RunWish
from workbench.core.run.rank_protocol import Acknowledge, Batch, Message, Pulse
from workbench.core.world.world import Host, World

__all__ = ["possible"]
PROGRAMS = Path(__file__).parent / "programs"
PRELUDE = (PROGRAMS / "prelude.py").read_text()
FAKE_PRELUDE = (PROGRAMS / "fake_prelude.py").read_text()
DEADLINE = 180.0  # a world of two ranks has taken 55 s to start on two busy cores
T = TypeVar("T")


class Bench:
    """A cluster under test, with what tests do to it again and again."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        prelude: str,
        carriers: Callable[[int], tuple[Host, ...]] = lambda size: (Host("localhost", size),),
    ) -> None:
        self.cluster = cluster
        self._carriers = carriers
        self.messages: list[Message] = []
        self._folder = folder
        self._prelude = prelude
        self._generation = 0
        self._submitted: dict[str, tuple[int, int]] = {}
        self._shared = 0

    def begin(self, size: int) -> int:
        """Start a world without waiting for it, and return its generation."""
        self._generation += 1
        world = World(self._carriers(size), size)
        self.cluster.start_world(self._generation, world)
        return self._generation

    def ready(self, size: int) -> int:
        """Start a world, wait until it is ready, and return its generation."""
        generation = self.begin(size)
        self.world_until(generation, lambda fact: fact.state is WorldState.READY)
        return generation

    @contextlib.contextmanager
    def shared(self) -> Iterator[int]:
        """Provide the world of two ranks that several tests share; end it if it is left in use.

        A test that fails midway leaves a run behind, which would hold the next test's run up.
        """
        self._shared = self._shared or self.ready(2)
        earlier = len(self._submitted)
        yield self._shared
        runs = [*self._submitted.items()][earlier:]
        mine = [(run, ranks) for run, (world, ranks) in runs if world == self._shared]
        is_free = all(len(self.ended(run)) == (ranks or 2) for run, ranks in mine)
        if not is_free or self._states().get(self._shared) is not WorldState.READY:
            self.cluster.end_world(self._shared)
            self.until(lambda: self._shared not in self._states() or None)
            self._shared = 0

    def _states(self) -> dict[int, WorldState]:
        return {fact.generation: fact.state for fact in self.cluster.observe()}

    def world_until(self, generation: int, wanted: Callable[[WorldFact], bool]) -> WorldFact:
        """Observe until the world is as wanted, and return its fact."""

        def look() -> WorldFact | None:
            facts = {fact.generation: fact for fact in self.cluster.observe()}
            fact = facts.get(generation)
            assert fact is None or fact.state is not WorldState.ENDED or wanted(fact), fact
            return fact if fact is not None and wanted(fact) else None

        return self.until(look)

    def submit(
        self, generation: int, source: str, ranks: int = 0, folder: str = "", times: int = 1
    ) -> str:
        """Give the world a cell, several times if need be, and return the run's id."""
        run = f"260101-{len(self._submitted) + 1:06d}-test"
        self._submitted[run] = generation, ranks
        source = self._prelude + source
        wish = RunWish(run, "", RunKind.CELL, source, folder=folder)
        submitted = Assignment(wish, ranks=ranks, directory=str(self._folder / run))
        for _ in range(times):
            self.cluster.submit(generation, submitted)
        return run

    def batches_until_ended(self, run: str, size: int) -> dict[int, list[Batch]]:
        """Receive and acknowledge until all ranks of the run have left; batches by rank."""

        def look() -> dict[int, list[Batch]] | None:
            found = self.batches(run)
            for rank, batches in found.items():  # ranks send no more than so much ahead
                for generation in range(1, self._generation + 1):
                    self.cluster.send(generation, [rank], Acknowledge(run, batches[-1].sequence))
            return found if len(self.ended(run)) == size else None

        return self.until(look)

    def batches(self, run: str) -> dict[int, list[Batch]]:
        """Return the run's batches received so far, by rank, in order, each once."""
        by_rank: dict[int, dict[int, Batch]] = {}
        for message in self.messages:
            if isinstance(message, Batch) and message.run == run:
                by_rank.setdefault(message.rank, {})[message.sequence] = message
        return {n: [found[s] for s in sorted(found)] for n, found in by_rank.items()}

    def reporting(self, run: str) -> set[int]:
        """Return the ranks that sent a value."""
        return {n for n, found in self.batches(run).items() if any(b.samples for b in found)}

    def ended(self, run: str) -> set[int]:
        """Return the ranks that have reported how they left the run."""
        return {n for n, found in self.batches(run).items() if any(b.ending for b in found)}

    def pulses(self, run: str) -> list[Pulse]:
        """Return the run's pulses received so far."""
        return [m for m in self.messages if isinstance(m, Pulse) and m.run == run]

    def until(self, look: Callable[[], T | None]) -> T:
        """Receive until ``look`` finds something."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            self.messages += [one.message for one in self.cluster.receive(0.02)]
            if (found := look()) is not None:
                return found
        raise AssertionError(f"nothing came of it within {DEADLINE} s")


class Several:
    """A cluster on hosts of their own, each reached by a session.

    Args:
        here: Whether this machine is the first host of every world.
    """

    def __init__(
        self, hosts: Hosts, folder: Path, *, here: bool = False, patience: float = 60
    ) -> None:
        self.hosts = hosts
        self.here = here
        self.closed = False
        self.sessions = {host.address: self.log_in(host) for host in hosts}
        self.cluster = MpiCluster(folder, self.reach, self.login, lambda: patience)
        self.folder = folder

    def log_in(self, host: RehearsalHost) -> SshSession:
        return open_session(Host(host.address, 1, "root"), [host.known_hosts], self.hosts.key)

    def reach(self, host: Host) -> SshSession | None:
        return None if host.address == self.hosts.address else self.sessions[host.address]

    def login(self, hosts: object) -> Login:
        return Login(tuple(host.known_hosts for host in self.hosts), self.hosts.key)

    def carriers(self, size: int) -> tuple[Host, ...]:
        """Give each host one rank in turn, until there is a host for each."""
        addresses = [self.hosts.address] * self.here + [host.address for host in self.hosts]
        used = addresses[:size]
        more = size - len(used)
        return tuple(Host(address, 1 + (n < more)) for n, address in enumerate(used))

    def bench(self) -> Bench:
        self.cluster.open({})
        return Bench(self.cluster, self.folder, PRELUDE, self.carriers)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.cluster.close()
        for session in self.sessions.values():
            session.close()

    def left(self, *, closed: bool = False) -> list[str]:
        """Return what runs on the hosts and is not theirs.

        Args:
            closed: Whether also what serves the cluster has to be gone.
        """
        theirs = ("/init.py", "sshd", "ps axww", "workbench.node.agent", "kill -s")
        if not closed:
            theirs += ("workbench.node.fork_server",)
        return [
            f"{host.name}: {line.strip()}"
            for host in self.hosts
            for line in host.run("ps", "axww", "-o", "stat=,args=").splitlines()
            if not line.startswith("Z") and not any(text in line for text in theirs)
        ]


@pytest.fixture(
    scope="module",
    params=[
        "fake",
        pytest.param("real", marks=[pytest.mark.mpi, pytest.mark.either_mpi]),
        pytest.param("hosts", marks=[pytest.mark.mpi, pytest.mark.root]),
    ],
)
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("cluster")
    if request.param == "hosts":
        request.getfixturevalue("possible")
        with Hosts(3) as hosts, contextlib.closing(Several(hosts, folder)) as several:
            yield several.bench()
        return
    cluster: Cluster = ThreadCluster() if request.param == "fake" else MpiCluster(folder)
    cluster.open({})
    yield Bench(cluster, folder, FAKE_PRELUDE if request.param == "fake" else PRELUDE)
    cluster.close()
