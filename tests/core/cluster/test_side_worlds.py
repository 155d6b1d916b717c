"""Trials are beside each other: no slot is used twice, no run is overtaken, and all end."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from workbench.core.cluster.generation import (
    EndWorld,
    MoveRun,
    ObservedWorld,
    QueuedRun,
    RunReplay,
    RunSetup,
    StartWorld,
    Submit,
    WorldFact,
    WorldState,
    WorldUse,
    plan,
)
from workbench.core.cluster.model import ClusterWish
from workbench.core.cluster.side_worlds import (
    choose_share,
    places_for,
    plan_beside,
    queue_of_cells,
)
from workbench.core.world.world import Host, World

FOUR = World((Host("a", 2), Host("b", 2)), 4)
UP = ClusterWish("default", up=True, ranks=4)
SEED = 38_001
HISTORIES = 300
MOST_TURNS = 600


def trial(run: str, ranks: int = 1, **more) -> QueuedRun:
    return QueuedRun(run, ranks, is_trial=True, **more)


def beside(generation: int, *hosts: str, busy=False, use=WorldUse.CELLS, **more) -> ObservedWorld:
    fact = WorldFact(generation, len(hosts), WorldState.READY)
    return ObservedWorld(fact, 0.0, True, busy, hosts, use=use, is_beside=True, **more)


def planned(side, queue, *, cells=(), target=FOUR, taken=(), coming=0, failures=0):
    return plan_beside(
        target, cells, side, queue, taken=taken, next_generation=10, failures=failures,
        coming_trials=coming, now=1.0,
    )  # fmt: skip


def test_as_many_trials_start_as_there_are_slots():
    actions = planned([], [trial("a"), trial("b"), trial("c", 2), trial("d")])
    assert [one.world.size for one in actions] == [1, 1, 2]
    assert [one.generation for one in actions] == [10, 11, 12]
    used = Counter(host for one in actions for host in one.world.placement)
    assert used == Counter(FOUR.placement)


def test_a_trial_that_fits_on_a_host_is_not_split():
    share = choose_share(FOUR, Counter({"a": 1, "b": 2}), 2)
    assert share.placement == ("b", "b")
    assert choose_share(FOUR, Counter({"a": 1, "b": 2}), 3).placement == ("b", "b", "a")


def test_an_idle_world_of_the_same_size_takes_the_next_trial():
    assert planned([beside(3, "a")], [trial("x")]) == [Submit("x", 3)]


def test_earlier_cells_that_the_world_lacks_are_repeated_first():
    needed = trial("x", lacks=((3, ("imports",)),))
    assert planned([beside(3, "a")], [needed]) == [RunReplay("imports", 3)]


def test_a_script_needs_fresh_ranks():
    script = trial("x", is_script=True)
    spent = beside(3, "a", use=WorldUse.SCRIPT)
    fresh = beside(4, "a", use=WorldUse.FRESH)
    actions = planned([spent, fresh], [script])
    assert Submit("x", 4) in actions
    assert any(isinstance(one, EndWorld) and one.generation == 3 for one in actions)


def test_the_ranks_of_the_next_script_start_while_one_runs():
    busy = beside(3, "a", busy=True, use=WorldUse.SCRIPT)
    [started] = planned([busy], [], coming=2)
    assert started.world.placement == ("a",)
    assert started.is_beside
    assert planned([busy, beside(4, "a", use=WorldUse.FRESH)], [], coming=2) == []


def test_a_run_that_waits_for_slots_is_not_overtaken():
    busy = [beside(n, host, busy=True) for n, host in ((1, "a"), (2, "a"), (3, "b"))]
    assert planned(busy, [trial("large", 2), trial("small")]) == []


def test_slots_that_the_cells_use_are_not_free():
    assert len(planned([], [trial("x"), trial("y"), trial("z")], taken=("a", "a"))) == 2


def test_worlds_are_ended_once_no_trial_is_to_come():
    assert [one.generation for one in planned([beside(3, "a")], [])] == [3]
    assert planned([beside(3, "a")], [], coming=1) == []


def test_a_trial_on_slots_that_are_given_up_leaves_if_it_can():
    small = World((Host("a", 2),), 2)
    stays = beside(3, "b", busy=True)
    leaves = beside(4, "b", busy=True, is_movable=True)
    assert planned([stays, leaves, beside(5, "b")], [], target=small) == [
        MoveRun(4),
        EndWorld(5, "another size was requested meanwhile"),
    ]


def test_ranks_that_do_not_start_are_not_tried_without_end():
    assert planned([], [trial("x")], failures=3) == []


@pytest.mark.parametrize(("ranks", "places"), [(0, 1), (1, 4), (2, 2), (3, 1), (9, 1)])
def test_trials_share_the_slots(ranks, places):
    assert places_for(FOUR, ranks) == places
    assert places_for(None, ranks) == 1


def test_a_run_on_all_ranks_waits_for_the_trials_before_it():
    whole, busy = QueuedRun("whole", 0), [beside(3, "b", busy=True)]
    assert queue_of_cells(FOUR, [], busy, [whole]) == []
    assert queue_of_cells(FOUR, [], [], [whole]) == [whole]
    assert queue_of_cells(FOUR, [], busy, [QueuedRun("two", 2)]) == [QueuedRun("two", 2)]


def cells(*, busy=True, **more) -> ObservedWorld:
    fact = WorldFact(1, 4, WorldState.READY)
    return ObservedWorld(fact, 0.0, True, busy, FOUR.placement, use=WorldUse.CELLS, **more)


def test_a_cell_of_another_notebook_is_beside_a_run_that_leaves_slots():
    other = QueuedRun("other", 2, is_independent=True)
    assert queue_of_cells(FOUR, [cells()], [], [other]) == []
    [started] = planned([], [other], cells=[cells()], taken=("a", "a"))
    assert started.world.placement == ("b", "b")
    assert planned([beside(3, "b", "b", use=WorldUse.FRESH)], [other], cells=[cells()]) == [
        Submit("other", 3)
    ]


@pytest.mark.parametrize(
    "run",
    [
        QueuedRun("same notebook", 2),
        QueuedRun("all ranks", 0, is_independent=True),
        QueuedRun("all ranks", 4, is_independent=True),
    ],
    ids=lambda run: run.run,
)
def test_other_cells_wait_for_the_world_of_the_cells(run):
    assert queue_of_cells(FOUR, [cells()], [], [run]) == [run]
    assert planned([], [run], cells=[cells()], taken=("a", "a")) == []


def test_a_cell_is_in_the_world_of_the_cells_while_that_is_idle():
    run = QueuedRun("other", 2, is_independent=True)
    assert queue_of_cells(FOUR, [cells(busy=False)], [], [run]) == [run]
    assert queue_of_cells(FOUR, [cells(replaying=True)], [], [run]) == [run]


def test_a_notebook_s_next_cell_is_where_its_variables_are():
    own = beside(3, "b", "b", has_variables=True)
    run = QueuedRun("next", 2, replays=("first",), is_independent=True, lacks=((3, ()),))
    idle = cells(busy=False)
    assert queue_of_cells(FOUR, [idle], [own], [run]) == []
    assert planned([own], [run], cells=[idle]) == [Submit("next", 3)]
    elsewhere = replace(run, lacks=((3, ("first",)),))
    assert queue_of_cells(FOUR, [idle], [own], [elsewhere]) == [elsewhere]


def test_a_world_with_variables_is_kept_until_its_slots_are_not_wanted():
    own = beside(3, "b", "b", has_variables=True)
    assert planned([own], []) == []
    assert [one.generation for one in planned([own], [trial("x")])] == [10]
    assert planned([own], [], target=World((Host("a", 2),), 2)) == [
        EndWorld(3, "another size was requested meanwhile")
    ]


def test_trials_see_no_variables_of_a_notebook():
    own, trials = beside(3, "a", has_variables=True), beside(4, "a", use=WorldUse.TRIALS)
    assert planned([own, trials], [trial("x")]) == [Submit("x", 4)]
    cell = QueuedRun("cell", 1, is_independent=True)
    assert Submit("cell", 3) in planned([own, trials], [cell], cells=[cells()])
    assert planned([trials], [cell], cells=[cells()])[0].is_beside
    repeated = beside(5, "a")  # only earlier cells
    assert Submit("cell", 5) in planned([repeated], [cell], cells=[cells()])


def test_while_nodes_are_waited_for_the_cells_have_the_ranks_that_are_ready():
    whole = QueuedRun("whole", 0)
    assert queue_of_cells(None, [], [], [whole, trial("x")]) == [whole]
    assert queue_of_cells(None, [], [], [trial("x"), whole]) == []


@dataclass
class History:
    """A cluster whose runs begin, end, move and lose their ranks by chance."""

    seed: int
    target: World = FOUR
    worlds: list[ObservedWorld] = field(default_factory=list)
    queue: list[QueuedRun] = field(default_factory=list)
    on: dict[int, QueuedRun] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    newest: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        for number in range(self.chance.randint(3, 12)):
            is_trial = self.chance.random() < 0.5
            ranks = self.chance.choice((1, 1, 2, 3)) if is_trial else self.chance.choice((0, 2))
            is_script = self.chance.random() < 0.4
            is_independent = not (is_trial or is_script) and self.chance.random() < 0.5
            self.queue.append(
                QueuedRun(
                    f"{number}", ranks, is_script=is_script, is_trial=is_trial,
                    is_independent=is_independent,
                )
            )  # fmt: skip
        self.all = [one.run for one in self.queue]

    def turn(self, *, is_wild: bool) -> None:
        self._happen(is_wild=is_wild)
        main = [one for one in self.worlds if not one.is_beside]
        side = [one for one in self.worlds if one.is_beside]
        queue = [*self.queue]
        actions = plan(
            UP, self.target, main, queue_of_cells(self.target, main, side, queue),
            next_generation=self.newest + 1, failures=0, now=0.0,
        )  # fmt: skip
        used = [
            host
            for one in main
            if (run := self.on.get(one.fact.generation))
            for host in one.placement[: run.ranks or None]
        ]
        actions += plan_beside(
            self.target, main, side, queue, taken=used, failures=0, coming_trials=0, now=0.0,
            next_generation=self.newest + 1 + sum(isinstance(a, StartWorld) for a in actions),
        )  # fmt: skip
        for action in actions:
            self._act(action)

    def _act(self, action) -> None:
        match action:
            case StartWorld(generation, world, is_beside):
                assert generation > self.newest
                self.newest = generation
                fact = WorldFact(generation, world.size, WorldState.STARTING)
                self.worlds.append(
                    ObservedWorld(fact, 0.0, False, False, world.placement, is_beside=is_beside)
                )
            case EndWorld(generation, _):
                assert generation not in self.on, "a world with a run was ended"
                self.worlds = [w for w in self.worlds if w.fact.generation != generation]
            case RunSetup(generation):
                self._change(generation, prepared=True)
            case MoveRun(generation):
                run = self.on.pop(generation)
                self.queue.insert(0, replace(run, is_between=True))
                self._change(generation, busy=False)
            case Submit(run, generation):
                self._submit(run, generation)

    def _submit(self, run: str, generation: int) -> None:
        [queued] = [one for one in self.queue if one.run == run]
        before = self.queue[: self.queue.index(queued)]
        busy = sum(run.ranks or self.target.size for run in self.on.values())
        asked = sum(min(one.ranks or self.target.size, self.target.size) for one in before)
        has_room = busy + asked + queued.ranks <= self.target.size
        assert not before or has_room or self.has_shrunk, f"{run} overtook {before}"
        self.queue.remove(queued)
        assert generation not in self.on
        self.on[generation] = queued
        self.begun.append(run)
        use = WorldUse.SCRIPT if queued.is_script else WorldUse.CELLS
        self._change(
            generation, busy=True, use=use, is_movable=self.chance.random() < 0.5,
            has_variables=not (queued.is_script or queued.is_trial),
        )  # fmt: skip
        used = Counter[str]()
        for world in self.worlds:
            if (active := self.on.get(world.fact.generation)) is not None:
                used += Counter(world.placement[: active.ranks or None])
        kept = {host: used[host] for host in {*self.target.placement}}
        over = Counter(kept) - Counter(self.target.placement)
        assert not over or self.has_shrunk, f"slots are used twice: {over}"

    has_shrunk = False

    def _change(self, generation: int, **changes) -> None:
        self.worlds = [
            replace(one, **changes) if one.fact.generation == generation else one
            for one in self.worlds
        ]

    def _happen(self, *, is_wild: bool) -> None:
        for world in [*self.worlds]:
            generation = world.fact.generation
            if world.fact.state is WorldState.STARTING and self.chance.random() < 0.5:
                ready = replace(world.fact, state=WorldState.READY)
                self._change(generation, fact=ready)
            elif generation in self.on and self.chance.random() < 0.3:
                self.ended.append(self.on.pop(generation).run)
                self._change(generation, busy=False)
            elif is_wild and self.chance.random() < 0.03:
                if run := self.on.pop(generation, None):
                    self.queue.insert(0, replace(run, is_between=True))
                self.worlds = [w for w in self.worlds if w.fact.generation != generation]
        if is_wild and self.chance.random() < 0.05:
            two = self.chance.choice(([Host("a", 2)], [Host("b", 2), Host("c", 1)], [*FOUR.hosts]))
            self.target = World((*two,), sum(host.slots for host in two))
            self.has_shrunk = True


def test_in_random_histories_every_run_ends_and_none_is_overtaken():
    for seed in range(SEED, SEED + HISTORIES):
        history = History(seed)
        for turn in range(MOST_TURNS):
            history.turn(is_wild=turn < 60)
            if len(history.ended) == len(history.all):
                break
        assert sorted(history.ended) == sorted(history.all), f"seed {seed}: {history}"
