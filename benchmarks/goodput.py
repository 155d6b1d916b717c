"""The share of paid time that becomes kept progress, on recorded histories of spot nodes.

A recording says when each node was there; no other node is given to any policy. Each is paid from
its beginning to its end, or until it is given back. A training is as fast as its number of nodes.
What is decided is decided by the functions that decide for real nodes; what an action costs was
measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from workbench.core.cluster.target_world import waits_for_more
from workbench.core.fleet.membership import members
from workbench.core.fleet.model import Node, NodeState
from workbench.core.fleet.node_health import (
    LEAST_LEAD_SECONDS,
    apply_notice,
    leave_in_time,
    leave_noticed,
)
from workbench.core.fleet.provider import find_provider
from workbench.core.fleet.spot_history import NodeStay, SpotHistory, read_history
from workbench.core.recovery.departure import is_saved_for
from workbench.core.recovery.snapshots import interval

from .figures import BenchmarkFailed, Row, Series
from .place import Place

HOUR = 3600.0
NOTICE_SECONDS = 120.0
BOOTS = (90.0, 240.0, 480.0)
DETECT_SECONDS = 2.3
RESTART_SECONDS = 2.8  # with DETECT_SECONDS, the measured loss of a silent node over ssh
PAUSE_SECONDS = 0.8
"""Of a move over ssh."""

SNAPSHOT_SECONDS = 0.02
"""How much longer steps took with a snapshot of 100 MB than without."""

COUNTED_SECONDS = 0.087
"""What the ranks counted for it, where they use all cores: all of the writer's processor time."""

GIVE_BACK_SECONDS = 3.0
"""From the beginning of a move until a node that is left costs nothing more."""

CREDITED_SECONDS = find_provider("ec2").credited_seconds
STEP_SECONDS = 0.5
TORCHRUN_SECONDS = 45.0  # from a kill to the next step by its default settings, one host, gloo
ARTICLE_INTERVAL = 1800.0
PRICED_HOURS = 100.0


@dataclass
class Replay:
    """One recording, on which a training lives.

    Args:
        boot: Seconds until a new node is ready.
        notice: Seconds from the notice to the end of a node; 0 for none.
    """

    history: SpotHistory
    boot: float
    notice: float = 0.0
    now: float = -1.0
    paid: float = 0.0
    kept: float = 0.0
    there: dict[str, Node] = field(default_factory=dict)
    stays: dict[str, NodeStay] = field(default_factory=dict)
    world: frozenset[str] = frozenset()
    paused_until: float = 0.0
    saved_at: float = 0.0
    noticed: frozenset[str] = frozenset()
    moves: int = 0

    def __post_init__(self) -> None:
        self.nodes = self.history.most
        self.every = STEP_SECONDS * interval(COUNTED_SECONDS, STEP_SECONDS, self.nodes)
        self._coming = [*self.history.stays]

    @property
    def goodput(self) -> float:
        """Kept node-seconds of progress over paid node-seconds."""
        return self.kept / self.paid

    @property
    def is_over(self) -> bool:
        """Whether the recording has ended."""
        return self.now >= self.history.seconds

    def pass_until(self, moment: float) -> None:
        """Let time pass without events: nodes are paid, and the world trains."""
        self.paid += len(self.there) * (moment - self.now)
        trained = moment - max(self.now, min(moment, self.paused_until))
        self.kept += len(self.world) * trained * self.every / (self.every + SNAPSHOT_SECONDS)
        self.now = moment

    def next_event(self) -> float:
        """Return when a node comes, is ready, gets its notice, is to be left, or is lost next."""
        times = [self.history.seconds, *(stay.begin for stay in self._coming[:1])]
        for id_, stay in self.stays.items():
            times += [stay.begin + self.boot, stay.end]
            if self.notice and math.isfinite(stay.end):
                ready = max(stay.begin, stay.end - self.notice)
                times += [ready, max(ready, self.there[id_].reclaimed - LEAST_LEAD_SECONDS)]
        return min(moment for moment in times if moment > self.now)

    def happen(self) -> set[str]:
        """Change nodes as is due; return those that are lost."""
        lost = {id_ for id_, stay in self.stays.items() if stay.end <= self.now}
        for id_ in lost:
            del self.there[id_], self.stays[id_]
        while self._coming and self._coming[0].begin <= self.now:
            stay = self._coming.pop(0)
            id_ = f"{stay.name} {stay.begin}"  # a recording may name two nodes alike
            self.stays[id_] = stay
            self.there[id_] = Node(id_, NodeState.BOOTING, id_, 1, since=self.now)
        for id_, stay in self.stays.items():
            node = self.there[id_]
            if node.state is NodeState.BOOTING and stay.begin + self.boot <= self.now:
                node = replace(node, state=NodeState.READY, since=self.now)
            if self.notice and not node.reclaimed and stay.end - self.notice <= self.now:
                node = apply_notice(node, stay.end, self.now)
            self.there[id_] = node
        return lost

    def save_for(self, noticed: frozenset[str]) -> None:
        """Save if some of the nodes that train have a notice that had none before."""
        age = max(0.0, self.now - self.saved_at) % self.every
        if is_saved_for(noticed, self.noticed, age):
            self.kept -= len(self.world) * SNAPSHOT_SECONDS
            self.saved_at = self.now
        self.noticed = noticed

    def redo(self) -> None:
        """Take back the progress since the last snapshot."""
        trained = max(0.0, self.now - max(self.saved_at, self.paused_until))
        self.kept -= len(self.world) * (trained % self.every)

    def give_back(self) -> None:
        """End nodes that are left, unless they are free where the provider takes them soon."""
        for id_, node in [*self.there.items()]:
            is_left = node.state is NodeState.LEAVING and id_ not in self.world
            if is_left and self.now - self.stays[id_].begin >= CREDITED_SECONDS:
                self.paid += min(GIVE_BACK_SECONDS, self.stays[id_].end - self.now)
                del self.there[id_], self.stays[id_]

    def ready(self) -> frozenset[str]:
        """Return the nodes that have booted and are there."""
        return frozenset(i for i, one in self.there.items() if one.state is not NodeState.BOOTING)

    def begin(self, world: frozenset[str], pause: float) -> None:
        """Continue on other nodes after a pause."""
        self.world, self.paused_until = world, self.now + pause
        self.saved_at = self.paused_until
        self.moves += 1
        for id_, node in self.there.items():
            if node.state in (NodeState.READY, NodeState.JOINED):
                state = NodeState.JOINED if id_ in world else NodeState.READY
                since = node.since if state is node.state else self.now
                self.there[id_] = replace(node, state=state, since=since)


def ours(replay: Replay) -> Replay:
    """Move as a supervisor does, and continue on what is left after losses."""
    while not replay.is_over:
        replay.pass_until(min(replay.next_event(), _decides_at(replay)))
        lost = replay.happen()
        staying = [n for n in replay.there.values() if n.state is not NodeState.LEAVING]
        noticed = [node for node in staying if node.reclaimed]
        replay.save_for(replay.world & {node.id for node in noticed})
        for node in leave_in_time(noticed, replay.world, LEAST_LEAD_SECONDS, replay.now):
            replay.there[node.id] = leave_noticed(node, replay.now)
        able = _able(replay)
        if lost & replay.world:
            replay.redo()
            replay.begin(able, DETECT_SECONDS + RESTART_SECONDS)
        elif able != replay.world and not _waits(replay, replay.now):
            replay.begin(able, PAUSE_SECONDS)
        replay.give_back()
    return replay


def restart_all(replay: Replay) -> Replay:
    """Restart all workers from the last snapshot at each change of the nodes that are ready."""
    while not replay.is_over:
        replay.pass_until(replay.next_event())
        replay.happen()
        if replay.ready() != replay.world:
            replay.redo()
            replay.begin(replay.ready(), TORCHRUN_SECONDS)
    return replay


def restart_rarely_saved(replay: Replay) -> Replay:
    """Do the same with a snapshot of each half hour."""
    replay.every = ARTICLE_INTERVAL
    return restart_all(replay)


POLICIES: dict[str, tuple[Callable[[Replay], Replay], float]] = {
    "workbench": (ours, NOTICE_SECONDS),
    "workbench, no notice": (ours, 0.0),
    "restart at each change": (restart_all, 0.0),
    "the same, a snapshot each half hour": (restart_rarely_saved, 0.0),
}


def live(policy: str, history: SpotHistory, boot: float) -> Replay:
    """Return a training of a policy at the end of a recording."""
    act, notice = POLICIES[policy]
    return act(Replay(history, boot, notice))


def measure(
    place: Place,
    rounds: int,
    say: Callable[[str], None],
    recordings: Sequence[Path] | None = None,
    boots: Sequence[float] | None = None,
    price: float = 0.0,
) -> list[Row]:
    """Replay recordings: what is lost, and what progress costs.

    Args:
        recordings: Files; see ``core.fleet.spot_history``.
        boots: Seconds until a new node is ready.
        price: $ of a node per hour.

    Raises:
        BenchmarkFailed: No recording is given.
    """
    if not recordings:
        raise BenchmarkFailed("It replays recordings; name each with --history FILE.")
    rows = []
    for path in recordings:
        history = read_history(path.read_text(encoding="utf-8"), str(path))
        say(
            f"{path.name}: {history.seconds / HOUR:.0f} h, up to {history.most} nodes, "
            f"{100 * history.lost_per_hour:.1f} % lost per hour"
        )
        for boot in boots or BOOTS:
            found = {name: live(name, history, boot).goodput for name in POLICIES}
            say(f"boot {boot:.0f} s: { ({name: round(one, 4) for name, one in found.items()}) }")
            of = f"{path.stem}, a node boots in {boot:.0f} s"
            figures: list[tuple[str, str, Callable[[float], float]]] = [
                (f"paid time lost, {of}", "%", lambda one: 100 * (1 - one))
            ]
            if price:
                hours = f"{PRICED_HOURS:.0f} node hours of progress"
                what = f"$ for {hours}, {of}"
                figures.append((what, "", lambda one: PRICED_HOURS * price / one))
            for what, unit, value in figures:
                own, *others = (Series(name, (value(one),)) for name, one in found.items())
                rows += [Row(what, unit, own, other, note="a recording") for other in others]
    return rows


def draw(path: Path, histories: dict[str, SpotHistory], boot: float = BOOTS[0]) -> None:
    """Draw the goodput of each policy on each recording, for the documentation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(POLICIES):
        shares = [live(name, history, boot).goodput for history in histories.values()]
        spots = [number + (place - 1.5) * 0.21 for number in range(len(histories))]
        bars = axes.bar(spots, shares, 0.2, label=name)
        axes.bar_label(bars, [f"{share:.3f}" for share in shares], fontsize=7)
    labels = [
        f"{name}\n{history.most} nodes, {100 * history.lost_per_hour:.0f} % lost per hour"
        for name, history in histories.items()
    ]
    axes.set_xticks(range(len(histories)), labels, fontsize=8)
    axes.set_ylabel("goodput")
    axes.set_ylim(0, 1.25)
    axes.set_title(f"Recorded spot nodes, each ready {boot:.0f} s after it was given", fontsize=10)
    axes.legend(ncols=2, fontsize=8, loc="upper center")
    figure.savefig(path, dpi=120)


def _able(replay: Replay) -> frozenset[str]:
    there = replay.there
    return frozenset(node.id for node in members(there.values(), there, replay.nodes))


def _waits(replay: Replay, now: float) -> bool:
    return waits_for_more(
        [*replay.there.values()],
        _able(replay),
        replay.world,
        starts_early=True,
        has_begun=True,
        has_work=True,
        now=now,
    )


def _decides_at(replay: Replay) -> float:
    """Return when nodes that are ready no longer wait for others; infinite if none waits."""
    if _able(replay) <= replay.world or not _waits(replay, replay.now):
        return math.inf
    soon = next(t for t in _ticks(replay.now) if t > replay.next_event() or not _waits(replay, t))
    return soon


def _ticks(now: float) -> Iterator[float]:
    while True:
        now += 0.25
        yield now
