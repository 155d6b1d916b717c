"""Worlds start one at a time, runs go to worlds that fit, and deletion happens in order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.cluster.generation import (
    MOST_FAILURES,
    NO_SCRIPT,
    NOT_READY,
    OTHER_SIZE,
    SCRIPT_ENDED,
    START_SECONDS,
    Action,
    CloseCluster,
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
    cluster_state,
    plan,
)
from workbench.core.cluster.model import ClusterState, ClusterWish
from workbench.core.world.world import Host, World

PROFILE = settings(derandomize=True, deadline=None, max_examples=200)
UP = ClusterWish("default", up=True, ranks=2)
DOWN = replace(UP, up=False)
READY, STARTING, BROKEN, ENDED = (
    WorldState.READY,
    WorldState.STARTING,
    WorldState.BROKEN,
    WorldState.ENDED,
)
TWO = World((Host("localhost", 2),), 2)
WAITING = [QueuedRun("first", 0), QueuedRun("second", 0)]


def standing(
    generation=1, state=READY, size=2, *, prepared=True, busy=False, since=0.0, movable=False
) -> ObservedWorld:
    here = world(size).placement
    fact = WorldFact(generation, size, state)
    return ObservedWorld(fact, since, prepared, busy, here, is_movable=movable)


def world(size=2) -> World:
    return World((Host("localhost", 2),), size)


def planned(wish, worlds, queue=(), *, failures=0, now=1.0, **given) -> list[Action]:
    newest = max((world.fact.generation for world in worlds), default=0)
    target = given.get("target", world(wish.ranks))
    return plan(wish, target, worlds, queue, next_generation=newest + 1, failures=failures, now=now)


@pytest.mark.parametrize(
    ("worlds", "queue", "actions"),
    [
        ([], [], [StartWorld(1, TWO)]),
        ([], WAITING, [StartWorld(1, TWO)]),
        ([standing(state=STARTING, prepared=False)], WAITING, []),
        ([standing(prepared=False)], WAITING, [RunSetup(1)]),
        ([standing(prepared=False, busy=True)], WAITING, []),
        ([standing()], [], []),
        ([standing()], WAITING, [Submit("first", 1)]),
        ([standing(busy=True)], WAITING, []),
        ([standing(size=4)], WAITING, [StartWorld(2, TWO)]),
        ([standing(size=4, busy=True)], WAITING, []),
        ([standing(size=4, busy=True, movable=True)], WAITING, [StartWorld(2, TWO)]),
        ([standing(size=4, busy=True, movable=True), standing(2)], WAITING, [MoveRun(1)]),
        (
            [standing(size=4, busy=True, movable=True), standing(2, busy=True)],
            WAITING,
            [],
        ),
        ([standing(busy=True, movable=True)], WAITING, []),
        (
            [standing(size=4, busy=True, movable=True), standing(2, STARTING, prepared=False)],
            WAITING,
            [],
        ),
        ([standing(size=4), standing(2, STARTING, prepared=False)], WAITING, []),
        ([standing(size=4), standing(2, prepared=False)], WAITING, [RunSetup(2)]),
        (
            [standing(size=4), standing(2)],
            WAITING,
            [EndWorld(1, "replaced by the next generation"), Submit("first", 2)],
        ),
        ([standing(size=4, busy=True), standing(2)], WAITING, [Submit("first", 2)]),
        ([standing(state=BROKEN)], WAITING, [EndWorld(1, ""), StartWorld(2, TWO)]),
        ([standing(state=ENDED)], WAITING, [StartWorld(2, TWO)]),
        (
            [standing(), standing(2, STARTING, size=4, prepared=False)],
            [],
            [EndWorld(2, "another size was requested meanwhile")],
        ),
    ],
)
def test_a_cluster_that_is_wanted_gets_what_it_needs_next(worlds, queue, actions) -> None:
    assert planned(UP, worlds, queue) == actions


NEEDY = replace(standing(size=4, busy=True, movable=True), replays=("data", "model"))


@pytest.mark.parametrize(
    ("worlds", "queue", "actions"),
    [
        ([NEEDY, standing(2)], WAITING, [RunReplay("data", 2)]),
        ([NEEDY, standing(2, busy=True)], WAITING, []),
        ([replace(NEEDY, replays=()), standing(2)], WAITING, [MoveRun(1)]),
        (
            [replace(NEEDY, is_movable=False, refusal="It failed."), standing(2)],
            WAITING,
            [EndWorld(2, "It failed.")],
        ),
        ([replace(NEEDY, is_movable=False)], WAITING, []),
        ([standing()], [QueuedRun("first", 0, ("data",))], [RunReplay("data", 1)]),
        ([standing(busy=True)], [QueuedRun("first", 0, ("data",))], []),
    ],
)
def test_earlier_cells_are_repeated_before_the_run_that_needs_them(worlds, queue, actions) -> None:
    assert planned(UP, worlds, queue) == actions


@pytest.mark.parametrize("at_edge", [False, True])
@pytest.mark.parametrize("older", [[], [standing(size=4, busy=True, movable=True)]])
def test_a_repetition_of_a_size_that_is_no_longer_wanted_ends(older, at_edge) -> None:
    """Also if the run that it is for has left its own world."""
    again = replace(standing(2, size=3, busy=True), run="first", replaying=True, at_edge=at_edge)

    assert planned(UP, [*older, again], WAITING) == [EndWorld(2, OTHER_SIZE)]


def test_the_same_number_of_ranks_on_other_hosts_is_another_world() -> None:
    elsewhere = World((Host("10.0.0.1", 1), Host("10.0.0.2", 1)), 2)

    assert planned(UP, [standing()], target=elsewhere) == [StartWorld(2, elsewhere)]
    assert planned(UP, [standing(busy=True)], target=elsewhere) == []


def test_while_nodes_are_missing_a_world_continues_and_nothing_is_started() -> None:
    assert planned(UP, [], WAITING, target=None) == []
    assert planned(UP, [standing()], WAITING, target=None) == [Submit("first", 1)]
    assert cluster_state(UP, None, [], failures=0) is ClusterState.STARTING


def test_without_nodes_there_is_no_world_and_runs_wait() -> None:
    no_one = World((), 0)

    assert planned(UP, [standing()], target=no_one) == [EndWorld(1, "no ranks are wanted")]
    assert planned(UP, [standing(busy=True)], target=no_one) == []
    assert planned(UP, [], WAITING, target=no_one) == []
    assert cluster_state(UP, no_one, [], failures=0) is ClusterState.PAUSED


@pytest.mark.parametrize(
    ("now", "actions"),
    [(START_SECONDS, []), (START_SECONDS + 0.1, [EndWorld(1, NOT_READY)])],
)
def test_a_world_that_takes_too_long_is_ended(now, actions) -> None:
    slow = standing(state=STARTING, prepared=False, since=0.0)

    assert planned(UP, [slow], now=now) == actions


@pytest.mark.parametrize(
    ("failures", "actions"),
    [(MOST_FAILURES - 1, [StartWorld(1, TWO)]), (MOST_FAILURES, [])],
)
def test_worlds_that_fail_in_a_row_are_given_up(failures, actions) -> None:
    assert planned(UP, [], failures=failures) == actions


def test_a_cluster_that_gave_up_still_serves_the_world_that_it_has() -> None:
    actions = planned(UP, [standing()], WAITING, failures=MOST_FAILURES)

    assert actions == [Submit("first", 1)]


def test_a_cluster_goes_down_world_by_world_and_then_closes() -> None:
    worlds = [standing(busy=True), standing(2, STARTING, prepared=False)]
    reason = "the cluster was deleted"

    assert planned(DOWN, worlds, WAITING) == [EndWorld(1, reason), EndWorld(2, reason)]
    assert planned(DOWN, [standing(state=ENDED), worlds[1]]) == [EndWorld(2, reason)]
    assert planned(DOWN, [standing(state=ENDED), standing(2, ENDED)]) == [CloseCluster()]


@pytest.mark.parametrize(
    ("wish", "worlds", "failures", "state"),
    [
        (UP, [], 0, ClusterState.STARTING),
        (UP, [standing(state=STARTING)], 0, ClusterState.STARTING),
        (UP, [standing(prepared=False)], 0, ClusterState.STARTING),
        (UP, [standing()], 0, ClusterState.READY),
        (UP, [standing(busy=True)], MOST_FAILURES, ClusterState.READY),
        (UP, [standing(size=4)], 0, ClusterState.RESIZING),
        (UP, [standing(size=4)], MOST_FAILURES, ClusterState.FAILED),
        (UP, [standing(state=BROKEN)], MOST_FAILURES, ClusterState.FAILED),
        (UP, [standing(size=4), standing(2)], 0, ClusterState.READY),
        (DOWN, [standing()], 0, ClusterState.STOPPING),
        (DOWN, [], MOST_FAILURES, ClusterState.STOPPING),
    ],
)
def test_one_word_says_the_state_of_a_cluster(wish, worlds, failures, state) -> None:
    assert cluster_state(wish, TWO, worlds, failures=failures) is state


wishes = st.builds(
    ClusterWish,
    st.just("default"),
    up=st.sampled_from([True, True, False]),
    ranks=st.integers(1, 3),
)
facts = st.lists(
    st.tuples(st.sampled_from(WorldState), st.integers(1, 3), st.booleans(), st.booleans()),
    max_size=4,
).map(
    lambda rows: [
        standing(n, state, size, prepared=prepared and state is READY, busy=busy)
        for n, (state, size, prepared, busy) in enumerate(rows, 1)
    ]
)
queues = st.integers(0, 3).map(lambda n: [QueuedRun(f"run {i}", 0) for i in range(n)])
moments = st.sampled_from([1.0, START_SECONDS + 1])


def of(kind, actions) -> list:
    return [action for action in actions if isinstance(action, kind)]


@PROFILE
@given(wishes, facts, queues, st.integers(0, 4), moments)
def test_asked_twice_it_says_the_same(wish, worlds, queue, failures, now) -> None:
    before = [*worlds], [*queue]

    first = planned(wish, worlds, queue, failures=failures, now=now)
    second = planned(wish, worlds, queue, failures=failures, now=now)

    assert first == second
    assert (worlds, queue) == before


@PROFILE
@given(wishes, facts, queues, st.integers(0, 4), moments)
def test_no_world_is_started_while_another_is_coming(wish, worlds, queue, failures, now) -> None:
    coming = [w for w in worlds if w.fact.state in (STARTING, READY) and not w.usable]

    started = of(StartWorld, planned(wish, worlds, queue, failures=failures, now=now))

    assert len(started) <= (not coming and wish.up and failures < MOST_FAILURES)


@PROFILE
@given(wishes, facts, queues, st.integers(0, 4), moments)
def test_a_run_next_executionly_to_a_free_world_of_the_right_size(
    wish, worlds, queue, failures, now
) -> None:
    actions = planned(wish, worlds, queue, failures=failures, now=now)

    ended = {action.generation for action in of(EndWorld, actions)}
    for submit in of(Submit, actions):
        world = worlds[submit.generation - 1]
        assert world.usable
        assert not world.busy
        assert world.fact.size == wish.ranks
        assert submit.run == queue[0].run
        assert submit.generation not in ended
    assert len(of(Submit, actions)) <= 1


@PROFILE
@given(wishes, facts, queues, st.integers(0, 4), moments)
def test_a_world_at_work_is_never_ended_while_the_cluster_is_wanted(
    wish, worlds, queue, failures, now
) -> None:
    actions = planned(replace(wish, up=True), worlds, queue, failures=failures, now=now)

    for end in of(EndWorld, actions):
        world = worlds[end.generation - 1]
        assert not (world.usable and world.busy)


@dataclass
class Model:
    """Worlds that obey the plan: what the supervisor would see, without any process."""

    wish: ClusterWish = UP
    worlds: list[ObservedWorld] = field(default_factory=list)
    queue: list[QueuedRun] = field(default_factory=list)
    failures: int = 0
    asked: int = 0
    log: list[Action] = field(default_factory=list)
    running: dict[int, str] = field(default_factory=dict)

    def turn(self) -> list[Action]:
        actions = planned(self.wish, self.worlds, self.queue, failures=self.failures)
        for action in actions:
            self.obey(action)
        self.log += actions
        return actions

    def obey(self, action: Action) -> None:
        match action:
            case StartWorld(generation, target):
                self.worlds.append(standing(generation, STARTING, target.size, prepared=False))
            case EndWorld(generation):
                self.change(generation, fact=WorldFact(generation, 1, ENDED))
            case RunSetup(generation):
                self.change(generation, prepared=True)
            case Submit(run, generation):
                self.queue = [queued for queued in self.queue if queued.run != run]
                self.running[generation] = run
                self.change(generation, busy=True)
            case MoveRun(generation):
                self.queue.insert(0, QueuedRun(self.running[generation], 0))
                self.change(generation, busy=False, is_movable=False)

    def change(self, generation: int, **changes: object) -> None:
        self.worlds[generation - 1] = replace(self.worlds[generation - 1], **changes)

    def happen(self, event: str) -> None:
        """Let something unplanned happen."""
        for world in self.worlds:
            fact = world.fact
            if event == "ready" and fact.state is STARTING:
                self.change(fact.generation, fact=replace(fact, state=READY))
            if event == "break" and fact.state in (STARTING, READY):
                self.change(fact.generation, fact=replace(fact, state=BROKEN), busy=False)
                self.failures += fact.state is STARTING
            if event == "finish" and fact.state is READY:
                self.change(fact.generation, busy=False, is_movable=False)
            if event == "save" and world.usable and world.busy:
                self.change(fact.generation, is_movable=True)
        if event == "ask":
            self.queue.append(QueuedRun(f"run {self.asked}", 0))
            self.asked += 1
        if event.isdigit():
            self.wish = replace(self.wish, ranks=int(event))
            self.failures = 0

    def settle(self) -> None:
        """Let all go well until there is nothing more to do."""
        for _ in range(30):
            self.happen("ready")
            self.happen("finish")
            self.turn()


events = st.lists(
    st.sampled_from(["ready", "break", "finish", "ask", "save", "1", "2", "3"]), max_size=18
)


@PROFILE
@given(events)
def test_whatever_happens_at_most_one_world_is_coming(history) -> None:
    model = Model()

    for event in history:
        model.turn()
        model.happen(event)

        coming = [w for w in model.worlds if w.fact.state in (STARTING, READY) and not w.usable]
        assert len(coming) <= 1


@PROFILE
@given(events)
def test_whatever_happened_one_world_of_the_wished_size_remains(history) -> None:
    model = Model()
    for event in history:
        model.turn()
        model.happen(event)
    model.happen(str(model.wish.ranks))

    model.settle()

    alive = [world for world in model.worlds if world.fact.state is not ENDED]
    assert [(w.fact.size, w.usable) for w in alive] == [(model.wish.ranks, True)]
    begun = [submit.run for submit in of(Submit, model.log)]
    assert [*dict.fromkeys(begun)] == [f"run {n}" for n in range(model.asked)]
    assert len(begun) == model.asked + len(of(MoveRun, model.log))


def test_a_run_that_saves_snapshots_moves_to_a_new_size_before_the_next_run_begins() -> None:
    model = Model()
    model.happen("ask")
    for event in ("ready", "ready", "save", "ask", "1"):
        model.turn()
        model.happen(event)

    for _ in range(2):  # the run stays where it is until the new world is ready
        assert of(MoveRun, model.turn()) == []
    for event in ("ready", "none", "none"):
        model.happen(event)
        model.turn()

    ended = EndWorld(1, "replaced by the next generation")
    assert model.log[-3:] == [MoveRun(1), ended, Submit("run 0", 2)]


@PROFILE
@given(events)
def test_whatever_happened_a_cluster_closes_once_its_worlds_are_gone(history) -> None:
    model = Model()
    for event in history:
        model.turn()
        model.happen(event)
    model.wish = replace(model.wish, up=False)

    model.turn()

    assert model.turn() == [CloseCluster()]
    assert all(world.fact.state is ENDED for world in model.worlds)


def test_a_run_does_not_move_to_hosts_that_have_none_of_its_snapshots() -> None:
    elsewhere = World((Host("10.0.0.9", 2),), 2)

    actions = planned(UP, [standing(size=4, busy=True, movable=True)], target=elsewhere)

    assert actions == []


def test_a_run_moves_to_any_hosts_once_a_snapshot_is_in_a_durable_place() -> None:
    elsewhere = World((Host("10.0.0.9", 2),), 2)
    copied = replace(standing(size=4, busy=True, movable=True), is_copied=True)

    actions = planned(UP, [copied], target=elsewhere)

    assert actions == [StartWorld(2, elsewhere)]


@pytest.mark.parametrize("given", [{"target": None}, {"failures": MOST_FAILURES}])
def test_a_run_does_not_leave_for_a_world_that_cannot_be_started(given) -> None:
    worlds = [standing(size=4, busy=True, movable=True)]

    assert planned(UP, worlds, **given) == []


@pytest.mark.parametrize(
    ("changes", "actions"),
    [
        ({}, [MoveRun(1)]),
        ({"is_due": False}, []),  # it waits for the end of its epoch
        ({"is_movable": False}, []),  # it would lose what it has done
        ({"replaying": True}, [EndWorld(1, OTHER_SIZE)]),
    ],
)
def test_a_run_that_can_continue_elsewhere_leaves_when_no_ranks_are_wanted(
    changes, actions
) -> None:
    world = replace(standing(size=2, busy=True, movable=True), **changes)

    assert planned(UP, [world], target=World((), 0)) == actions


def test_a_run_that_left_for_a_size_that_is_no_longer_wanted_trains_there_until_the_next() -> None:
    old = replace(standing(size=4, busy=True, movable=True), run="first", is_leaving=True)
    edge = replace(standing(2, size=3, busy=True), run="first", replaying=True, at_edge=True)
    between = [QueuedRun("first", 0, is_between=True), QueuedRun("second", 0)]

    assert planned(UP, [old, edge]) == []
    assert planned(UP, [edge], between) == [Submit("first", 2)]
    trains = replace(edge, replaying=False, at_edge=False, is_movable=True)
    assert planned(UP, [trains], between[1:]) == [StartWorld(3, TWO)]
    idle = planned(UP, [standing(2, size=3)], between)
    assert idle == [StartWorld(3, TWO), Submit("first", 2)]


def test_a_run_that_left_begins_on_no_hosts_that_are_unknown() -> None:
    """Such a world was starting when its supervisor ended, and no snapshot could be brought."""
    unknown = replace(standing(2, size=3), placement=())
    between = [QueuedRun("first", 0, is_between=True)]

    assert planned(UP, [unknown], between) == [StartWorld(3, TWO)]


def test_a_cluster_whose_time_is_over_says_so_of_each_world() -> None:
    down = plan(
        DOWN, TWO, [standing(busy=True)], (), next_generation=2, failures=0, now=1.0, over="late"
    )

    assert down == [EndWorld(1, "late")]


def test_a_world_whose_hosts_are_unknown_is_replaced() -> None:
    unknown = ObservedWorld(WorldFact(1, 2, STARTING), 0.0, False, False, ())

    assert planned(UP, [unknown]) == [EndWorld(1, "another size was requested meanwhile")]
    assert planned(UP, [unknown], target=None) == planned(UP, [unknown])


# -- scripts


SCRIPT = [QueuedRun("script", 0, is_script=True)]
CELLS = replace(standing(), use=WorldUse.CELLS)
ON_SCRIPT = replace(standing(2, busy=True), use=WorldUse.SCRIPT)
EXITING = replace(standing(2, BROKEN, busy=True), use=WorldUse.SCRIPT, is_exiting=True)
AGAIN = replace(standing(3, size=4, busy=True), use=WorldUse.SCRIPT, run="script", replaying=True)
FOUR = replace(UP, ranks=4)
MOVABLE = replace(ON_SCRIPT, is_movable=True)


@pytest.mark.parametrize(
    ("wish", "worlds", "queue", "actions"),
    [
        (UP, [standing()], SCRIPT, [Submit("script", 1)]),
        (UP, [CELLS], SCRIPT, [StartWorld(2, TWO)]),
        (UP, [CELLS, standing(2, STARTING, prepared=False)], SCRIPT, []),
        (UP, [CELLS, standing(2, prepared=False)], SCRIPT, [RunSetup(2)]),
        (UP, [CELLS, standing(2)], SCRIPT, [Submit("script", 2)]),
        (UP, [replace(CELLS, busy=True)], SCRIPT, []),
        (UP, [replace(CELLS, busy=True, is_movable=True)], SCRIPT, []),
        (UP, [replace(CELLS, busy=True, is_movable=True), standing(2)], SCRIPT, []),
        (UP, [CELLS, standing(2)], WAITING, [EndWorld(2, NO_SCRIPT), Submit("first", 1)]),
        (UP, [CELLS, standing(2)], [], [EndWorld(2, NO_SCRIPT)]),
        (UP, [CELLS, ON_SCRIPT], WAITING, []),
        (UP, [CELLS, MOVABLE], SCRIPT, []),
        (UP, [ON_SCRIPT], WAITING, []),
        (UP, [CELLS, EXITING], WAITING, []),
        (UP, [EXITING], SCRIPT, []),
        (UP, [CELLS, replace(ON_SCRIPT, busy=False)], [], [EndWorld(2, SCRIPT_ENDED)]),
        (
            UP,
            [replace(ON_SCRIPT, busy=False)],
            [],
            [StartWorld(3, TWO), EndWorld(2, SCRIPT_ENDED)],
        ),
        (FOUR, [CELLS, ON_SCRIPT], [], []),
        (FOUR, [CELLS, MOVABLE], [], [StartWorld(3, world(4))]),
        (
            FOUR,
            [CELLS, MOVABLE, standing(3, size=4)],
            [],
            [EndWorld(1, "replaced by the next generation"), MoveRun(2)],
        ),
        (FOUR, [replace(MOVABLE, replays=("script",)), AGAIN], WAITING, []),
        (FOUR, [replace(MOVABLE, run="script"), replace(AGAIN, at_edge=True)], [], [MoveRun(2)]),
        (FOUR, [replace(AGAIN, at_edge=True)], SCRIPT, [Submit("script", 3)]),
    ],
)
def test_a_script_gets_a_world_of_its_own_beside_that_of_the_cells(
    wish, worlds, queue, actions
) -> None:
    assert planned(wish, worlds, queue) == actions


def test_a_cell_waits_for_the_script_before_it_and_finds_its_variables() -> None:
    simulation = Scripts(["cell", "script", "cell", "script", "script", "cell"])

    simulation.go()

    assert simulation.done == [
        ("cell", 1), ("script", 2), ("cell", 1), ("script", 3), ("script", 4), ("cell", 1),
    ]  # fmt: skip
    assert simulation.most == 2


def test_scripts_alone_leave_one_fresh_world() -> None:
    simulation = Scripts(["script"] * 3)

    simulation.go()

    assert simulation.done == [("script", 1), ("script", 2), ("script", 3)]
    assert [world.use for world in simulation.worlds] == [WorldUse.FRESH]
    assert simulation.most == 1


@dataclass
class Scripts:
    """A cluster that does what is planned until nothing is left to do; a run takes two turns."""

    queue: list[str]
    worlds: list[ObservedWorld] = field(default_factory=list)
    done: list[tuple[str, int]] = field(default_factory=list)
    most: int = 0
    newest: int = 0

    def go(self) -> None:
        """Let it come to rest."""
        before = None
        while before != (self.worlds, self.queue):
            before = [*self.worlds], [*self.queue]
            waiting = [QueuedRun(one, 0, is_script=one == "script") for one in self.queue]
            made = plan(
                UP, TWO, self.worlds, waiting, next_generation=self.newest + 1, failures=0, now=0.0
            )
            self.worlds = [after for one in self.worlds if (after := self.next(one)) is not None]
            for action in made:
                self.carry_out(action)
            self.most = max(self.most, len(self.worlds))

    def next(self, one: ObservedWorld) -> ObservedWorld | None:
        """Return a world after a turn; that of a script ends by itself."""
        if one.is_exiting:
            return None
        if one.busy and one.use is WorldUse.SCRIPT:
            return replace(one, is_exiting=True, fact=replace(one.fact, state=BROKEN))
        ready = replace(one.fact, state=READY)
        return replace(one, fact=ready, prepared=True, busy=False)

    def carry_out(self, action: Action) -> None:
        match action:
            case StartWorld(generation):
                self.newest = generation
                self.worlds.append(standing(generation, STARTING, prepared=False))
            case EndWorld(generation):
                self.worlds = [one for one in self.worlds if one.fact.generation != generation]
            case Submit(run, generation):
                self.queue.pop(0)
                self.done.append((run, generation))
                use = WorldUse.SCRIPT if run == "script" else WorldUse.CELLS
                self.worlds = [
                    replace(one, busy=True, use=use) if one.fact.generation == generation else one
                    for one in self.worlds
                ]
