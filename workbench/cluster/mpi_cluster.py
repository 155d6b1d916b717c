"""One ipyparallel controller and its MPI worlds, run by the supervisor."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from hashlib import sha256
from pathlib import Path
from typing import Any

import ipyparallel as ipp

from workbench.cluster import engine_calls
from workbench.cluster.client import APART_NBYTES, connect_client
from workbench.cluster.controller_process import (
    find_controller,
    is_on_record,
    kill_group,
    start_controller,
)
from workbench.cluster.daemon_sockets import close_below as close_daemons_below
from workbench.cluster.launcher import SILENCE_SECONDS
from workbench.cluster.leftovers import LeftoverProcesses, left_marks, mark_of
from workbench.cluster.mpi_installation import Mpi, find_mpi
from workbench.cluster.mpi_world import LocalMpiexec, MpiWorld, WorldHandles
from workbench.cluster.multihost import MultihostWorlds, engine_ports, folder_of
from workbench.cluster.process_monitor import LocalProcessMonitor, ProcessEnds
from workbench.cluster.rank_router import RankRouter
from workbench.cluster.remote_hosts import Login, Mark, Reach, RemoteHosts, remove
from workbench.core.cluster.generation import FailedCall, WorldFact, WorldState
from workbench.core.messages import Count, Pid, decode
from workbench.core.quote import one_line
from workbench.core.recovery.replay import KNOWN
from workbench.core.run.model import Assignment
from workbench.core.run.rank_protocol import ERROR_CHARACTERS, Command, Delivery, shorten_middle
from workbench.core.world.remote import PATIENCE_SECONDS, Session
from workbench.core.world.world import Host, RankFact, World
from workbench.errors import ClusterError, MachineError
from workbench.node.warm_ranks import WarmRanks, forks_of

log = logging.getLogger("workbench.supervisor")

CONTROLLER_SECONDS = 30
WAIT_SECONDS = 0.2
STUCK_SECONDS = 60.0  # a world that was not ready by then may have met a process that hangs
ENDING_SECONDS = 10.0
UNHEARD_SECONDS = 15.0  # imports on a busy machine take most of it
# An engine's generation, the process of mpiexec's daemon, and the one that it started.
LAUNCHED = tuple[Count, Pid, Pid]
# ipyparallel's own error for an engine that is gone.
ENGINE_DIED = "EngineError"


class MpiCluster:
    """A cluster on MPI; see ``interface.Cluster``.

    Args:
        folder: The folder for profile, logs and secrets of this cluster.
        reach: Looks up the session with a host; by default every host is this machine.
        login: Returns what a world's first host needs to log in to its hosts.
        patience: Returns the seconds that ranks on other hosts keep running without a supervisor.
        mark: Identifies the processes of each host, where hosts are simulated.
        forks: The fork server, if it was started before.
    """

    def __init__(
        self,
        folder: Path,
        reach: Reach = lambda host: None,
        login: Callable[[Sequence[Host]], Login] = lambda hosts: Login(),
        patience: Callable[[], float] = lambda: PATIENCE_SECONDS,
        mark: Mark = lambda host: "",
        forks: WarmRanks | None = None,
    ) -> None:
        self.meanwhile: Callable[[], None] = lambda: None  # called while a controller is waited for
        self.is_lost = False
        self._folder, self._profile = folder, folder / "profile"
        self._router = RankRouter(folder / "rank_router.json")
        self._nodes = RemoteHosts(reach, patience)
        self._spreading = MultihostWorlds(self._nodes, login, folder / "worlds.json", patience)
        self._patience = patience
        self._mark = mark
        self._forks = forks or forks_of(folder)
        self._ends = ProcessEnds(self._router.wake_by, self._router.sleep_through)
        self._monitor = LocalProcessMonitor(self._forks, self._ends)
        self.has_news = False
        self._cluster: Any = None
        self._client: Any = None
        self._worlds: dict[int, MpiWorld] = {}
        self._orphans: dict[str, LeftoverProcesses] = {}  # by mark
        self._asked: dict[tuple[int, str], Any] = {}  # by id and name
        self._calls: list[tuple[str, int, Any]] = []  # run, rank and the engine's result
        self._mpi: Mpi | None = None
        self._is_stuck = False

    @property
    def connection_file(self) -> str:
        """Path of the clients' connection file; empty without a controller."""
        if self._cluster is None:
            return ""
        return str(self._profile / "security" / "ipcontroller-client.json")

    @property
    def names(self) -> frozenset[str]:
        """The names of Python and of IPython."""
        return KNOWN

    @property
    def fault_tolerant(self) -> bool:
        """Whether this MPI has ULFM."""
        if self._mpi is None:
            self._mpi = find_mpi()
        return self._mpi.fault_tolerant

    def open(self, known: Mapping[int, Sequence[RankFact]]) -> None:
        """Resume a previous supervisor's controller and worlds, if there are any."""
        self._router.open()
        is_recorded = is_on_record(self._profile)
        self._cluster = find_controller(self._profile)
        self.is_lost = is_recorded and self._cluster is None
        # Its worlds end with a controller that is replaced, so it is asked twice.
        if self._cluster is not None and not any(self._connect() for _ in range(2)):
            self._drop_controller()
        if self._cluster is None:
            self._end_orphans()
            if self._forks.path:  # ranks are wanted here; it starts while their modules load
                with contextlib.suppress(ClusterError):  # the first world's start reports that
                    self._cluster = self._start_controller(0.0)
            return
        for key, engines in self._cluster.engines.items():
            generation = int(key[1:])
            self._take_up(generation, engines.n, self._local(engines, generation), known)
        for record, footing in self._spreading.take_up(self._ports()):
            self._take_up(record.generation, record.world.size, footing, known)
        self._end_orphans()

    def _end_orphans(self) -> None:
        """End what is left of worlds whose mpiexec ended while no supervisor ran."""
        known = {mark_of(self._key(), generation) for generation in self._worlds}
        for mark in left_marks(self._key()):
            if mark not in known:
                self._orphans[mark] = LeftoverProcesses(mark)

    def start_world(self, generation: int, world: World) -> None:
        """Start one mpiexec beside the running ones, and the controller before the first."""
        spread = self._nodes.any_beyond(world.hosts)
        is_stuck = self._is_stuck and not any(one.ranks for one in self._worlds.values())
        if is_stuck:
            log.warning("The controller and the fork server are replaced: one of them may hang.")
            self._forks.replace()
            self._is_stuck = False
        if is_stuck or not self._has_controller():
            self._drop_controller()
        if self._client is None:
            self._open_client(self._patience() if spread else 0.0)
        if spread:
            footing = self._spreading.start(
                generation, world, find_mpi(), self._connection(), self._ports(), self._key()
            )
        else:
            footing = self._local(self._start_here(generation, world), generation)
        self._worlds[generation] = MpiWorld(generation, world.size, footing)

    def observe(self) -> tuple[WorldFact, ...]:
        """Examine every world, and continue those that are starting or ending."""
        self.has_news = False
        self._forks.look()
        self._nodes.look()
        if self._has_controller():
            self._assign_engines()
        else:
            self._drop_controller()
        now = time.monotonic()
        for mark in [mark for mark, one in self._orphans.items() if one.press(now)]:
            del self._orphans[mark]
        facts = []
        for world in [*self._worlds.values()]:
            fact = self._look(world)
            facts.append(fact)
            if fact.state is WorldState.ENDED:
                self._forget(world)
        return tuple(facts)

    def submit(self, generation: int, assignment: Assignment) -> None:
        """Queue the assignment on the engines of the participating ranks; the others hear of it."""
        engines = self._in_rank_order(generation)
        ranks = assignment.ranks or len(engines)
        if engines[ranks:]:
            self._apply(engines[ranks:], engine_calls.call, "pass_over", assignment.wish.is_process)
        for rank, engine in enumerate(engines[:ranks]):
            answer = self._apply([engine], engine_calls.call, "run", assignment)
            self._calls += [] if answer is None else [(assignment.execution, rank, answer)]

    def failed_calls(self) -> tuple[FailedCall, ...]:
        """Return the engines that answered with an error, and drop all that have answered."""
        answered: list[tuple[str, int, Any]] = []
        waiting: list[tuple[str, int, Any]] = []
        for call in self._calls:
            (answered if call[-1].ready() else waiting).append(call)
        self._calls = waiting
        failed = [(run, rank, call.exception()) for run, rank, call in answered]
        return tuple(
            FailedCall(
                run, rank, shorten_middle(": ".join(_name_and_value(error)), ERROR_CHARACTERS)
            )
            for run, rank, error in failed
            if error is not None and not _is_engine_gone(error)  # its world reports that
        )

    def warm_up(self, generation: int) -> None:
        """Queue the imports of a training on all engines of a world."""
        self._apply(self._in_rank_order(generation), engine_calls.call, "warm_up")

    def recover(self, generation: int) -> None:
        """Queue the recovery on all engines of a world."""
        engines = self._in_rank_order(generation)
        self._worlds[generation].recovering = self._apply(engines, engine_calls.call, "recover")

    def recovered(self, generation: int) -> bool | None:
        """Return whether the recovery succeeded."""
        result = self._worlds[generation].recovering
        if result is None or not result.ready():
            return None
        return bool(result.successful() and all(data.strip() == b"true" for data in result.get()))

    def send(self, generation: int, ranks: Sequence[int], command: Command) -> None:
        """Send a command through the router."""
        self._router.send(generation, ranks, command)

    def receive(self, seconds: float) -> list[Delivery]:
        """Return the messages of the ranks."""
        messages = self._router.receive(seconds)
        self.has_news |= self._ends.take(self._router.readable)
        return messages

    def wake_by(self, descriptor: int) -> bool:
        """Let a descriptor that can be read end the wait for messages."""
        self._router.wake_by(descriptor)
        return True

    def end_world(self, generation: int) -> None:
        """Send mpiexec a signal to end; ``observe`` then uses force if necessary."""
        world = self._worlds.get(generation)
        if world is not None:
            self._spreading.give_up(generation)
            world.end()

    def leave(self, session: Session) -> None:
        """Remove this cluster's files from a node that leaves it; waits for the node."""
        self._nodes.end_forks(session)
        remove(session, folder_of(self._key()))

    def close(self) -> None:
        """End all worlds, then the controller."""
        for generation in self._worlds:
            self.end_world(generation)
        deadline = time.monotonic() + ENDING_SECONDS
        while (self._worlds or self._orphans) and time.monotonic() < deadline:
            self.observe()
            time.sleep(0.05)
        self._forks.close()
        if self._client is not None:
            self._client.close()
        if self._cluster is not None:
            controller = self._cluster.controller.pid
            with contextlib.suppress(OSError):  # its folder may have been removed
                self._cluster.stop_cluster_sync()
            kill_group(controller)
        self._nodes.end_forks()
        self._spreading.close()
        self._nodes.close()
        self._router.close(forget=True)

    # -- the controller

    def _open_client(self, patience: float) -> None:
        """Connect to the controller, which is started if there is none; replace one that hangs.

        Raises:
            ClusterError: Two in turn did not answer.
        """
        for _ in range(2):
            if self._cluster is None:
                self._cluster = self._start_controller(patience)
            if self._connect():
                return
            self._drop_controller()
        raise ClusterError(
            "The controller does not answer", f"see its log in {self._profile / 'log'}."
        )

    def _connect(self) -> bool:
        """Connect to the controller; return whether it has answered."""
        try:
            with ThreadPoolExecutor(1, "connect") as pool:
                client = pool.submit(connect_client, self._cluster, CONTROLLER_SECONDS)
                while not wait([client], WAIT_SECONDS).done:
                    self.meanwhile()
            self._client = client.result()
        except (TimeoutError, RuntimeError) as error:
            log.warning("The controller does not answer (%s).", one_line(str(error)))
            return False
        return True

    def _start_controller(self, patience: float) -> Any:
        find_mpi()  # raises its own error before anything is started
        return start_controller(self._profile, patience or SILENCE_SECONDS)

    def _has_controller(self) -> bool:
        return self._cluster is not None and self._monitor.is_alive(self._cluster.controller.pid)

    def _drop_controller(self) -> None:
        """Kill what is left of a lost controller; the next world starts another one."""
        if self._cluster is None:
            return
        for world in self._worlds.values():
            if not world.is_ending:
                world.reason = "the ipyparallel controller is gone"
                self.end_world(world.generation)
        kill_group(self._cluster.controller.pid)
        if self._client is not None:
            self._client.close()
        self._cluster = self._client = None
        self._asked.clear()
        self._calls.clear()

    # -- the worlds

    def _start_here(self, generation: int, world: World) -> Any:
        marks = {host.address: self._mark(host) for host in world.hosts}
        self._forks.start()
        self._cluster.start_engines_sync(
            n=world.size,
            engine_set_id=f"g{generation}",
            # All hosts are this machine, whatever their names and even if it simulates several.
            hosts=[["localhost", world.slots]],
            marks=[marks[address] for address in world.placement] if all(marks.values()) else [],
            link=world.link,
            generation=generation,
            mark=mark_of(self._key(), generation),
            nanny=False,
            forks=self._forks.path,
        )
        return self._cluster.engines[f"g{generation}"]

    def _local(self, launcher: Any, generation: int) -> Future[WorldHandles]:
        footing: Future[WorldHandles] = Future()
        mpiexec = LocalMpiexec(launcher, self._monitor)
        crashes = str(self._folder / "crashes")
        mark = mark_of(self._key(), generation)
        footing.set_result(WorldHandles(mpiexec, (self._monitor,), crashes, mark=mark))
        return footing

    def _take_up(
        self,
        generation: int,
        size: int,
        footing: Future[WorldHandles],
        known: Mapping[int, Sequence[RankFact]],
    ) -> None:
        world = MpiWorld(generation, size, footing)
        world.engines = {rank.engine for rank in known.get(generation, ())}
        world.adopt(known.get(generation, ()))
        self._worlds[generation] = world

    def _connection(self) -> str:
        path = self._profile / "security" / "ipcontroller-engine.json"
        return path.read_text(encoding="utf-8")

    def _ports(self) -> tuple[int, ...]:
        """Return the ports of this machine's loopback that every rank has to reach."""
        return (*engine_ports(self._connection()), int(self._router.endpoint.rpartition(":")[2]))

    def _key(self) -> str:
        """Return the name of this cluster's folders on nodes, and in shared memory.

        It begins with the cluster's, so that what is left there can be attributed; another home, or
        another container with the same path, has another key.
        """
        key = sha256(self._router.server_key.encode()).hexdigest()[:12]
        return f"{self._folder.name}-{key}"

    def _assign_engines(self) -> None:
        """Ask every new engine for its generation: the order of ids is not reliable."""
        starting = [world for world in self._worlds.values() if not world.ranks]
        if not starting:
            return
        # Ids are given out again, also while the answer of a dead engine is still awaited.
        present = self._client.engines()
        self._asked = {
            one: answer
            for one, answer in self._asked.items()
            if one in present and not _is_unheard(answer)
        }
        for one in present - self._asked.keys():
            answer = self._apply(one[:1], engine_calls.generation)
            self._asked |= {} if answer is None else {one: answer}
        for (engine, name), answer in [*self._asked.items()]:
            if answer is None or not answer.ready():
                continue
            self._asked[engine, name] = None
            try:
                generation, parent, started = decode(LAUNCHED, answer.get()[0])
            except (ipp.RemoteError, ipp.CompositeError, MachineError) as error:
                if not _is_engine_gone(error):
                    log.warning("ignored engine %d: %s", engine, one_line(str(error)))
                continue
            world = self._worlds.get(generation)
            if world is None:  # its supervisor was killed before it was on record
                self._sweep(generation)
            else:
                world.engines.add(engine)
                world.launched[engine] = started
                if world.generation in self._spreading:
                    world.parents[engine] = parent

    def _sweep(self, generation: int) -> None:
        """End what is left on this machine of a world that is not followed."""
        mark = mark_of(self._key(), generation)
        self._orphans.setdefault(mark, LeftoverProcesses(mark))

    def _look(self, world: MpiWorld) -> WorldFact:
        try:
            state = world.look()
            if state is None and not world.ranks:
                self._join(world)
        except Exception as error:  # what one node says must end no other world
            if not world.is_ending:
                log.exception("World %d is ended.", world.generation)
            state = world.give_up(f"the supervisor could not follow it: {one_line(repr(error))}")
            if state is WorldState.ENDED:
                self._sweep(world.generation)
        return world.fact(state or (WorldState.READY if world.ranks else WorldState.STARTING))

    def _join(self, world: MpiWorld) -> None:
        footing = world.started
        if footing is None or len(world.engines) < world.size:
            return
        if world.joining is None or _is_unheard(world.joining):
            self._close_daemons(world)
            world.joining = self._apply(
                sorted(world.engines),
                engine_calls.call,
                "join",
                world.generation,
                self._router.endpoint,
                self._router.server_key,
                self.fault_tolerant,
                footing.crashes,
            )
        elif world.joining.ready() and not world.is_ending:
            try:
                self._warn_of_open_daemons(world)
                ranks = [decode(RankFact, data) for data in world.joining.get()]
                world.adopt(world.check_ranks(sorted(world.engines), ranks), joined=True)
                if world.generation in self._spreading:
                    self._spreading.forget_keys(world.generation)
                close_below(self._folder)
            except (ipp.RemoteError, ipp.CompositeError, MachineError) as error:
                world.reason = f"its ranks could not join ({one_line(str(error))})"
                world.end()

    def _close_daemons(self, world: MpiWorld) -> None:
        """Let no one connect to a world's daemons any more: all its ranks are connected."""
        if world.generation in self._spreading:
            world.closing = self._apply(sorted(world.engines), engine_calls.close_daemons)
        else:
            close_daemons_below(self._cluster.engines[f"g{world.generation}"].pid)

    def _warn_of_open_daemons(self, world: MpiWorld) -> None:
        if world.closing is None or not world.closing.ready():
            return
        for engine, data in zip(sorted(world.engines), world.closing.get(), strict=True):
            if warning := decode(str, data):
                log.warning(
                    "Engine %d: %s", engine, one_line(shorten_middle(warning, ERROR_CHARACTERS))
                )

    def _forget(self, world: MpiWorld) -> None:
        del self._worlds[world.generation]
        if not world.ranks:
            self._is_stuck |= time.monotonic() - world.began > STUCK_SECONDS
        if self._cluster is not None:
            self._cluster.engines.pop(f"g{world.generation}", None)
            self._cluster.update_cluster_file()
            close_below(self._folder)
        for engine in world.engines:
            if world.generation in self._spreading and self._client is not None:
                self._unregister(engine)
        world.remove_crashes()
        self._spreading.forget(world.generation)

    def _unregister(self, engine: int) -> None:
        """Unregister an engine, which the controller would otherwise wait for."""
        self._client._send(
            self._client._query_stream, "unregistration_request", content={"id": engine}
        )

    def _in_rank_order(self, generation: int) -> list[int]:
        return [rank.engine for rank in self._worlds[generation].ranks]

    def _apply(self, engines: Sequence[int], function: Any, *arguments: Any) -> Any:
        """Call a function on engines; None if one of them is gone, which its world reports."""
        try:
            view = self._client.direct_view(list(engines))
        except (KeyError, IndexError):  # the client's thread may remove one at any moment
            return None
        return view.apply_async(function, APART_NBYTES, *arguments)


def _is_unheard(answer: Any) -> bool:
    """Return whether a call may not have come to its engines: then it is made again.

    The controller drops requests to an engine that is just connecting, without an error. Engines
    answer a repeated call as the first one.
    """
    return answer is not None and not answer.ready() and answer.elapsed > UNHEARD_SECONDS


def _is_engine_gone(error: BaseException) -> bool:
    return _name_and_value(error)[0] == ENGINE_DIED


def _name_and_value(error: BaseException) -> tuple[str, str]:
    """Return the class name and the message of an engine's error."""
    if errors := getattr(error, "elist", None):  # of a call to several engines
        return str(errors[0][0]), str(errors[0][1])
    if isinstance(error, ipp.RemoteError):
        return str(error.ename), str(error.evalue)
    return type(error).__name__, str(error)


def close_below(folder: Path) -> None:
    """Restrict ``folder`` and everything below it to the owner.

    The umask is not changed: ranks inherit it, and it is for the files of the user's program.
    """
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):  # it was removed meanwhile
                found = os.lstat(path)
                if found.st_mode & 0o077 and not stat.S_ISLNK(found.st_mode):
                    os.chmod(path, found.st_mode & 0o7700)
