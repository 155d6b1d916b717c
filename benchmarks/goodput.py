"""The share of paid time that becomes kept progress, and its cost, in months of spot nodes.

The months are simulated. A node's losses are made up, not recorded: either independent, at 5 % per
hour (Poisson), or in bursts of the same mean rate, in which the provider takes many nodes back
within 20 minutes. Every node is paid from its purchase on; a training is as fast as its number of
nodes. What is decided is decided by the functions that decide for real nodes; what an action costs
was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from workbench.core.cluster.target_world import waits_for_more
from workbench.core.fleet.model import Node, NodeState
from workbench.core.recovery.snapshots import interval

from .figures import Row, Series
from .place import Place

HOUR, MONTH = 3600.0, 30 * 86_400.0
LOSS = 0.05
"""Of a node, per hour."""

NOTICE_SECONDS = 120.0
BOOT_SECONDS = 90.0
DETECT_SECONDS = 2.3
RESTART_SECONDS = 2.8  # with DETECT_SECONDS, the measured loss of a silent node over ssh
PAUSE_SECONDS = 0.8
"""Of a move over ssh."""

SNAPSHOT_SECONDS = 0.02
"""How much longer steps took with a snapshot of 100 MB than without."""

COUNTED_SECONDS = 0.087
"""What the ranks counted for it, where they use all cores: all of the writer's processor time."""

PRICE = 0.20
"""$ of a node per hour, made up; costs are in proportion to it."""

STEP_SECONDS = 0.5
TORCHRUN_SECONDS = 45.0  # from a kill to the next step by its default settings, one host, gloo
ARTICLE_INTERVAL = 1800.0
SEEDS = 5
MOST_PERCENT = 1.0
STORM_SECONDS, CALM_SECONDS = 1200.0, 24 * HOUR
_CALM_SHARE = 0.2
"""Of the losses of a month with bursts are outside of them."""


@dataclass(frozen=True)
class Weather:
    """How nodes are lost.

    Args:
        is_bursty: Whether most are lost together.
        noticed: Share of the losses with a notice of two minutes.
    """

    name: str
    is_bursty: bool = False
    noticed: float = 0.0

    def hazard(self, now: float) -> float:
        """Return the losses of a node per second."""
        mean = LOSS / HOUR
        if not self.is_bursty:
            return mean
        if now % CALM_SECONDS < STORM_SECONDS:
            return mean * (1 - _CALM_SHARE) * CALM_SECONDS / STORM_SECONDS
        return mean * _CALM_SHARE

    def lost_at(self, now: float, chance: Random) -> float:
        """Return when a node that is bought now is lost."""
        left = chance.expovariate(1.0)
        while True:
            begin = now - now % CALM_SECONDS
            storm = begin + STORM_SECONDS
            until = storm if now < storm else begin + CALM_SECONDS
            if (used := self.hazard(now) * (until - now)) >= left:
                return now + left / self.hazard(now)
            left, now = left - used, until


@dataclass
class Month:
    """One month of a fleet.

    Args:
        nodes: The desired number.
        every: Seconds between snapshots.
    """

    nodes: int
    weather: Weather
    chance: Random
    every: float
    now: float = 0.0
    paid: float = 0.0
    kept: float = 0.0
    there: dict[str, Node] = field(default_factory=dict)
    ready_at: dict[str, float] = field(default_factory=dict)
    lost_at: dict[str, float] = field(default_factory=dict)
    notice_at: dict[str, float] = field(default_factory=dict)
    world: frozenset[str] = frozenset()
    paused_until: float = 0.0
    saved_at: float = 0.0
    bought: int = 0

    @property
    def goodput(self) -> float:
        """Kept node-seconds of progress over paid node-seconds."""
        return self.kept / self.paid

    @property
    def cost(self) -> float:
        """$ for as much progress as all nodes make in a month without losses."""
        return PRICE * self.nodes * MONTH / HOUR / self.goodput

    @property
    def days(self) -> float:
        """Days for as much progress."""
        return self.nodes * MONTH / self.kept * MONTH / (24 * HOUR)

    def buy(self) -> None:
        """Buy what is missing."""
        staying = [n for n in self.there.values() if n.state is not NodeState.LEAVING]
        for _ in range(self.nodes - len(staying)):
            self.bought += 1
            id_ = f"i-{self.bought}"
            self.there[id_] = Node(id_, NodeState.BOOTING, id_, 1, since=self.now)
            self.ready_at[id_] = self.now + BOOT_SECONDS
            self.lost_at[id_] = lost = self.weather.lost_at(self.now, self.chance)
            has_notice = self.chance.random() < self.weather.noticed
            self.notice_at[id_] = lost - NOTICE_SECONDS if has_notice else math.inf

    def pass_until(self, moment: float) -> None:
        """Let time pass without events: nodes are paid, and the world trains."""
        self.paid += len(self.there) * (moment - self.now)
        trained = moment - max(self.now, min(moment, self.paused_until))
        self.kept += len(self.world) * trained * self.every / (self.every + SNAPSHOT_SECONDS)
        self.now = moment

    def next_event(self) -> float:
        """Return when a node is ready, noticed or lost next."""
        waits = [
            t for id_, t in self.ready_at.items() if self.there[id_].state is NodeState.BOOTING
        ]
        notices = [t for t in self.notice_at.values() if t > self.now]
        return min([*waits, *notices, *self.lost_at.values(), MONTH])

    def happen(self) -> tuple[set[str], set[str]]:
        """Change nodes as is due; return those that are noticed, and those that are lost."""
        noticed, lost = set[str](), set[str]()
        for id_, node in [*self.there.items()]:
            if self.lost_at[id_] <= self.now:
                lost.add(id_)
                for known in (self.there, self.ready_at, self.lost_at, self.notice_at):
                    del known[id_]
            elif self.notice_at[id_] <= self.now and node.state is not NodeState.LEAVING:
                noticed.add(id_)
                self.there[id_] = replace(node, state=NodeState.LEAVING, since=self.now)
            elif node.state is NodeState.BOOTING and self.ready_at[id_] <= self.now:
                self.there[id_] = replace(node, state=NodeState.READY, since=self.now)
        return noticed, lost

    def redo(self) -> None:
        """Take back the progress since the last snapshot."""
        trained = max(0.0, self.now - max(self.saved_at, self.paused_until))
        self.kept -= len(self.world) * (trained % self.every)

    def able(self) -> frozenset[str]:
        """Return the nodes that may carry a world."""
        return frozenset(i for i, node in self.there.items() if node.state is NodeState.READY)

    def begin(self, world: frozenset[str], pause: float) -> None:
        """Continue on other nodes after a pause."""
        self.world, self.paused_until = world, self.now + pause
        self.saved_at = self.paused_until


def ours(month: Month) -> Month:
    """Move at notices, continue on what is left after losses, and grow again by the rule."""
    while month.now < MONTH:
        month.buy()
        month.pass_until(min(month.next_event(), _decides_at(month)))
        _, lost = month.happen()
        able = month.able()
        if lost & month.world:
            month.redo()
            month.begin(able, DETECT_SECONDS + RESTART_SECONDS)
        elif able != month.world and not _waits(month, month.now):
            month.begin(able, PAUSE_SECONDS)
    return month


def restart_all(month: Month) -> Month:
    """Restart all workers once a lost node is replaced; notices are ignored."""
    while month.now < MONTH:
        month.buy()
        month.pass_until(month.next_event())
        _, lost = month.happen()
        if lost & month.world:
            month.redo()
            month.world = frozenset()
        able = month.able() | {i for i, n in month.there.items() if n.state is NodeState.LEAVING}
        if not month.world and len(able) >= month.nodes:
            month.begin(frozenset(able), TORCHRUN_SECONDS)
    return month


def end_all(month: Month) -> Month:
    """End all nodes after a loss, and begin with new ones from a snapshot of each half hour."""
    month.every = ARTICLE_INTERVAL
    while month.now < MONTH:
        month.buy()
        month.pass_until(month.next_event())
        _, lost = month.happen()
        if lost:
            month.redo()
            month.world = frozenset()
            for known in (month.there, month.ready_at, month.lost_at, month.notice_at):
                known.clear()
        elif not month.world and len(month.able()) >= month.nodes:
            month.begin(month.able(), TORCHRUN_SECONDS)
    return month


POLICIES: dict[str, Callable[[Month], Month]] = {
    "workbench": ours,
    "restart all workers": restart_all,
    "end all nodes": end_all,
}
WEATHERS = (
    Weather("no notice"),
    Weather("2 minutes of notice", noticed=1.0),
    Weather("bursts, no notice", is_bursty=True),
)


def lived(policy: Callable[[Month], Month], nodes: int, weather: Weather, seed: int) -> Month:
    """Return one month at its end."""
    every = STEP_SECONDS * interval(COUNTED_SECONDS, STEP_SECONDS, nodes)
    return policy(Month(nodes, weather, Random(seed), every))


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Compute months of 8 and 64 nodes: what is lost, what it costs, and how long it takes."""
    rows = []
    for nodes in (8, 64):
        for weather in WEATHERS:
            months = {
                name: [lived(policy, nodes, weather, seed) for seed in range(SEEDS)]
                for name, policy in POLICIES.items()
            }
            limit = MOST_PERCENT if nodes == 8 and not weather.is_bursty else None
            of = f", {nodes} spot nodes, {100 * LOSS:.0f} % lost per hour, {weather.name}"
            work = f"as much progress as without losses in {MONTH / (24 * HOUR):.0f} days{of}"
            figures: tuple[tuple[str, str, Callable[[Month], float], float | None], ...] = (
                ("paid time lost" + of, "%", lambda one: 100 * (1 - one.goodput), limit),
                (f"$ for {work}", "", lambda one: one.cost, None),
                (f"days for {work}", "", lambda one: one.days, None),
            )
            for what, unit, value, most in figures:
                found = {
                    name: Series(name, tuple(value(month) for month in lives))
                    for name, lives in months.items()
                }
                medians = {name: round(one.median, 4) for name, one in found.items()}
                say(f"{what}: {medians}")
                own = found.pop("workbench")
                note = f"simulated months, ${PRICE:.2f} per node and hour"
                rows += [
                    Row(what, unit, own, other, limit=most, note=note) for other in found.values()
                ]
    return rows


def draw(path: Path, nodes: int = 64) -> None:
    """Draw the goodput of each policy and what its progress costs, for the documentation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    shares, costs = figure.subplots(2, sharex=True)
    least = PRICE * nodes * MONTH / HOUR
    for place, (name, policy) in enumerate(POLICIES.items()):
        months = [lived(policy, nodes, weather, 0) for weather in WEATHERS]
        spots = [number + (place - 1) * 0.27 for number in range(len(WEATHERS))]
        bars = shares.bar(spots, [month.goodput for month in months], 0.25, label=name)
        shares.bar_label(bars, [f"{month.goodput:.3f}" for month in months], fontsize=8)
        bars = costs.bar(spots, [month.cost / 1000 for month in months], 0.25)
        costs.bar_label(bars, [f"${month.cost:,.0f}" for month in months], fontsize=8)
    costs.axhline(least / 1000, color="black", linewidth=0.8, linestyle=":")
    costs.set_xticks(range(len(WEATHERS)), [weather.name for weather in WEATHERS])
    shares.set_ylabel("goodput")
    shares.set_ylim(0, 1.12)
    costs.set_ylabel("thousand $")
    costs.margins(y=0.15)
    costs.set_title(
        f"cost of the progress that {nodes} nodes make in a month without losses (dotted: "
        f"${least:,.0f})",
        fontsize=9,
    )
    shares.set_title(
        f"{nodes} spot nodes at ${PRICE:.2f} per hour, 5 % lost per hour, one simulated month",
        fontsize=10,
    )
    shares.legend(ncols=3, fontsize=8, loc="lower right")
    figure.savefig(path, dpi=120)


def _waits(month: Month, now: float) -> bool:
    return waits_for_more(
        [*month.there.values()],
        month.able(),
        month.world,
        starts_early=True,
        has_begun=True,
        has_work=True,
        now=now,
    )


def _decides_at(month: Month) -> float:
    """Return when nodes that are ready no longer wait for others; infinite if none waits."""
    if month.able() <= month.world or not _waits(month, month.now):
        return math.inf
    return next(t for t in _ticks(month.now) if not _waits(month, t))


def _ticks(now: float) -> Iterator[float]:
    while True:
        now += 0.25
        yield now
