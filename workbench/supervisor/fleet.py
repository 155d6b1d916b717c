"""Keep a cluster's nodes as they are wished for: observe, plan, act; nothing here waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace

from workbench.cloud.interface import Cloud
from workbench.cloud.tags import EXPIRES
from workbench.core.cluster import ClusterWish
from workbench.core.cost import bill
from workbench.core.fleet import (
    FleetWish,
    Leftover,
    Machine,
    Node,
    NodeState,
    Offer,
    Place,
    Purchase,
)
from workbench.core.fleetfact import (
    Action,
    Buy,
    Clean,
    Finish,
    FleetFact,
    Open,
    Prepare,
    Put,
    Record,
    Release,
    Wait,
)
from workbench.core.fleetplan import plan_fleet
from workbench.core.membership import members
from workbench.core.orders import Order, Outcome
from workbench.core.refusal import Step, step
from workbench.core.session import Session
from workbench.core.world import Host
from workbench.errors import CloudRefused
from workbench.store import Store
from workbench.supervisor.errands import Errands
from workbench.supervisor.ledger import Ledger
from workbench.supervisor.lender import Fleet, Lender, Load, Look, Say
from workbench.supervisor.staging import Staging
from workbench.supervisor.visits import LONG, RETRY_SECONDS, Visits, Work

__all__ = ["Fleet", "FleetKeeper", "Lender", "Load"]

log = logging.getLogger("workbench.supervisor")

LOOK_SECONDS = 2.0  # while something is on its way
WATCH_SECONDS = 10.0  # while all is as it should be
PLAN_SECONDS = 1.0
NOTICE_SECONDS = 1.0  # of the two minutes that a notice leaves
OFFERS_SECONDS = 300.0
QUICK, AT_ONCE = 8, 32
_FIT = frozenset({NodeState.READY, NodeState.JOINED})


class FleetKeeper:
    """Makes the wish about one cluster's nodes true.

    Args:
        prepare: Makes a node ready for worlds, on a thread; raises ``MachineError``.
        save: Has a node send what its runs have left, before it goes; on a thread.
        leave: Takes off a node what this cluster has put there, before it is left; on a thread.
        pool: Does what takes long.
    """

    def __init__(
        self,
        cluster: str,
        store: Store,
        lender: Lender,
        prepare: Callable[[Session, FleetWish, Say], None] | None = None,
        pool: Executor | None = None,
        leave: Callable[[Session], None] = lambda session: None,
        save: Callable[[Session], None] = lambda session: None,
    ) -> None:
        self._cluster = cluster
        self._lender = lender
        visiting = pool or ThreadPoolExecutor(AT_ONCE, "nodes")
        self._errands = Errands(pool or ThreadPoolExecutor(QUICK, "fleet"), visiting, LONG)
        self._ledger = Ledger(cluster, store, lender.extra)
        self._troubles: dict[str, str] = {}
        work = Work(lender.open, lender.equip, prepare or Staging(cluster).prepare, save, leave)
        self._visits = Visits(work, self._errands, self._ledger.node, self._put, self._troubles)
        self._wish = ClusterWish(cluster, up=False, ranks=0)
        self._now = 0.0
        self._machines: dict[str, Machine] = {}
        self._seen = 0.0
        self._noticed: frozenset[str] = frozenset()
        self._offers: tuple[Offer, ...] | None = None
        self._left: tuple[Leftover, ...] | None = None
        self._cleaned = 0.0
        self._active = 0.0
        self._whole: frozenset[str] = frozenset()
        self._planned = 0.0
        self._fleet: Fleet | None = None
        self._waits = ""
        self._finished = False

    def tick(self, wish: ClusterWish, load: Load, now: float) -> Fleet:
        """Do one turn; it may write to the store, but waits for nothing else."""
        self._finished = self._finished and wish.revision == self._wish.revision
        news = self._errands.turn() or wish != self._wish or not self._active
        is_shaken = load.whole != self._whole  # a world that broke may have lost a node
        news = self._visits.hear() or news or is_shaken
        self._now = self._visits.now = now
        self._wish, self._whole = wish, load.whole
        self._ledger.open(wish.revision, now)
        if load.busy or load.waiting or not self._active:
            self._active = now
        if not self._finished:
            self._observe(now)
            self._visits.watch(at_once=is_shaken)
            if self._seen and (news or now - self._planned >= PLAN_SECONDS):
                self._planned, self._waits = now, ""
                self._join(load)
                for action in self._plan(load, now):
                    self._act(action, now)
                news = True
            self._ledger.meter(self._machines, now)
        if news or self._fleet is None:
            self._fleet = self._view(now)
        return self._fleet

    def session(self, host: Host) -> Session | None:
        """Return the session with a node, by its address; None where there is none."""
        return self._visits.at(host.address)

    def why_gone(self, address: str) -> str:
        """Return why nothing runs on a node any longer; empty where that is not known."""
        node = next((n for n in self._ledger.nodes.values() if n.address == address), None)
        if node is None or not (node.id in self._noticed or self._visits.is_lost(node.id)):
            return ""
        if node.id in self._noticed:
            return "the place took its node back"
        return "its node is gone, or out of reach"

    def close(self) -> None:
        """End the sessions, and wait for what is under way; the nodes stay."""
        self._errands.close()
        self._visits.close()

    # -- observe

    def _observe(self, now: float) -> None:
        if now - self._seen >= (LOOK_SECONDS if self._is_moving() else WATCH_SECONDS):
            self._errands.start("look", lambda: self._look(now), self._saw, now, LOOK_SECONDS)
        fleet = self._wish.fleet
        is_buying = (self._wish.up and fleet.nodes > 0) or bool(self._ledger.orders)
        if is_buying and fleet.place is not Place.HOSTS:
            cloud, needs = self._lender.cloud, fleet.needs
            gap = OFFERS_SECONDS if self._offers is not None else RETRY_SECONDS
            self._errands.start("offers", lambda: cloud.offers(needs), self._know, now, gap)
        self._errands.start("notices", self._lender.noticed, self._take_notice, now, NOTICE_SECONDS)

    def _is_moving(self) -> bool:
        """Whether the place may soon tell something else than it did."""
        nodes = self._ledger.nodes.values()
        standing = [node for node in nodes if node.state is not NodeState.GONE]
        return (
            not self._wish.up
            or len(standing) != self._wish.fleet.nodes
            or any(node.state not in _FIT for node in standing)
            or not all(contact.open for contact in self._visits.contacts)
            or any(order.outcome is Outcome.WRITTEN for order in self._ledger.orders.values())
        )

    def _look(self, now: float) -> Look:
        return Look(self._lender.cloud.machines(self._cluster), now)

    def _saw(self, look: Look | None, trouble: str) -> None:
        self._troubles["look"] = trouble
        if look is not None:
            self._machines = {machine.id: machine for machine in look.machines}
            self._seen = look.seen

    def _take_notice(self, noticed: frozenset[str] | None, trouble: str) -> None:
        self._troubles["notices"] = trouble
        if noticed is not None:
            self._noticed = noticed

    def _know(self, offers: tuple[Offer, ...] | None, trouble: str) -> None:
        self._troubles["offers"] = trouble
        if offers is not None:
            self._offers = self._ledger.offers = offers

    # -- plan

    def _join(self, load: Load) -> None:
        """Tell the nodes that carry a world from those that could."""
        for node in [*self._ledger.nodes.values()]:
            is_in = node.address in load.used
            if node.state is NodeState.READY and is_in:
                self._put(replace(node, state=NodeState.JOINED, since=self._now))
            elif node.state is NodeState.JOINED and not is_in:
                self._put(replace(node, state=NodeState.READY, since=self._now))

    def _plan(self, load: Load, now: float) -> list[Action]:
        nodes = tuple(self._ledger.nodes.values())
        orders = tuple(self._ledger.orders.values())
        fact = FleetFact(
            cluster=self._cluster,
            founded=self._ledger.account.founded,
            asked=self._ledger.account.asked,
            nodes=nodes,
            machines=tuple(self._machines.values()),
            seen=self._seen,
            orders=orders,
            offers=self._offers,
            contacts=self._visits.contacts,
            used=frozenset(node.id for node in nodes if node.address in load.used),
            noticed=self._noticed,
            calling=frozenset(t for t in self._ledger.orders if self._errands.is_on(("buy", t))),
            waiting=load.waiting,
            idle=now - self._active,
            left=self._left,
            cleaned=self._cleaned,
            extra=self._lender.extra,
        )
        return plan_fleet(self._wish.fleet, fact, wanted=self._wish.up, now=now)

    # -- act

    def _act(self, action: Action, now: float) -> None:
        match action:
            case Buy(order):
                self._buy(order, now)
            case Record(order):
                self._ledger.put_order(order)
            case Put(node):
                self._put(node)
            case Open(id_):
                if id_ in self._machines:
                    self._visits.open(id_, self._machines[id_])
            case Prepare(id_):
                self._visits.make_ready(id_, self._wish.fleet)
            case Release(ids, why):
                self._release(ids, why, now)
            case Wait(_, why):
                self._waits = why
            case Clean():
                self._clean(now)
            case Finish():
                log.info("nothing of %s is left", self._cluster)
                self._visits.leave_all()
                self._lender.forget()
                self._ledger.settle()
                self._finished = True

    def _put(self, node: Node) -> None:
        if node.state is NodeState.LEAVING:
            self._visits.save(node.id)
        self._ledger.put(node, self._machines.get(node.id), self._now)
        if node.state is NodeState.GONE:
            self._visits.forget(node.id)

    def _buy(self, order: Order, now: float) -> None:
        purchase = order.purchase
        key = ("buy", purchase.token)
        if self._errands.is_on(key):
            return
        sent = self._ledger.sent(purchase.token) or self._sending(purchase)
        # Written down first: who finds it repeats this very call, and nothing is bought twice.
        self._ledger.put_order(order, *sent)
        log.info("buying %d of %s: %s", purchase.count, "/".join(purchase.types), purchase.token)
        cloud = self._lender.cloud
        self._errands.start(
            key,
            lambda: _answer(cloud, purchase, *sent),
            lambda refusal, trouble: self._bought(order, refusal, trouble),
            now,
        )

    def _sending(self, purchase: Purchase) -> tuple[str, tuple[tuple[str, str], ...]]:
        expires = self._wish.fleet.expires
        tags = ((EXPIRES, str(int(expires))),) if expires else ()
        return self._lender.user_data(purchase), tags

    def _bought(self, order: Order, refusal: CloudRefused | None, trouble: str) -> None:
        """Record the answer; where none came, the same call is to be made again."""
        self._troubles["buy"] = trouble
        if trouble:
            return
        if refusal is not None and self._is_bought(order):
            return
        if refusal is None:
            answered = replace(order, at=self._now, outcome=Outcome.BOUGHT)
        elif step(refusal.kind) is Step.BACK_OFF:
            # It may have been done: such an answer says nothing about it.
            answered = replace(order, at=self._now, kind=refusal.kind, message=str(refusal))
        else:
            answered = replace(
                order,
                at=self._now,
                outcome=Outcome.REFUSED,
                kind=refusal.kind,
                message=str(refusal),
            )
        self._ledger.put_order(answered)

    def _is_bought(self, order: Order) -> bool:
        """Whether the place lists what the order was for, whatever its answer was."""
        known = self._ledger.orders.get(order.purchase.token)
        return known is not None and known.outcome is Outcome.BOUGHT

    def _release(self, ids: tuple[str, ...], why: str, now: float) -> None:
        save = self._visits.saving(ids)

        def work() -> None:
            save()
            self._lender.cloud.end(ids)

        def done(_: object, trouble: str) -> None:
            self._troubles["end"] = trouble

        if self._errands.start(("end", ids), work, done, now, RETRY_SECONDS):
            log.info("releasing %s: %s", ", ".join(ids), why)

    def _clean(self, now: float) -> None:
        cloud = self._lender.cloud
        self._errands.start(
            "clean",
            lambda: cloud.clean(self._cluster),
            lambda left, trouble: self._cleaned_up(left, trouble, now),
            now,
            RETRY_SECONDS,
        )

    def _cleaned_up(self, left: tuple[Leftover, ...] | None, trouble: str, began: float) -> None:
        self._troubles["clean"] = trouble
        if left is not None:
            self._left, self._cleaned = left, began

    # -- view

    def _view(self, now: float) -> Fleet:
        fleet, all_ = self._wish.fleet, self._ledger.nodes.values()
        return Fleet(
            hosts=tuple(self._hosts()),
            nodes=tuple(node for node in all_ if node.state is not NodeState.GONE),
            bill=bill(all_, budget=fleet.budget, expires=fleet.expires, now=now),
            message=self._waits or next(filter(None, self._troubles.values()), ""),
            finished=self._finished,
        )

    def _within_reach(self) -> set[str]:
        """Return the nodes with a session; one that was lost may come back below its world."""
        whole = {n.id for n in self._ledger.nodes.values() if n.address in self._whole}
        return self._visits.reached() | {id_ for id_ in whole if self._visits.session(id_)}

    def _hosts(self) -> Iterator[Host]:
        # Of hosts each has said, or was asked, how many it carries.
        wished = 0 if self._wish.fleet.place is Place.HOSTS else self._wish.fleet.slots
        for node in members(self._ledger.nodes.values(), self._within_reach()):
            if session := self._visits.session(node.id):
                slots = wished or node.slots
                yield replace(session.host, address=node.address, slots=slots)


def _answer(
    cloud: Cloud, purchase: Purchase, user_data: str, tags: tuple[tuple[str, str], ...]
) -> CloudRefused | None:
    """Make the call; a refusal is an answer too."""
    try:
        cloud.buy(purchase, user_data, tags)
    except CloudRefused as refusal:
        return refusal
    return None
