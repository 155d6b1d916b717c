"""The supervisor's record of each world: start time, nodes, set-up cells."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from workbench.core.cluster.generation import (
    Death,
    ObservedWorld,
    WorldFact,
    WorldState,
    WorldUse,
)
from workbench.core.run.model import RunKind, RunWish
from workbench.core.world.world import RankFact

LOOK_SECONDS = 0.15
START_SECONDS = 5.0  # of a world, until one was measured
STARTING_SECONDS = 0.02  # a start has several steps, each of which waits for a look


class Worlds:
    """The worlds of one cluster, by generation.

    Args:
        seen: The worlds as last reported by the cluster, oldest first; one that has ended is
            reported once, and is among them until ``forget``.

    Attributes:
        start_seconds: How long the last start of a world took.
    """

    def __init__(self, seen: Sequence[WorldFact] = ()) -> None:
        self.seen = tuple(seen)
        self._since: dict[int, float] = {}
        self._placements: dict[int, tuple[str, ...]] = {}
        self._prepared: dict[int, list[str]] = {}
        self._ending: dict[int, str] = {}
        self._cold: set[int] = set()
        self._broken: set[int] = set()
        self._uses: dict[int, WorldUse] = {}
        self.start_seconds = START_SECONDS
        self._of_cells = 0  # the generation in which the last cell began
        self.beside = set[int]()
        """The generations beside that of the cells."""

    def __repr__(self) -> str:
        return f"<Worlds {', '.join(str(world.generation) for world in self.seen)}>"

    # -- events

    def begin(
        self, generation: int, placement: tuple[str, ...], now: float, *, is_beside: bool = False
    ) -> None:
        """Record that a world is being started, with the host of each of its ranks."""
        self._since[generation] = now
        if is_beside:
            self.beside.add(generation)
        self._placements[generation] = placement

    def take_up(
        self, setups: Sequence[str], scripts: Collection[int], beside: Collection[int] = ()
    ) -> None:
        """Count a predecessor's worlds as prepared, and those without scripts as used.

        Args:
            setups: Names of the set-up cells.
            scripts: The generations in which scripts have run.
            beside: Those beside that of the cells.
        """
        self.beside = {*beside}
        for world in self.standing():
            self._prepared[world.generation] = [*setups]
            self._placements[world.generation] = tuple(rank.address for rank in world.ranks)
            if world.generation in scripts:
                self._uses[world.generation] = WorldUse.SCRIPT
            elif world.generation in self.beside:
                self._uses[world.generation] = WorldUse.TRIALS
            else:
                self._uses[world.generation] = WorldUse.CELLS
                self._of_cells = world.generation

    def is_fresh(self, generation: int) -> bool:
        """Return whether the last cell has run in another world, where this one was meant, too."""
        return self._of_cells not in (0, generation) and generation not in self.beside

    def use(self, generation: int, wish: RunWish) -> None:
        """Record that a run begins in a world."""
        if wish.kind is not RunKind.SETUP and self._uses.get(generation) is not WorldUse.TRIALS:
            self._uses[generation] = WorldUse.SCRIPT if wish.is_process else WorldUse.CELLS
        if not (wish.kind.prepares or wish.is_process or generation in self.beside):
            self._of_cells = generation

    def see(self, seen: Sequence[WorldFact], now: float) -> list[WorldFact]:
        """Record the reported worlds; return those that have got their ranks."""
        ended = [world for world in self.seen if world.state is WorldState.ENDED]
        self.seen = (*ended, *seen)
        ready = []
        for world in self.seen:
            since = self._since.setdefault(world.generation, now)
            if world.ranks and world.generation not in self._prepared:
                self._prepared[world.generation] = []
                self._cold.add(world.generation)
                ready.append(world)
                if since < now:
                    self.start_seconds = now - since
        return ready

    def forget(self, generation: int) -> None:
        """Drop a world that has ended."""
        self.beside.discard(generation)
        self.seen = tuple(world for world in self.seen if world.generation != generation)

    def next_setup(self, generation: int, setups: Sequence[str]) -> str:
        """Return the next set-up cell that a world lacks; empty for none, or if it is gone."""
        done = self._prepared[generation] if self.find(generation) else setups
        return next((name for name in setups if name not in done), "")

    def note_setup(self, generation: int, name: str) -> None:
        """Count a set-up cell of a world as done."""
        self._prepared[generation].append(name)

    def end(self, generation: int, reason: str) -> bool:
        """Record why a world is being ended; return false if that was recorded before."""
        if generation in self._ending:
            return False
        self._ending[generation] = reason
        return True

    def to_warm_up(self, setups: Sequence[str], busy: Collection[int]) -> list[int]:
        """Return the generations that have become usable since the last call, and are idle."""
        usable = [s.fact.generation for s in self.standings(setups, busy) if s.usable]
        warm = self._cold.intersection(usable)
        self._cold -= warm
        return sorted(warm.difference(busy))

    def note_trial(self, generation: int) -> None:
        """Record that a trial of a sweep begins in a world: a notebook's cells never follow it."""
        if self._uses[generation] is WorldUse.CELLS:
            self._uses[generation] = WorldUse.TRIALS

    # -- observed state

    @property
    def look_seconds(self) -> float:
        """How often to look at the worlds now."""
        changing = WorldState.STARTING, WorldState.BROKEN
        return STARTING_SECONDS if any(w.state in changing for w in self.seen) else LOOK_SECONDS

    @property
    def are_calm(self) -> bool:
        """Whether there are worlds, and none of them begins or ends."""
        is_ready = all(world.state is WorldState.READY for world in self.seen)
        return (
            bool(self.seen)
            and is_ready
            and not self._ending.keys() & {world.generation for world in self.seen}
        )

    @property
    def newest(self) -> int:
        """The largest generation that ever was; 0 before the first."""
        return max(self._since, default=0)

    def find(self, generation: int) -> WorldFact | None:
        """Return the world of a generation; None if it has ended."""
        found = (world for world in self.seen if world.generation == generation)
        return next((world for world in found if world.state is not WorldState.ENDED), None)

    def standing(self) -> list[WorldFact]:
        """Return the worlds that have ranks."""
        return [w for w in self.seen if w.ranks and w.state is not WorldState.ENDED]

    def standings(
        self,
        setups: Sequence[str],
        busy: Collection[int],
        movable: Mapping[int, bool] = MappingProxyType({}),
    ) -> list[ObservedWorld]:
        """Return all worlds as values for a plan.

        Args:
            setups: Names of the set-up cells that each world needs.
            busy: Generations with an active run.
            movable: Those of them whose run can continue in another world; whether it can do so on
                any hosts.
        """
        return [
            ObservedWorld(
                world,
                self._since[world.generation],
                prepared=world.generation in self._prepared
                and set(setups) <= {*self._prepared[world.generation]},
                busy=world.generation in busy,
                placement=self.placement(world.generation),
                is_movable=world.generation in movable,
                is_copied=movable.get(world.generation, False),
                use=self._uses.get(world.generation, WorldUse.FRESH),
                is_beside=world.generation in self.beside,
            )
            for world in self.seen
        ]

    def placement(self, generation: int) -> tuple[str, ...]:
        """Return the address of each rank's host; empty if unknown."""
        return self._placements.get(generation, ())

    def ranks(self, world: WorldFact) -> list[RankFact]:
        """Return a world's ranks with the addresses at which they were started."""
        placement = self.placement(world.generation)
        if len(placement) < world.size:
            return [*world.ranks]
        return [replace(rank, address=placement[rank.rank]) for rank in world.ranks]

    def hosts(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the hosts of all worlds, and those of the worlds that are not broken."""
        standing = [world for world in self.seen if world.state is not WorldState.ENDED]
        whole = [world for world in standing if world.state is not WorldState.BROKEN]
        used, fit = (
            frozenset(host for world in worlds for host in self.placement(world.generation))
            for worlds in (standing, whole)
        )
        return used, fit

    def why_ended(self, generation: int) -> str:
        """Return why this supervisor ended a world; empty if it did not."""
        return self._ending.get(generation, "")

    def is_unexplained(self, generation: int) -> bool:
        """Return whether a world has broken by itself, which was not noted yet."""
        return generation not in self._ending and generation not in self._broken

    def note_break(self, generation: int) -> None:
        """Note that the cause is known why a world has broken, or that there is none."""
        self._broken.add(generation)

    def deaths(self, world: WorldFact, why_gone: Callable[[str], str]) -> tuple[Death, ...]:
        """Return a world's deaths, first those that the loss of their node explains.

        Args:
            why_gone: Returns why no process runs on a host any longer, or an empty text.
        """
        explained = []
        placement = self.placement(world.generation)
        for death in world.deaths:
            why = why_gone(placement[death.rank]) if placement else ""
            lost = bool(why) and not death.trace
            explained.append(replace(death, cause=why, is_lost=True) if lost else death)
        return tuple(sorted(explained, key=lambda death: death in world.deaths))
