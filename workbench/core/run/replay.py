"""Decide which earlier cells run again on new ranks, before a run that uses what they left.

The names that a run reads lead to the cells that have bound them, those to the cells that *they*
need, and so on, backwards in time. A cell that may have changed a value counts as well: it names
it, and the value is no module, function or class. So does one that sets up an imported module.
Where a source does not tell which names it takes, all cells run again. ::

    cell 1: import numpy         cell 3: 100 steps of another model
    cell 2: data = load()        cell 4: model = Net()          run: model and data
                │                          │                          │
         2 and 4 are repeated, before them 1, which they use, and not 3
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.core.run.cell_names import CellNames
from workbench.core.run.model import RunState

REPEATED_SECONDS = 60.0
"""A training that saved no snapshot is trained again on new ranks if it took no longer than this"""

KNOWN = frozenset(dir(builtins)) | frozenset({
    "In", "Out", "_", "__", "___", "_i", "_ih", "_oh", "_dh", "__name__", "__file__", "__doc__",
    "display", "exit", "get_ipython", "quit",
})  # fmt: skip
"""What a rank's namespace has before the first cell."""

# Their functions change nothing that a later cell could use.
_HARMLESS = frozenset({"display", "plt", "matplotlib", "time", "workbench"})
_DONE = frozenset({RunState.FINISHED, RunState.STOPPED})


@dataclass(frozen=True)
class PastCell:
    """A cell or script that has run on the cluster.

    Args:
        run: Its id.
        name: Its name for the user.
        state: How it ended.
        is_present: Whether what it left is on the ranks in question.
        seconds: How long it took.
        trained: Whether it did iterations.
        saved: Whether it has a snapshot.
        is_harmful: Whether it may have left ranks that could begin no other cell.
    """

    run: str
    name: str
    names: CellNames
    state: RunState
    is_present: bool = False
    seconds: float = 0.0
    trained: bool = False
    saved: bool = False
    is_harmful: bool = False

    @property
    def can_be_repeated(self) -> bool:
        """Whether it came to its end, and left its ranks whole."""
        return self.state in _DONE and not self.is_harmful

    @property
    def obstacle(self) -> str:
        """Why it cannot run again; empty if it can."""
        if self.state not in _DONE:
            return "did not finish"
        if self.is_harmful:
            return "ran on ranks that could begin no other cell afterwards"
        if self.trained and not self.saved and self.seconds > REPEATED_SECONDS:
            return f"trained for {self.seconds:.0f} s and saved no snapshot"
        return ""


@dataclass(frozen=True)
class Replays:
    """What has to run again before a run can begin on other ranks.

    Args:
        runs: The ids of earlier cells, in the order in which they run.
        in_doubt: Those of them that may have changed something that it uses, or may not: it can
            do without.
        why_not: Why what it uses cannot be brought there, one sentence; empty if it can.
        unknown: Names that it uses and that no cell on record has made.
    """

    runs: tuple[str, ...] = ()
    in_doubt: frozenset[str] = frozenset()
    why_not: str = ""
    unknown: tuple[str, ...] = ()

    @property
    def hindrance(self) -> str:
        """Why the run had better stay where it is, one sentence; empty if it may leave."""
        if self.why_not or not self.unknown:
            return self.why_not
        return f"It uses {_quoted(self.unknown[0])}, which no cell on record has made."


def replays(
    cell: CellNames,
    past: Sequence[PastCell],
    *,
    known: Iterable[str] = (),
    prepared: Sequence[CellNames] = (),
) -> Replays:
    """Return what a cell needs on ranks that do not have all of it.

    Args:
        past: What has run on the cluster, oldest first.
        known: Names that every rank has from its start; see ``KNOWN``.
        prepared: The set-up cells, which have run there.
    """
    every = _all(past, prepared)
    modules = frozenset[str]().union(*(one.imports for one in every))
    fixed = frozenset[str]().union(*(one.fixed for one in every))
    fixed -= frozenset[str]().union(*(one.may_bind - one.fixed for one in every))
    given = frozenset(known).union(*(one.may_bind for one in prepared))
    search = _Search(cell, given, modules, fixed)
    for one in reversed(past):
        search.look_at(one)
        if search.why_not:
            return Replays(why_not=search.why_not)
    is_sure = not any(one.is_open for one in (cell, *every))
    unknown = tuple(sorted(search.missing)) if is_sure else ()
    return Replays((*reversed(search.found),), frozenset(search.in_doubt), unknown=unknown)


def _all(past: Sequence[PastCell], prepared: Sequence[CellNames]) -> list[CellNames]:
    return [*(one.names for one in past), *prepared]


class _Search:
    """What is still needed, on the way back through the cells that have run.

    Args:
        known: Names whose values come from elsewhere.
        modules: Names of modules.
        fixed: Names that no cell changes by reading them: modules, functions and classes.
    """

    def __init__(
        self,
        cell: CellNames,
        known: frozenset[str],
        modules: frozenset[str],
        fixed: frozenset[str],
    ) -> None:
        self.found: list[str] = []
        self.in_doubt = set[str]()
        self.why_not = ""
        self._known, self._modules, self._fixed = known, modules, fixed
        self._everything = cell.is_open
        self._wanted = set[str]()
        self._firm = set[str]()  # those of them that something cannot do without
        self._sought = set[str]()
        self._kept = set[str]()  # bound on these ranks by later cells, whose values must stay
        self._want(cell)

    @property
    def missing(self) -> frozenset[str]:
        """What something needs and nothing has bound."""
        return frozenset(self._sought)

    def look_at(self, past: PastCell) -> None:
        """Decide about the cell before those that were looked at."""
        names = past.names
        bound = names.may_bind & self._firm
        if past.is_present:
            self._forget(names.binds)
            self._sought -= names.may_bind
            self._kept |= names.may_bind
        elif not past.can_be_repeated:
            if bound and not self._everything:
                self.why_not = _sentence(bound, past, past.obstacle)
        elif bound or self._touched(names):
            self._take(past, bound)
        elif self._is_in_doubt(past):
            self._take_in_doubt(past)

    def _take(self, past: PastCell, bound: frozenset[str]) -> None:
        over = self._kept & past.names.may_bind
        why = past.obstacle
        if over and not why:
            why = f"would overwrite {_quoted(min(over))} of a later cell"
        if why:
            self.why_not = _sentence(bound or self._touched(past.names), past, why)
            return
        self.found.append(past.run)
        self._forget(past.names.binds)
        self._sought -= past.names.may_bind
        self._want(past.names)
        self._everything = self._everything or past.names.is_open

    def _take_in_doubt(self, past: PastCell) -> None:
        if not past.obstacle and self._kept.isdisjoint(past.names.may_bind):
            self.in_doubt.add(past.run)
            self._take(past, frozenset())

    def _want(self, names: CellNames) -> None:
        self._wanted |= (names.needs | names.may_need) - self._known
        self._firm |= (names.needs | names.first) - self._known
        self._sought |= names.needs - self._known

    def _forget(self, names: frozenset[str]) -> None:
        self._wanted -= names
        self._firm -= names

    def _is_in_doubt(self, past: PastCell) -> bool:
        names = past.names
        may_matter = self._everything or names.is_open or bool(names.may_bind & self._wanted)
        return may_matter or self._may_set_up(past)

    def _touched(self, names: CellNames) -> frozenset[str]:
        return names.reads & (self._firm - self._fixed)

    def _may_set_up(self, past: PastCell) -> bool:
        """Return whether a cell has set up a module; one that trained did so for itself."""
        names = past.names
        return bool((names.effects & self._modules) - _HARMLESS) and not past.trained


def _sentence(names: Iterable[str], past: PastCell, why: str) -> str:
    what = _quoted(min(names, default="")) if names else "what earlier cells left"
    return f"It uses {what} of run {past.name!r}, which {why}."


def _quoted(name: str) -> str:
    return f"`{name}`"
