"""Decide which earlier cells run again on new ranks, before a run that uses what they left.

The names that a run reads lead to the cells that have bound them, those to the cells that *they*
need, and so on, backwards in time. A cell that may have changed a value counts as well: it names
it, and the value is no module, function, class or number. So does one that sets up an imported
module. Where a source does not tell which names it takes, all cells run again.
Never repeated are cells that have acted outside of their process (an upload, a file, a program),
and cells after which ranks were not fit for another one. ::

    cell 1: import numpy         cell 3: 100 steps of another model
    cell 2: data = load()        cell 4: model = Net()          run: model and data
                │                          │                          │
         2 and 4 are repeated, before them 1, which they use, and not 3
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from workbench.core.run.cell_names import CellNames, Deed, definitions_of, names_of
from workbench.core.run.model import RunState, RunWish
from workbench.core.run.run_options import REPLAY_VARIABLE

REPEATED_SECONDS = 60.0
"""A training that saved no snapshot is trained again on new ranks if it took no longer than this"""

KNOWN = frozenset(dir(builtins)) | frozenset({
    "In", "Out", "_", "__", "___", "_i", "_ih", "_oh", "_dh", "__name__", "__file__", "__doc__",
    "display", "exit", "get_ipython", "quit",
})  # fmt: skip
"""What a rank's namespace has before the first cell."""

# Their functions change nothing that a later cell could use.
_HARMLESS = frozenset({"display", "plt", "matplotlib", "time", "workbench"})
DONE = frozenset({RunState.FINISHED, RunState.STOPPED})
DEFINITIONS = ":definitions"
"""Follows the id of a cell, where only its imports, functions and classes are meant."""
# How the source of a cell is called in a traceback.
_CELL = re.compile(r"<cell of run ([\w-]+)>")


def is_replay_off(wish: RunWish) -> bool:
    """Return whether no earlier cell is to be repeated for a run."""
    return dict(wish.options.environment).get(REPLAY_VARIABLE) == "off"


@dataclass(frozen=True)
class PastCell:
    """A cell or script that has run on the cluster.

    Args:
        run: Its id.
        name: Its name for the user.
        state: How it ended.
        is_present: Whether what it left is on the ranks in question.
        has_definitions: Whether at least its imports, functions and classes are.
        seconds: How long it took.
        trained: Whether it did iterations.
        saved: Whether it has a snapshot.
        deeds: What it has done outside of its ranks.
        harm: How it has left its ranks unfit for another cell, or may have; empty if it has not.
    """

    run: str
    name: str
    names: CellNames
    state: RunState
    is_present: bool = False
    has_definitions: bool = False
    seconds: float = 0.0
    trained: bool = False
    saved: bool = False
    deeds: tuple[Deed, ...] = ()
    harm: str = ""

    @property
    def obstacle(self) -> str:
        """Why it cannot run again; empty if it can."""
        if self.state not in DONE:
            return "did not finish"
        if self.harm:
            return f"is not repeated, because {self.harm}"
        if self.deeds:
            deeds = " and ".join(self.deeds)
            return f"{deeds}, so it is not repeated unasked: run it again if you need it"
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
        left_out: Cells that may matter and are not repeated, because of what they did: one sentence
            for each.
        withheld: A name that it cannot do without, if such a cell made that; empty for none.
    """

    runs: tuple[str, ...] = ()
    in_doubt: frozenset[str] = frozenset()
    why_not: str = ""
    unknown: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    withheld: str = ""

    @property
    def hindrance(self) -> str:
        """Why the run had better stay where it is, one sentence; empty if it may leave."""
        if self.why_not or not self.unknown:
            return self.why_not
        return f"It uses {_quote_name(self.unknown[0])}, which no cell on record has made."


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
            return Replays(why_not=search.why_not, withheld=search.withheld)
    is_sure = not any(one.binds_any for one in (cell, *every))
    unknown = tuple(sorted(search.missing)) if is_sure else ()
    found, left_out = (*reversed(search.found),), (*reversed(search.left_out),)
    return Replays(found, frozenset(search.in_doubt), unknown=unknown, left_out=left_out)


def split(past: PastCell, source: str) -> list[PastCell]:
    """Return what can be repeated of a cell by itself, and the rest of it.

    Imports, functions and classes do no harm, whatever else their cell has done.
    """
    text = definitions_of(source) if past.harm or past.deeds else ""
    if not text or past.state not in DONE:
        return [past]
    first = names_of(text)
    if first.binds_any:  # a star import; the ranks have said what it brings
        whole = past.names
        binds = first.binds | (whole.binds & whole.fixed)
        first = replace(first, binds=binds, may_bind=binds, fixed=binds, binds_any=False)
    names = past.names
    binds, may_bind = names.binds - first.binds, names.may_bind - first.may_bind
    return [
        replace(
            past,
            run=past.run + DEFINITIONS,
            names=first,
            is_present=past.is_present or past.has_definitions,
            trained=False,
            deeds=(),
            harm="",
        ),
        replace(past, names=replace(names, binds=binds, may_bind=may_bind)),
    ]


def culprit(trace: str, run: str) -> str:
    """Return the earlier run whose code ended a rank during another one; empty if it was its own.

    Args:
        trace: The Python stack at the end of the rank.
        run: The run that it was in.
    """
    found = _CELL.findall(trace)
    return found[-1] if found and run not in found else ""


def suspects(
    there: Sequence[tuple[str, bool]], *, is_sure: bool, is_first: bool = True
) -> list[str]:
    """Return the runs that may have made ranks unfit for another one.

    It is the last one; or all that were repeated together, if the first run after them shows it.

    Args:
        there: The runs that have ended on these ranks, oldest first, and whether each was repeated.
        is_sure: Whether no other run may have done it: none was in its own code.
        is_first: Whether nothing was suspected before.
    """
    again = [*takewhile(lambda one: one[1], reversed(there))]
    if again or not (is_sure and there):
        return [run for run, _ in reversed(again)]
    before = [] if is_first else [*takewhile(lambda one: one[1], reversed(there[:-1]))]
    return [*(run for run, _ in reversed(before)), there[-1][0]]


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
        self.left_out: list[str] = []
        self.in_doubt = set[str]()
        self.why_not = self.withheld = ""
        self._known, self._modules, self._fixed = known, modules, fixed
        # What the cell, and those that made its values, read from elsewhere; and at any rate.
        self._hard, self._needs = cell.needs | cell.first, cell.needs
        self._everything = cell.reads_any
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
        elif past.state not in DONE:
            if bound and not self._everything:
                self.why_not = _sentence(bound, past, past.obstacle)
        elif past.harm or past.deeds:
            self._leave_out(past, bound)
        elif bound or self._find_touched(names):
            self._take(past, bound)
        elif self._is_in_doubt(past):
            self._take_in_doubt(past)

    def _leave_out(self, past: PastCell, bound: frozenset[str]) -> None:
        """Do without a cell that is never repeated; impossible if a value of it is needed."""
        if hard := bound & self._hard:
            needed = hard & self._needs
            self.why_not = _sentence(needed or hard, past, past.obstacle)
            self.withheld = min(needed, default="")
        elif bound or self._find_touched(past.names) or (past.deeds and self._everything):
            self.left_out.append(f"Run {past.name!r} {past.obstacle}.")

    def _take(self, past: PastCell, bound: frozenset[str]) -> None:
        over = self._kept & past.names.may_bind
        why = past.obstacle
        if over and not why:
            why = f"would overwrite {_quote_name(min(over))} of a later cell"
        if why:
            self.why_not = _sentence(bound or self._find_touched(past.names), past, why)
            return
        self.found.append(past.run)
        self._forget(past.names.binds)
        self._sought -= past.names.may_bind
        self._want(past.names)
        if bound:  # else it may only have changed something
            self._hard |= past.names.needs | past.names.first
            self._needs |= past.names.needs
        self._everything = self._everything or past.names.reads_any

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
        is_unclear = self._everything or names.binds_any
        may_matter = is_unclear or bool(names.may_bind & self._wanted)
        return may_matter or self._may_set_up(past)

    def _find_touched(self, names: CellNames) -> frozenset[str]:
        return names.reads & (self._firm - self._fixed)

    def _may_set_up(self, past: PastCell) -> bool:
        """Return whether a cell has set up a module; one that trained did so for itself."""
        names = past.names
        return bool((names.effects & self._modules) - _HARMLESS) and not past.trained


def _sentence(names: Iterable[str], past: PastCell, why: str) -> str:
    what = _quote_name(min(names, default="")) if names else "what earlier cells left"
    return f"It uses {what} of run {past.name!r}, which {why}."


def _quote_name(name: str) -> str:
    return f"`{name}`"
