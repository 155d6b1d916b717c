"""One ipyparallel controller and its MPI worlds, kept by the supervisor."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ipyparallel as ipp
import psutil
from ipyparallel.cluster.launcher import NotRunning

from workbench.cluster.ending import cause_of_end, named_processes, stack_of_crash
from workbench.cluster.launcher import (
    CurveControllerLauncher,
    WorldEngineSetLauncher,
)
from workbench.cluster.mailbox import Mailbox
from workbench.cluster.mpi import Mpi, find_mpi
from workbench.core.cluster import RankFact
from workbench.core.generation import Death, WorldFact, WorldState
from workbench.core.report import Command, Message
from workbench.core.run import Assignment
from workbench.core.world import World
from workbench.errors import ClusterError

CONTROLLER_SECONDS = 30
KILL_SECONDS = 2.0
LAST_WORDS_SECONDS = 0.7
ENDING_SECONDS = 10.0


@dataclass
class _World:
    """What this process holds of one world."""

    generation: int
    size: int
    launcher: Any
    engines: set[int] = field(default_factory=set)
    joining: Any = None
    recovering: Any = None
    ranks: tuple[RankFact, ...] = ()
    ending_since: float = 0.0
    dying_since: float = 0.0
    deaths: tuple[Death, ...] = ()
    reason: str = ""


class MpiCluster:
    """A cluster on MPI; see ``interface.Cluster``.

    Args:
        folder: Where profile, logs and secrets of this cluster are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mailbox = Mailbox(folder / "mailbox.json")
        self._cluster: Any = None
        self._client: Any = None
        self._worlds: dict[int, _World] = {}
        self._asked: dict[int, Any] = {}
        self._mpi: Mpi | None = None

    @property
    def connection_file(self) -> str:
        """Path of the client's connection file; empty while there is no controller."""
        if self._cluster is None:
            return ""
        return str(self._folder / "profile" / "security" / "ipcontroller-client.json")

    @property
    def fault_tolerant(self) -> bool:
        """Whether this MPI has ULFM."""
        if self._mpi is None:
            self._mpi = find_mpi()
        return self._mpi.fault_tolerant

    def open(self, known: Mapping[int, Sequence[RankFact]]) -> None:
        """Take up a predecessor's controller and worlds, if there are any."""
        self._mailbox.open()
        self._cluster = self._taken_up()
        if self._cluster is None:
            return
        self._client = self._cluster.connect_client_sync(timeout=CONTROLLER_SECONDS)
        for key, engines in self._cluster.engines.items():
            generation = int(key[1:])
            ranks = tuple(known.get(generation, ()))
            world = _World(generation, engines.n, engines, ranks=ranks)
            world.engines = {rank.engine for rank in world.ranks}
            self._worlds[generation] = world

    def start_world(self, generation: int, world: World) -> None:
        """Start one mpiexec beside those that run, and the controller before the first."""
        if self._cluster is None or not self._has_controller():
            self._drop_controller()
            self._cluster = self._started()
            self._client = self._cluster.connect_client_sync(timeout=CONTROLLER_SECONDS)
        hosts = [[host.address, host.slots] for host in world.hosts]
        self._cluster.start_engines_sync(
            n=world.size,
            engine_set_id=f"g{generation}",
            hosts=hosts,
            generation=generation,
            nanny=False,
        )
        launcher = self._cluster.engines[f"g{generation}"]
        self._worlds[generation] = _World(generation, world.size, launcher)

    def observe(self) -> tuple[WorldFact, ...]:
        """Look at every world, and move those that start or end a step on."""
        if self._has_controller():
            self._assign_engines()
        else:
            self._drop_controller()
        facts = []
        for world in [*self._worlds.values()]:
            fact = self._look(world)
            facts.append(fact)
            if fact.state is WorldState.ENDED:
                self._forget(world)
        return tuple(facts)

    def submit(self, generation: int, assignment: Assignment) -> None:
        """Queue the assignment on the engines of the ranks that take part."""
        engines = self._in_rank_order(generation)[: assignment.ranks or None]
        self._apply(engines, _call, "run", asdict(assignment))

    def warm_up(self, generation: int) -> None:
        """Queue the imports that a training will want, on all engines of a world."""
        self._apply(self._in_rank_order(generation), _call, "warm_up")

    def recover(self, generation: int) -> None:
        """Queue the recovery on all engines of a world."""
        engines = self._in_rank_order(generation)
        self._worlds[generation].recovering = self._apply(engines, _call, "recover")

    def recovered(self, generation: int) -> bool | None:
        """Whether the recovery succeeded."""
        result = self._worlds[generation].recovering
        if result is None or not result.ready():
            return None
        return bool(result.successful() and all(result.get()))

    def send(self, generation: int, ranks: Sequence[int], command: Command) -> None:
        """Send a command through the mailbox."""
        self._mailbox.send(generation, ranks, command)

    def receive(self, seconds: float) -> list[Message]:
        """Return what the ranks sent."""
        return self._mailbox.receive(seconds)

    def end_world(self, generation: int) -> None:
        """Ask mpiexec to end; ``observe`` goes on to force."""
        world = self._worlds.get(generation)
        if world is None or world.ending_since:
            return
        world.ending_since = time.monotonic()
        # Ranks that hang in MPI do not act on mpiexec's polite signal.
        _signal_ranks(world.ranks, signal.SIGTERM)
        with contextlib.suppress(psutil.NoSuchProcess):
            world.launcher.signal(signal.SIGTERM)

    def close(self) -> None:
        """End all worlds, then the controller."""
        for generation in self._worlds:
            self.end_world(generation)
        deadline = time.monotonic() + ENDING_SECONDS
        while self._worlds and time.monotonic() < deadline:
            self.observe()
            time.sleep(0.05)
        if self._client is not None:
            self._client.close()
        if self._cluster is not None:
            self._cluster.stop_cluster_sync()
        self._mailbox.close(forget=True)

    # -- the controller

    def _taken_up(self) -> Any:
        path = self._folder / "profile" / "security" / "cluster-.json"
        if not path.exists():
            return None
        with contextlib.suppress(NotRunning, ValueError, OSError, KeyError):
            cluster = ipp.Cluster.from_file(str(path), load_profile=False)
            if cluster.controller is not None and cluster.controller.running:
                return cluster
        path.unlink(missing_ok=True)
        return None

    def _started(self) -> Any:
        find_mpi()  # says so in one sentence before anything is started
        profile = self._folder / "profile"
        for name in ("security", "log", "pid"):
            (profile / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        for stale in (profile / "security").glob("ipcontroller-*.json"):
            stale.unlink()
        cluster = ipp.Cluster(
            profile_dir=str(profile),
            cluster_id="",
            controller_launcher_class=CurveControllerLauncher,
            engine_launcher_class=WorldEngineSetLauncher,
            shutdown_atexit=False,
            load_profile=False,
            delay=0,
        )
        try:
            cluster.start_controller_sync()
        except (OSError, RuntimeError) as error:
            raise ClusterError(
                f"The controller did not start ({error}); its log is in {profile / 'log'}."
            ) from error
        return cluster

    def _has_controller(self) -> bool:
        return self._cluster is not None and _is_alive(self._cluster.controller.pid)

    def _drop_controller(self) -> None:
        """End what is left of a controller that is gone; the next world starts another one."""
        if self._cluster is None:
            return
        for world in self._worlds.values():
            if not world.ending_since:
                world.reason = "the ipyparallel controller is gone"
                self.end_world(world.generation)
        # Its schedulers are processes of its group, and do not notice.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._cluster.controller.pid, signal.SIGKILL)
        self._client.close()
        self._cluster = self._client = None
        self._asked.clear()

    # -- the worlds

    def _assign_engines(self) -> None:
        """Ask every new engine for its generation: ids follow no order that can be relied on."""
        starting = [world for world in self._worlds.values() if not world.ranks]
        if not starting:
            return
        for engine in self._client.ids:
            if engine not in self._asked:
                self._asked[engine] = self._apply([engine], _generation)
        for engine, answer in [*self._asked.items()]:
            if answer is None or not answer.ready():
                continue
            self._asked[engine] = None
            try:
                world = self._worlds.get(int(answer.get()[0]))
            except (ipp.RemoteError, ipp.CompositeError):
                # The engine died meanwhile; its id may come again with another engine.
                del self._asked[engine]
            else:
                if world is not None:
                    world.engines.add(engine)

    def _look(self, world: _World) -> WorldFact:
        gone = not _is_alive(world.launcher.pid)
        if world.ending_since:
            gone = self._press(world, gone)
            state = WorldState.ENDED if gone else WorldState.BROKEN
            return WorldFact(
                world.generation, world.size, state, world.ranks, world.deaths, world.reason
            )
        self._find_deaths(world)
        if gone or world.deaths:
            world.reason = world.reason or cause_of_end(_log_text(world.launcher), None)
            state = WorldState.ENDED if gone and not _any_alive(world.ranks) else WorldState.BROKEN
            if gone and state is WorldState.BROKEN:
                _signal_ranks(world.ranks, signal.SIGKILL)
            return WorldFact(
                world.generation, world.size, state, world.ranks, world.deaths, world.reason
            )
        if not world.ranks:
            self._join(world)
        state = WorldState.READY if world.ranks else WorldState.STARTING
        return WorldFact(world.generation, world.size, state, world.ranks)

    def _join(self, world: _World) -> None:
        if len(world.engines) < world.size:
            return
        if world.joining is None:
            world.joining = self._apply(
                sorted(world.engines),
                _call,
                "join",
                world.generation,
                self._mailbox.endpoint,
                self._mailbox.server_key,
                self.fault_tolerant,
                str(self._folder / "crashes"),
            )
        elif world.joining.ready():
            facts = [_rank_fact(answer) for answer in world.joining.get()]
            world.ranks = tuple(sorted(facts, key=lambda fact: fact.rank))

    def _find_deaths(self, world: _World) -> None:
        dead = [rank for rank in world.ranks if not _is_alive(rank.pid)]
        known = {death.rank for death in world.deaths}
        new = [rank for rank in dead if rank.rank not in known]
        if not new or self._may_say_more(world, new):
            return
        text = _log_text(world.launcher)
        traces = {rank.rank: stack_of_crash(self._crash_text(rank)) for rank in new}
        blamed = named_processes(text)
        # mpiexec ends the others when one is gone: the one to show is the one that began it.
        new.sort(key=lambda rank: (not traces[rank.rank], rank.pid not in blamed))
        for rank in new:
            trace = traces[rank.rank]
            cause = trace.partition("\n")[0] or cause_of_end(text, rank.rank)
            world.deaths += (Death(rank.rank, rank.host, cause, trace),)

    def _may_say_more(self, world: _World, dead: Sequence[RankFact]) -> bool:
        """Whether several ranks went at once and mpiexec is still about to say which was first."""
        world.dying_since = world.dying_since or time.monotonic()
        early = time.monotonic() - world.dying_since < LAST_WORDS_SECONDS
        return len(dead) > 1 and early and _is_alive(world.launcher.pid)

    def _press(self, world: _World, gone: bool) -> bool:
        """End by force what does not end by itself; true when nothing is left."""
        alive = _any_alive(world.ranks)
        if time.monotonic() - world.ending_since > KILL_SECONDS:
            _signal_ranks(world.ranks, signal.SIGKILL)
            if not gone:
                with contextlib.suppress(psutil.NoSuchProcess):
                    world.launcher.signal(signal.SIGKILL)
        return gone and not alive

    def _forget(self, world: _World) -> None:
        del self._worlds[world.generation]
        if self._cluster is not None:
            self._cluster.engines.pop(f"g{world.generation}", None)
            self._cluster.update_cluster_file()
        for engine in world.engines:
            self._asked.pop(engine, None)
        for path in (self._folder / "crashes").glob(f"crash-{world.generation}-*.txt"):
            path.unlink(missing_ok=True)

    def _crash_text(self, rank: RankFact) -> str:
        path = self._folder / "crashes" / f"crash-{rank.generation}-{rank.rank}.txt"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def _in_rank_order(self, generation: int) -> list[int]:
        return [rank.engine for rank in self._worlds[generation].ranks]

    def _apply(self, engines: Sequence[int], function: Any, *arguments: Any) -> Any:
        view = self._client.direct_view(list(engines))
        return view.apply_async(function, *arguments)


def _generation() -> str:
    """Say which generation an engine belongs to; runs on the engine, sent there by value."""
    import os

    return os.environ.get("WORKBENCH_GENERATION", "-1")


def _call(name: str, *arguments: Any) -> Any:
    """Call what the engine room offers by that name; runs on the engine, sent there by value."""
    from importlib import import_module

    return getattr(import_module("workbench.engine.calls"), name)(*arguments)


def _rank_fact(answer: dict[str, Any]) -> RankFact:
    versions = tuple((name, version) for name, version in answer.pop("versions"))
    return RankFact(**answer, versions=versions)


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _any_alive(ranks: Sequence[RankFact]) -> bool:
    return any(_is_alive(rank.pid) for rank in ranks)


def _signal_ranks(ranks: Sequence[RankFact], number: signal.Signals) -> None:
    for rank in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank.pid, number)


def _log_text(launcher: Any) -> str:
    path = Path(launcher.output_file)
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
