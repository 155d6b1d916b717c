"""Whatever happens to nodes, ranks and supervisor, a run continues and each step counts once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from operator import attrgetter

import pytest

from tests.simulation.model_cluster import END_SECONDS, Clock, Copies, Lineage, ModelCluster, Places
from tests.weekly import WEEKLY
from workbench.core.cluster.model import ResizeAt
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.moment import Moment
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import Assignment, Run, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Command, Ending, StopAt
from workbench.core.run.run_options import RunOptions
from workbench.core.run_id import execution_id
from workbench.core.world.world import Host, World
from workbench.errors import StoreUnavailable
from workbench.store import Store
from workbench.supervisor.loop import Supervisor

HISTORIES = 10_000 if WEEKLY else 40
BATCH = 40
EVENTS = 12
TOTAL = 60
MOST_SECONDS = 1_500.0
TURN_SECONDS = 0.2
DEEDS = (
    ("cluster", ("start_world", "submit", "end_world", "send")),
    ("own", ("put_run_fact", "put_cluster_fact", "put_ranks")),
    ("own.attempts", ("continue_run",)),
    ("own.reports", ("add_batches",)),
)
WAYS = ("one", "all", "rows", "some", "transaction")  # of a connection into the store


class Killed(BaseException):
    """The supervisor ends here, as by SIGKILL."""


class History:
    """One seeded life of a run, on nodes that come and go."""

    def __init__(self, store: Store, own: Store, seed: int) -> None:
        self.chance = random.Random(seed)
        self.store, self.own, self.name = store, own, f"c{seed}"
        self.clock = Clock()
        self.places = Places(self.clock, self.chance)
        self.cluster = ModelCluster(self.clock, self.places, self.chance, TOTAL)
        self.files = Copies(self.places, store)
        self.share = self.chance.choice([0.0, 0.0, 0.01, 0.03])
        self.is_away = self.is_unread = False  # the store is not written, and not read either
        self.is_kind = False
        self.is_damaged = False
        self.noticed = 0
        self.times = set[ResizeAt]()  # when a run was to move, since its attempt began
        self.seen = 0
        self.was_unread = False  # so that an older wish may hold
        for thing, names in DEEDS:
            for name in names:
                self._endanger(attrgetter(thing)(self), name)
        for name in WAYS:
            self._hide(name)
        self.nodes = self.chance.randint(1, 4)
        self.ask(self.nodes)
        self.run = f"260101-{seed // 10**6:06}-aaaa"
        self.retries = self.chance.choice([0, 1, 3, 20])
        wish = RunWish(
            f"260101-{seed % 10**6:06}-aaaa",
            f"run{seed}",
            RunKind.SCRIPT if seed % 2 else RunKind.CELL,
            "",
            self.name,
            path="/train.py" if seed % 2 else "",
            options=RunOptions(retries=self.retries),
        )
        self.run = self.store.wish_run(wish).id
        self.start()

    # -- what happens

    def live(self) -> Run:
        """Let everything happen, and then nothing more until the run has ended."""
        for _ in range(EVENTS):
            for _ in range(self.chance.randint(1, 40)):
                self.turn()
            for _ in range(self.chance.choice([1, 1, 1, 2, 3])):
                self.chance.choice(self.events())()
        self.is_kind, self.is_away, self.is_unread = True, False, False
        self.cluster.is_kind = True
        self.places.cut.clear()
        self.ask(self.nodes)  # after three worlds that did not start, a cluster waits for a wish
        end = self.clock.now + MOST_SECONDS
        while not self.fact().state.ended:
            assert self.clock.now < end, f"{self.fact()} {self.cluster.worlds} {self.places.nodes}"
            self.turn()
        return self.store.run(self.run)

    def events(self) -> list[Callable[[], None]]:
        return [
            self.resize, self.resize, self.kill, self.kill, self.lose, self.notice, self.flap,
            self.revive, self.away, self.unread, self.damage, self.empty,
        ]  # fmt: skip

    def empty(self) -> None:
        """Ask for no nodes, which a run waits for that can continue."""
        self.ask(0)

    def resize(self) -> None:
        self.ask(self.chance.randint(1, 5))

    def kill(self) -> None:
        worlds = [w for w in self.cluster.worlds.values() if self.clock.now >= w.ready_at]
        if worlds:
            world = self.chance.choice(worlds)
            self.cluster.kill(world.generation, self.chance.randrange(world.world.size))

    def lose(self) -> None:
        if address := self.some_node():
            self.places.lose(address)

    def notice(self) -> None:
        if address := self.some_node():
            self.places.notice(address, self.chance.choice([5.0, 120.0]))
            self.noticed += 1

    def flap(self) -> None:
        if address := self.some_node():
            self.places.cut ^= {address}

    def damage(self) -> None:
        if self.chance.random() < 0.5:
            self.is_damaged = True
            self.places.damage()

    def away(self) -> None:
        self.is_away = not self.is_away

    def unread(self) -> None:
        self.is_unread = not self.is_unread
        self.was_unread = True

    def revive(self) -> None:
        """Kill the supervisor, and start another after a moment."""
        self.is_away = self.is_unread = False
        for _ in range(self.chance.choice([0, 5, 50])):
            self.clock.now += TURN_SECONDS
            self.cluster.turn()
            self.places.turn()
        self.start()

    # -- how it is played

    def start(self) -> None:
        for _ in range(50):
            try:
                self.supervisor = Supervisor(
                    self.name,
                    self.own,
                    self.cluster,
                    self.moment,
                    self.places,
                    self.files,  # type: ignore[arg-type]  # simulated
                )
                self.supervisor.open()
                return
            except Killed:
                continue
        raise AssertionError("it was killed too often")

    def moment(self) -> Moment:
        return Moment(1.7e9 + self.clock.now, self.clock.now)

    def ask(self, nodes: int) -> None:
        least = self.chance.randint(1, max(1, nodes))
        early = self.chance.random() < 0.5
        fleet = FleetWish("rehearsal", nodes=nodes, min_nodes=least, slots=1, starts_early=early)
        at = self.chance.choice([*ResizeAt])
        self.times.add(at)
        self.store.wish_cluster(self.name, up=True, ranks=0, fleet=fleet, resize_at=at)

    def turn(self) -> None:
        self.clock.now += self.chance.choice([0.05, TURN_SECONDS, TURN_SECONDS, 0.5])
        self.cluster.turn()
        try:
            assert self.supervisor.tick()
        except Killed:
            self.revive()
        attempts = [a.resumed_at for a in self.store.attempts.past(self.run)]
        is_in_order = attempts == sorted(attempts) or -1 in attempts or self.is_damaged
        is_in_order = is_in_order or bool(self.files.all_lost)
        assert is_in_order, "progress was given up"
        self.check_departures()

    def check_departures(self) -> None:
        """Each attempt has left its ranks where the wishes allow it."""
        past = self.store.attempts.past(self.run)
        assert sum(one.failed for one in past) <= self.retries, "it was tried again too often"
        assert not any(one.failed and "its node is gone" in one.message for one in past)
        for attempt in past[self.seen :]:
            was_moved = attempt.state is RunState.STOPPED and not attempt.left_nodes
            if was_moved and not self.noticed and not self.was_unread:
                assert self.times != {ResizeAt.END}, "it left before its end"
                ends = self.cluster.epoch_ends
                is_at_end = (self.run, attempt.iteration) in ends
                assert self.times != {ResizeAt.EPOCH} or is_at_end, "it left within an epoch"
            self.seen += 1
            wish = self.store.cluster_wish(self.name)
            self.times = {wish.resize_at} if wish else set()
            self.was_unread = self.is_unread

    def fact(self):
        return self.store.run(self.run).fact

    def some_node(self) -> str:
        able = [n for n in self.places.nodes.values() if n.state is not NodeState.LEAVING]
        return self.chance.choice(able).address if able else ""

    def relent(self) -> None:
        for thing, names in DEEDS:
            for name in names:
                delattr(attrgetter(thing)(self), name)
        for name in WAYS:
            delattr(self.own, name)

    def _hide(self, name: str) -> None:
        way = getattr(self.own, name)

        def go(*args: object, **options: object) -> object:
            if self.is_unread:
                raise StoreUnavailable("The store is locked", "wait.")
            return way(*args, **options)

        setattr(self.own, name, go)

    def _endanger(self, thing: object, name: str) -> None:
        deed = getattr(thing, name)

        def do(*args: object, **options: object) -> object:
            if self.is_away and thing is not self.cluster:
                raise StoreUnavailable("The store is locked", "wait.")
            if not self.is_kind and self.chance.random() < self.share:
                raise Killed
            answer = deed(*args, **options)
            if not self.is_kind and self.chance.random() < self.share:
                raise Killed
            return answer

        setattr(thing, name, do)


@pytest.mark.parametrize("first", range(0, HISTORIES, BATCH))
def test_a_run_comes_to_its_end_with_each_step_once(stores, first) -> None:
    for seed in range(first, first + BATCH):
        print(f"seed {seed}")  # the last one shown is the one that failed
        history = History(*stores, seed)
        run = history.live()
        history.relent()
        iterations = [p.iteration for p in history.store.reports.points(run.id) if p.name == "loss"]
        assert len({*iterations}) == len(iterations), "a step was counted twice"
        assert run.fact.state is RunState.FINISHED or _may_end(history, run), run.fact
        if run.fact.state is RunState.FINISHED:
            assert run.fact.iteration == max(iterations) == TOTAL


def test_a_history_depends_on_its_seed_alone(tmp_path, monkeypatch) -> None:
    ends = []
    for seconds in (0.0, 1.0):  # that pass on this machine whenever it is asked for the time
        monkeypatch.setattr("time.monotonic", partial(next, count(1_000.0, seconds)))
        path = tmp_path / f"{seconds}.sqlite3"
        with Store(path) as store, Store(path) as own:
            history = History(store, own, 26)
            run = history.live()
            ends.append((run.fact, history.clock.now, history.chance.random()))

    assert ends[0] == ends[1]


@pytest.mark.parametrize("seed", range(10))
def test_a_node_that_hangs_is_left_and_replaced_without_a_retry(stores, seed) -> None:
    history = History(*stores, 600_000 + seed)
    history.relent()
    history.cluster.is_kind = True
    while history.store.attempts.newest_snapshot(history.run) < 0:
        history.turn()
    world = next(one for one in history.cluster.worlds.values() if not one.is_over)
    if world.world.size == 1:
        return  # no other rank waits for it
    rank = history.chance.randrange(world.world.size)
    address = world.world.placement[rank]
    history.places.hung[address] = history.clock.now

    while history.fact().attempt == 1:
        history.turn()

    lost = history.store.attempts.past(history.run)[-1]
    assert not lost.failed
    assert lost.message.startswith(f"Rank {rank} on {address} did not answer for 6")
    while not history.fact().state.ended:
        history.turn()
    assert history.fact().state is RunState.FINISHED
    assert address not in {node.address for node in history.places.nodes.values()}


@pytest.mark.parametrize("seed", range(20))
def test_the_end_of_a_time_to_live_loses_no_step_of_a_run(stores, seed) -> None:
    history = History(*stores, 500_000 + seed)
    history.relent()
    history.cluster.is_kind = True
    while history.store.attempts.newest_snapshot(history.run) < 0:
        history.turn()
    wish = history.store.cluster_wish(history.name)
    lives = history.chance.choice([0.5, 4.0, 10.0, 10.0])
    end = history.moment().wall + lives
    fleet = replace(wish.fleet, expires=end)
    history.store.wish_cluster(history.name, up=True, ranks=0, fleet=fleet)
    if resized := history.chance.random() < 0.3:
        fleet = replace(fleet, nodes=history.nodes + 1)
        history.store.wish_cluster(history.name, up=True, ranks=0, fleet=fleet)

    while history.supervisor.tick():
        history.clock.now += TURN_SECONDS
        history.cluster.turn()

    fact, wish = history.fact(), history.store.cluster_wish(history.name)
    assert history.moment().wall <= end + TURN_SECONDS + END_SECONDS + 1.0
    assert (wish.up, wish.fleet.nodes) == (False, history.nodes + resized)
    assert fact.state is RunState.STOPPED
    assert ", because the cluster's time to live is over" in fact.message
    assert fact.remark.startswith("The cluster's time to live is over")
    if lives > 9.0:  # else the ranks have no time to come to a boundary, and are interrupted
        saved = history.store.attempts.newest_snapshot(history.run)
        assert fact.stopped_at == fact.iteration == saved
        assert "; 0 steps lost. Resume it with `workbench run --resume" in fact.message


def _may_end(history: History, run: Run) -> bool:
    """Return whether a run ended for a reason that is no fault of the supervisor."""
    snapshot = history.store.attempts.newest_snapshot(run.id)
    past = history.store.attempts.past(run.id)
    # The store was away while it trained.
    is_unheard = not run.fact.started or not history.store.attempts.has_begun(run.id)
    never_saved = all(one.snapshot == NONE for one in (*past,)) and snapshot == NONE
    is_own = never_saved and "its node is gone" not in run.fact.failure
    no_snapshot = is_own or is_unheard
    is_in_vain = "times in a row before it had completed a snapshot" in run.fact.message
    return no_snapshot or is_in_vain or sum(one.failed for one in past) == history.retries


def test_an_example_that_is_visited_twice_is_found() -> None:
    once = Lineage().on(2)
    twice = Lineage(rest=((0, 1), ()), visited=tuple(range(48)))

    for _ in range(12):
        once = once.step()
    assert (once.epoch, once.iteration) == (1, 12)
    with pytest.raises(AssertionError, match="twice"):
        twice.step()


def test_ranks_that_begin_again_have_forgotten_where_they_were_to_leave() -> None:
    clock, chance, address = Clock(), random.Random(0), "10.0.0.1"
    places = Places(clock, chance)
    places.nodes["i-1"] = Node("i-1", NodeState.READY, address, 1, since=clock.now)
    places.disks[address], places.agreed = [], 1
    cluster = ModelCluster(clock, places, chance, TOTAL)
    cluster.start_world(1, World((Host(address, 1),), 1))
    wish = RunWish("260101-000000-aaaa", "run", RunKind.CELL, "", "c")

    def train(attempt: int, *commands: Command) -> Ending:
        assignment = Assignment(wish, ranks=1, attempt=attempt, resume=attempt > 1)
        cluster.submit(1, assignment)
        for command in commands:
            cluster.send(1, (0,), command)
        world = cluster.worlds[1]
        while not world.is_over:
            clock.now += TURN_SECONDS
            cluster.turn()
        return world.sent[assignment.execution, 0].ending

    left = train(1, StopAt(execution_id(wish.id, 1), 1, epoch=True))

    assert left == Ending("stopped", 24)
    assert train(2) == Ending("finished", TOTAL)
