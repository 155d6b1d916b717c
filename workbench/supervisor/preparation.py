"""The cells that run on new ranks before a user's run: set-up cells, and earlier cells again."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from workbench.core.cluster.generation import Death, ObservedWorld, QueuedRun
from workbench.core.cluster.model import ResizeAt
from workbench.core.recovery.departure import Departure, why_it_waits
from workbench.core.recovery.life import Life, RunOver, StayExplained
from workbench.core.recovery.replay import (
    DEFINITIONS,
    DONE,
    PastCell,
    Replays,
    is_replay_off,
    replays,
    split,
    suspects,
)
from workbench.core.recovery.resumption import MOST_VAIN, NONE, Attempt
from workbench.core.run.cell_names import CellNames, definitions_of, names_of, refine_names
from workbench.core.run.model import Run, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Ending
from workbench.core.world.world import World
from workbench.requests.run import new_run_id
from workbench.store import Store

REPLAY_SECONDS = 1800.0
FRESH_ENGINES = "Ran on restarted ranks. Earlier cells are repeated there when a run needs them."
NOT_REPEATED = "Ran on restarted ranks: the variables of earlier cells are lost (`--replay off`)."
ENDED_LATER = "its code ended a rank in a later run"
BEGAN_NOTHING = "its ranks could begin no other cell after it"
_MOST_NAMED = 3
# Two worlds may be lost for the cells that ran or were repeated there.
MOST_WAITS = 3
MOST_KILLS = 3


class Preparation:
    """What the runs of one cluster need on ranks, and what has been done for it there.

    Args:
        names: The names that every rank has from its start.
    """

    def __init__(self, store: Store, cluster: str, names: frozenset[str]) -> None:
        self._store, self._cluster, self._names = store, cluster, names
        self._setups: list[tuple[str, str]] = []
        self._since = 0
        self._past: list[Run] = []
        self._present = set[tuple[int, str]]()  # generation and run
        self._failures: dict[tuple[int, str], str] = {}  # why that run was not repeated there
        self._asked: dict[tuple[str, int], list[str]] = {}  # names, by run and generation
        self._ranks: dict[str, int | None] = {}  # those of the run that needs an earlier one
        self._saved: dict[str, bool] = {}
        self._is_current = False
        self._needs: dict[tuple[str, int], Replays] = {}
        self._forgiven = 0
        self._harm: dict[str, str] = {}  # what a run may have done to its ranks
        self._endings: dict[str, dict[int, Ending]] = {}  # by execution
        self._seen_of = Counter[str]()  # how often ranks were unfit after a run
        self._unfit = set[tuple[str, str]]()  # names and sources of set-up cells
        self._news = ""
        self._waits = Counter[str]()  # worlds that were lost before a run began, by run

    # -- events

    def read(self, since: int) -> None:
        """Read the set-up cells; what ran before generation ``since`` does not count."""
        setups = self._store.setups(self._cluster)
        if (setups, since) != (self._setups, self._since):
            self._setups, self._since = setups, since
            self.forget()

    def forget(self) -> None:
        """Read again what has run, since a run has ended."""
        self._saved.clear()
        self._is_current = False
        self._needs.clear()

    def distrust(
        self,
        generation: int,
        why: str,
        victim: Run | None = None,
        *,
        is_sure: bool = True,
        times: int = 1,
    ) -> list[str]:
        """Repeat nothing more that may have made ranks unfit; return the names of these runs.

        Args:
            why: What the ranks did, a clause.
            victim: The run that they failed; None between two runs.
            is_sure: Whether it did nothing to them itself.
            times: How often it has to be seen of a run.
        """
        if victim is not None and victim.wish.kind is RunKind.SETUP and times == 1:
            self._unfit.add((victim.wish.setup, victim.wish.source))
            return [victim.wish.name]
        if victim is not None and victim.wish.replays and not is_sure:
            found = [victim.wish.replays]
        else:
            every = self._store.cells(self._cluster, self._since)
            there = [
                (one.wish.replays or one.id, bool(one.wish.replays))
                for one in every
                if one.fact.generation == generation and one.id != (victim and victim.id)
            ]
            found = suspects(there, is_sure=is_sure, is_first=not self._harm)
        names = {run: self._store.run(run).wish.name for run in found}
        self._seen_of.update(found)
        found = [run for run in found if self._seen_of[run] >= times]
        self._harm |= dict.fromkeys(found, why)
        self.forget()
        return [names[run] for run in found]

    def find_cause(self, generation: int, death: Death, life: Life | None) -> None:
        """Find which earlier cells may have caused that a rank died, if nothing else explains it.

        Args:
            life: Of the run that was on its world; None if there was none.
        """
        run = None if life is None or life.waits_again else life.run
        is_setup = run is not None and run.wish.kind is RunKind.SETUP  # else repeated forever
        is_own = run is not None and life is not None and not life.is_unexplained(death)
        if death.is_lost or (is_own and not is_setup):
            return
        # A person or a full memory may have killed it; again and again is another matter.
        times = MOST_KILLS if death.is_kill else 1
        why = f"rank {death.rank} ended after it ({death.cause})"
        names = self.distrust(generation, why, run, is_sure=run is None, times=times)
        if names and run is None:
            self._news = why_replaced(names, f"rank {death.rank} ended ({death.cause})")

    def note_flaw(self, run: Run, generation: int, over: RunOver) -> str:
        """Have the next run say which cell has left ranks that can run no other one.

        Returns:
            What it will say, a sentence.
        """
        names = [self._store.run(run.wish.replays or run.id).wish.name]
        if over.is_deaf:
            names = self.distrust(generation, BEGAN_NOTHING, run)
        self._news = why_replaced(names, over.flaw)
        return self._news

    def blame(self, run: str) -> None:
        """Never repeat a run, since its code has ended a rank."""
        self._harm[run] = ENDED_LATER
        self.forget()

    def may_wait(self, run: str) -> bool:
        """Return whether a run that no rank has begun waits for other ranks."""
        return self._waits[run] < MOST_WAITS

    def note_wait(self, run: str) -> None:
        """Note that a run, which no rank has begun, waits for other ranks."""
        self._waits[run] += 1

    def try_again(self, newest: int) -> None:
        """Let runs move that a failed replay has kept where they are: a new size is wanted.

        Args:
            newest: The newest generation; failures in later ones count.
        """
        self._forgiven = newest

    # -- runs

    @property
    def setup_names(self) -> list[str]:
        """The names of the set-up cells, in their order, but for those that made ranks unfit."""
        return [name for name, source in self._setups if (name, source) not in self._unfit]

    def setup_run(self, name: str, queue: Sequence[Run], generation: int, now: float) -> Run:
        """Return the run of a set-up cell; one that waits in the queue counts.

        Args:
            now: Epoch seconds.
        """
        source = dict(self._setups)[name]
        for run in queue:
            if run.wish.kind is RunKind.SETUP and run.wish.source == source:
                return run
        text = f"{name} in generation {generation} of {self._cluster}"
        wish = RunWish("", text, RunKind.SETUP, source, self._cluster, setup=name)
        return self._queue_setup(wish, now)

    def replay_run(self, run: str, generation: int, size: int, now: float) -> Run:
        """Return a run that repeats an earlier one in a world of ``size`` ranks.

        Args:
            run: The id of the earlier one.
            now: Epoch seconds.
        """
        for left in self._store.list_unfinished(self._cluster, replays=True):
            is_meant = left.wish.replays == run.removesuffix(DEFINITIONS)
            if is_meant and left.fact.state is RunState.QUEUED:
                return left  # the store was away, or a supervisor died, before it was submitted
        id_ = run.removesuffix(DEFINITIONS)
        past = (one.wish for one in self._past if one.id == id_)
        wish = next(past, None) or self._store.run(id_).wish
        source = wish.source if id_ == run else definitions_of(wish.source)
        wanted = self._ranks.get(run, wish.options.ranks)
        again = replace(
            wish,
            source=source,
            name=f"{wish.name:.40} again in generation {generation}",
            kind=RunKind.REPLAY,
            options=replace(
                wish.options,
                ranks=min(wanted, size) if wanted else None,
                wall_clock_limit=REPLAY_SECONDS,
            ),
            replays=id_,
            stop=False,
        )
        return self._queue_setup(again, now)

    def waiting(self, run: Run, generation: int) -> str:
        """Return the execution that came to the edge of a run's training there; empty if none."""
        found = [one.execution for one in self._store.replays(run.id, generation)]
        return found[-1] if run.fact.attempt > 1 and found else ""

    def _queue_setup(self, wish: RunWish, now: float) -> Run:
        named = replace(wish, id=new_run_id(now), created=now)
        return self._store.run(self._store.wish_run(named).id)

    # -- what is needed

    def list_queued(
        self,
        queue: Sequence[Run],
        generation: int,
        trials: Collection[str] = (),
        beside: Collection[int] = (),
        active: Iterable[Run] = (),
    ) -> list[QueuedRun]:
        """Return waiting runs as values for a plan.

        Args:
            generation: That of the cells; 0 if there is none.
            trials: The runs that are trials of sweeps.
            beside: The generations that are idle beside that of the cells.
            active: The runs that are on ranks.
        """
        first = self._lacking(queue[0], generation) if queue and generation else ()
        rest = list[QueuedRun]()
        notebooks = {one.wish.origin.notebook for one in active if one.id not in trials}
        for one in queue:
            rest.append(
                QueuedRun(
                    one.id, one.wish.options.ranks or 0,
                    is_between=bool(one.fact.started), is_script=one.wish.is_process,
                    is_trial=one.id in trials,
                    is_independent=self._is_independent(one, notebooks),
                    lacks=tuple((at, self._lacking(one, at)) for at in beside),
                )
            )  # fmt: skip
            if one.id not in trials:
                notebooks.add(one.wish.origin.notebook)
        return [replace(one, replays=first) for one in rest[:1]] + rest[1:]

    def _is_independent(self, run: Run, before: Collection[str]) -> bool:
        """Return whether a cell may be in another world than the runs of other notebooks.

        Args:
            before: The notebooks that have runs on ranks, or before it in the queue.
        """
        is_first = run.wish.kind is RunKind.CELL and run.wish.origin.notebook not in before
        return is_first and not is_replay_off(run.wish) and not self.hindrance(run)

    def judge_worlds(
        self, worlds: Sequence[ObservedWorld], lives: Mapping[int, Life]
    ) -> list[ObservedWorld]:
        """Add to the worlds what their runs need in the newest usable one."""
        newest = next((w.fact.generation for w in reversed(worlds) if w.usable), 0)
        self._read_past()
        of_cells = {one.fact.generation for one in self._past}
        judged = [
            replace(
                _with_run(world, lives.get(world.fact.generation)),
                has_variables=world.fact.generation in of_cells,
            )
            for world in worlds
        ]
        return [
            self._judge_world(world, lives[world.fact.generation], newest)
            if world.is_movable
            else world
            for world in judged
        ]

    def explain_stays(
        self,
        worlds: Sequence[ObservedWorld],
        lives: Mapping[int, Life],
        target: World | None,
        at: ResizeAt,
        departures: Mapping[int, Departure],
    ) -> dict[int, StayExplained]:
        """Return why each run keeps its ranks, or until when, by its generation.

        Args:
            at: When a run moves.
            departures: What each run does about another size now, by its generation.
        """
        found = {}
        for world in worlds:
            generation = world.fact.generation
            life = lives.get(generation)
            if life is None or life.is_moving:
                continue
            remark = ""
            why = self.hindrance(life.run) if life.is_movable else ""
            if target is None or world.fits(target):
                pass
            elif why:
                remark = f"It keeps its ranks until it ends. {why}"
            elif departures[generation] is not Departure.DUE:
                remark = why_it_waits(at, life.fact, target.size)
            found[generation] = StayExplained(why, remark)
        return found

    def _judge_world(self, world: ObservedWorld, life: Life, newest: int) -> ObservedWorld:
        run = life.run
        if life.is_moving:
            return world
        refusal = self._find_refusal(run)
        # A script that restarts begins only once its old ranks have ended: nothing runs before.
        if newest in (0, world.fact.generation) or run.wish.restarts:
            return replace(world, is_movable=not self.hindrance(run))
        return replace(
            world,
            is_movable=not self.hindrance(run),
            replays=(*self._lacking(run, newest), run.id),
            refusal=refusal,
        )

    def hindrance(self, run: Run) -> str:
        """Return why a run cannot leave its world, in sentences; empty if it can."""
        if refusal := self._find_refusal(run):
            return f"{refusal} Another resize tries it again."
        return self._find_needed(run, 0).hindrance

    def replay_seconds(self, run: Run) -> float:
        """Return how long the earlier cells took that are repeated where a run moves."""
        needed = {*self._find_needed(run, 0).runs}
        facts = [one.fact for one in self._past if one.id in needed]
        return sum(max(0.0, fact.ended - fact.started) for fact in facts)

    def _find_refusal(self, run: Run) -> str:
        """Return why something that the run needs failed in a newer world than its own."""
        after = max(run.fact.generation, self._forgiven)
        needed = {*_certain(self._find_needed(run, 0)), run.id}
        failures = self._failures.items()
        found = (why for (at, one), why in failures if at > after and one in needed)
        return next(found, "")

    def why_not_begun(self, run: Run, generation: int) -> str:
        """Return why a run does not begin there; empty if it does.

        One that was resumed by hand is not held back.
        """
        needed = self._find_needed(run, generation)
        if run.fact.attempt == 1:
            return needed.why_not if needed.withheld else ""
        if (last := self._find_left(run)) is None:
            return ""
        why = self._refusal(run, generation) or needed.why_not
        resume = f"Resume it with `workbench run --resume {shlex.quote(run.wish.name)}`."
        return f"{last.message} {why} {resume}" if why else ""

    def announcement(self, run: Run, generation: int) -> str:
        """Return which earlier cells are repeated before a run, a sentence; empty for none."""
        asked = self._asked.get((run.id, generation))
        return f"Repeats {_format_list(asked)} first." if asked else ""

    def notice(self, run: Run, generation: int, *, fresh: bool) -> str:
        """Return what the message of a run has to say of what earlier cells have left.

        Args:
            fresh: Whether its ranks are not those of the run before it.
        """
        if refusal := self._refusal(run, generation):
            return refusal
        asked, news = self._asked.get((run.id, generation)), self._news
        is_silent = not (fresh or news) or run.wish.is_process or self._find_left(run)
        if not asked and is_silent:
            return ""
        if asked:
            news = f"{news} Repeated before it on these ranks: {_format_list(asked)}."
        elif not news:
            news = NOT_REPEATED if is_replay_off(run.wish) else FRESH_ENGINES
        needed = self._find_needed(run, generation)
        return " ".join((news.strip(), *needed.left_out[:_MOST_NAMED], needed.why_not)).strip()

    def note_begin(self, run: Run, generation: int) -> None:
        """Note that a run has begun, whose message has the ``notice``."""
        if not self._refusal(run, generation):
            self._news = ""

    # -- inside

    def _find_left(self, run: Run) -> Attempt | None:
        """Return the attempt that a run continues by itself, if it does."""
        last = (
            next(reversed(self._store.attempts.past(run.id)), None)
            if run.fact.attempt > 1
            else None
        )
        return last if last and last.is_automatic else None

    def _lacking(self, run: Run, generation: int) -> tuple[str, ...]:
        """Return the earlier runs whose cells have yet to run there."""
        needed = self._find_needed(run, generation).runs
        names = {one.id: one.wish.name for one in self._past}
        for id_, name in [*names.items()]:
            names[id_ + DEFINITIONS] = f"{name} (imports and functions)"
        self._ranks.update(dict.fromkeys(needed, run.wish.options.ranks))
        if needed:
            self._asked.setdefault((run.id, generation), [names[one] for one in needed])
        return tuple(one for one in needed if (generation, one) not in self._failures)

    def _refusal(self, run: Run, generation: int) -> str:
        """Return why an earlier cell that a run needs could not be repeated there."""
        needed = _certain(self._find_needed(run, generation))
        tried = (self._failures.get((generation, one)) for one in needed)
        return next(filter(None, tried), "")

    def _find_needed(self, run: Run, generation: int) -> Replays:
        if run.wish.kind is not RunKind.CELL or is_replay_off(run.wish):
            return Replays()
        self._read_past()
        key = (run.execution, generation)
        if key not in self._needs:
            self._needs[key] = replays(
                _names(run.wish),
                [
                    part
                    for one in self._past
                    if one.id != run.id
                    for part in split(self._read_cell(one, generation), one.wish.source)
                ],
                known=self._names,
                prepared=[names_of(source) for _, source in self._setups],
            )
        return self._needs[key]

    def _read_past(self) -> None:
        if self._is_current:
            return
        found = self._store.cells(self._cluster, self._since)
        by_id = {one.id: one for one in found if one.wish.kind is not RunKind.REPLAY}
        self._past, self._is_current = [*by_id.values()], True
        self._present = {(one.fact.generation, one.id) for one in self._past}
        self._failures = {}
        lost = Counter[str]()
        for again in found:
            if again.wish.kind is RunKind.REPLAY:
                repeated, state = again.wish.replays, again.fact.state
                earlier = by_id.get(repeated)
                if earlier and again.wish.source != earlier.wish.source:
                    repeated += DEFINITIONS
                place = (again.fact.generation, repeated)
                lost[repeated] = lost[repeated] + 1 if state is RunState.LOST else 0
                if earlier and state in (RunState.FINISHED, earlier.fact.state):
                    if spoiled := self._describe_spoiling(again):
                        self._harm[earlier.id] = spoiled
                    self._present.add(place)
                elif not 0 < lost[repeated] <= MOST_VAIN:  # its world was lost, or not wanted
                    self._failures[place] = _failure(again, is_own=earlier is None)

    def _read_cell(self, run: Run, generation: int) -> PastCell:
        fact = run.fact
        seconds = max(0.0, fact.ended - fact.started)
        trained = fact.iteration > 0
        effects = [one.effects for one in self._left_by(run).values() if one.effects is not None]
        deeds = {deed for one in effects for deed in one.deeds}
        return PastCell(
            run.id,
            run.wish.name,
            refine_names(_names(run.wish), effects, is_done=fact.state in DONE),
            fact.state,
            is_present=(generation, run.id) in self._present,
            has_definitions=(generation, run.id + DEFINITIONS) in self._present,
            seconds=seconds,
            trained=trained,
            saved=trained and self.has_snapshot(run.id),
            deeds=tuple(sorted(deeds)),
            harm=self._harm.get(run.id, "") or self._describe_spoiling(run),
        )

    def _left_by(self, run: Run) -> dict[int, Ending]:
        """Return how each rank left a run that has ended."""
        if run.execution not in self._endings:
            self._endings[run.execution] = self._store.reports.endings(run.id)
        return self._endings[run.execution]

    def _describe_spoiling(self, run: Run) -> str:
        """Return why its ranks could run no other cell after a run; empty if they could."""
        return next((one.spoiled for one in self._left_by(run).values() if one.spoiled), "")

    def has_snapshot(self, run: str) -> bool:
        """Return whether a run that has ended has reported a snapshot."""
        if run not in self._saved:
            self._saved[run] = self._store.attempts.newest_snapshot(run) != NONE
        return self._saved[run]


def why_replaced(names: Sequence[str], why: str) -> str:
    """Return why ranks are new, a sentence: what they did after runs with these names."""
    after = f" after {'run' if len(names) == 1 else 'runs'} {_format_list(names)}" if names else ""
    return f"The ranks were replaced{after}, because {why}."


def _names(wish: RunWish) -> CellNames:
    return names_of(wish.source, frozenset(dict(wish.options.parameters)))


def _certain(needed: Replays) -> list[str]:
    return [one for one in needed.runs if one not in needed.in_doubt]


def _with_run(world: ObservedWorld, life: Life | None) -> ObservedWorld:
    if life is None:
        return world
    wish = life.run.wish
    return replace(
        world,
        run=wish.replays or wish.id,
        replaying=bool(wish.replays),
        at_edge=life.is_at_edge,
        is_leaving=life.is_moving,
        is_exiting=life.is_exiting,
    )


def _failure(again: Run, *, is_own: bool) -> str:
    """Return why a replay did not end as the run that it repeats.

    Args:
        is_own: Whether it was to come to the edge of the training of a run that moves.
    """
    fact = again.fact
    why = f"rank {fact.failed_rank}: {fact.failure}" if fact.failure else f"it {fact.state}"
    log = f"`workbench logs {shlex.quote(again.wish.name)}`"
    what = "Its cell did not reach its training" if is_own else "A cell could not be repeated"
    return f"{what} on the new ranks ({why}; see {log})."


def _format_list(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMED])
    rest = len(names) - _MOST_NAMED
    return f"{shown} and {rest} more" if rest > 0 else shown
