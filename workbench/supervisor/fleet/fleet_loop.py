"""Keep a cluster's nodes as desired: observe, plan, act, without waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.cloud_errors import ErrorKind, Reaction, step
from workbench.core.fleet.connection_limits import flows_for
from workbench.core.fleet.cost import FleetCost, bill, budget_clause, is_used_up
from workbench.core.fleet.facts import (
    Action,
    Buy,
    Clean,
    ExplainSilence,
    Finish,
    FleetFact,
    Open,
    PrepareNode,
    Put,
    RecordPurchase,
    Terminate,
    Wait,
)
from workbench.core.fleet.fleet_plan import plan_fleet
from workbench.core.fleet.membership import members
from workbench.core.fleet.model import (
    FleetWish,
    Leftover,
    Machine,
    Node,
    NodeState,
    Offer,
    Purchase,
)
from workbench.core.fleet.node_health import LEAST_LEAD_SECONDS, SessionState
from workbench.core.fleet.node_provider import EXPIRES, NodeProvider, Report
from workbench.core.fleet.purchases import PurchaseOutcome, PurchaseRecord
from workbench.core.supervisor import log_messages
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import CloudError, StoreUnavailable
from workbench.store import Store
from workbench.supervisor.data.staging import Staging
from workbench.supervisor.fleet.ledger import Ledger
from workbench.supervisor.fleet.node_sessions import LONG, RETRY_SECONDS, NodeSessions, SessionWork
from workbench.supervisor.tasks import BackgroundTasks

__all__ = ["Fleet", "FleetKeeper", "Load", "NodeProvider"]

log = logging.getLogger("workbench.supervisor")

LOOK_SECONDS = 2.0  # while nodes are starting or ending
WATCH_SECONDS = 10.0  # while everything is as desired
PLAN_SECONDS = 1.0
NOTICE_SECONDS = 1.0  # of the two minutes before an interruption
OFFERS_SECONDS = 300.0
EXPLAIN_SECONDS = 60.0  # a console's text, and this computer's network, change slowly
QUICK, AT_ONCE = 8, 32
# Follows the sentence that says why the provider rejects the credentials.
UNTIL_THEN = (
    "Until they work again nothing is bought; nodes to be deleted are shut down over ssh, or when "
    "their lease runs out."
)
_FIT = frozenset({NodeState.READY, NodeState.JOINED})


class FleetKeeper:
    """Brings the nodes of one cluster to what its wish says.

    Args:
        prepare: Prepares a node for worlds, on a thread; raises ``MachineError``.
        save: Makes a node send the output of its runs before it is deleted; on a thread.
        leave: Removes this cluster's files from a node that is kept; on a thread.
        pool: Runs long tasks.
        received: Returns the bytes received from nodes since the last call, by address.
    """

    def __init__(
        self,
        cluster: str,
        store: Store,
        provider: NodeProvider,
        prepare: Callable[[Session, FleetWish, Report], None] | None = None,
        pool: Executor | None = None,
        leave: Callable[[Session], None] = lambda session: None,
        save: Callable[[Session], None] = lambda session: None,
        received: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._cluster = cluster
        self._provider = provider
        sessions = pool or ThreadPoolExecutor(AT_ONCE, "nodes")
        self._tasks = BackgroundTasks(pool or ThreadPoolExecutor(QUICK, "fleet"), sessions, LONG)
        self._ledger = Ledger(cluster, store, received)
        self._troubles: dict[str, str] = {}
        work = SessionWork(
            provider.open, provider.equip, prepare or Staging(cluster).prepare, save, leave
        )
        self._sessions = NodeSessions(
            work, self._tasks, self._ledger.node, self._put, self._troubles
        )
        self._wish = ClusterWish(cluster, up=False, ranks=0)
        self._wanted = 0
        self._now = 0.0
        self._machines: dict[str, Machine] = {}
        self._seen = 0.0
        self._noticed: Mapping[str, float] = {}
        self._withdrawn: frozenset[str] = frozenset()
        self._released = set[str]()
        self._offers: tuple[Offer, ...] | None = None
        self._left: tuple[Leftover, ...] | None = None
        self._cleaned = 0.0
        self._whole: frozenset[str] = frozenset()
        self._planned = 0.0
        self._fleet: Fleet | None = None
        self._waits = ""
        self._silence = ""
        self._locked_out = ""
        self._finished = False

    def tick(self, wish: ClusterWish, load: Load, now: float) -> Fleet:
        """Do one turn; it may write to the store, but waits for nothing else."""
        self._finished = self._finished and wish.revision == self._wish.revision
        news = self._tasks.turn() or wish != self._wish or self._fleet is None
        is_shaken = load.whole != self._whole  # a broken world may mean a lost node
        news = self._sessions.hear() or news or is_shaken
        self._now = self._sessions.now = now
        self._wish, self._whole = wish, load.whole
        wanted = wish.fleet.nodes if wish.up and not load.over else 0
        news, self._wanted = news or wanted != self._wanted, wanted
        self._ledger.credited = wish.fleet.place.credited_seconds
        self._ledger.open(wish.revision, now)
        if not self._finished:
            self._observe(now)
            self._ledger.keep_links(self._provider.links(), now)
            self._sessions.watch(at_once=is_shaken)
            if self._seen and (news or now - self._planned >= PLAN_SECONDS):
                self._planned, self._waits = now, ""
                self._join(load)
                for action in self._plan(load, now):
                    self._act(action, now)
                news = True
            self._ledger.meter(self._machines, now, wish.fleet.place.traffic_price(wish.fleet))
        if news or self._fleet is None:
            self._fleet = self._view(now)
        return self._fleet

    def session(self, host: Host) -> Session | None:
        """Return the session with a node, by its address; None if there is none."""
        return self._sessions.at(host.address)

    def why_gone(self, address: str) -> str:
        """Return why no process runs on a node any longer; empty if unknown."""
        node = next((n for n in self._ledger.nodes.values() if n.address == address), None)
        if node is not None and node.id in self._released and node.id not in self._noticed:
            return f"its node was released: {node.message}"
        if node is None or not (node.id in self._noticed or self._sessions.is_lost(node.id)):
            return ""
        if node.id in self._noticed:
            return "the provider took its node back"
        return "its node is gone, or unreachable"

    def leave(self, address: str, why: str) -> None:
        """Release a node that does not work; it counts as failed, so few are bought in a row."""
        for node in [*self._ledger.nodes.values()]:
            if node.address == address and node.state in _FIT:
                log.warning("Node %s is left and replaced: %s.", node.id, why)
                left = replace(node, state=NodeState.LEAVING, since=self._now, message=why)
                self._put(replace(left, failed=True))

    def close(self) -> None:
        """Close the sessions, and wait for running tasks; the nodes are kept."""
        self._tasks.close()
        self._sessions.close()

    # -- observe

    def _observe(self, now: float) -> None:
        if now - self._seen >= (LOOK_SECONDS if self._is_moving() else WATCH_SECONDS):
            self._tasks.start("look", lambda: self._look(now), self._saw, now, LOOK_SECONDS)
        fleet = self._wish.fleet
        is_buying = self._wanted > 0 or bool(self._ledger.purchases)
        if is_buying and not fleet.place.lists_hosts:
            provider, needs = self._provider, fleet.needs
            gap = OFFERS_SECONDS if self._offers is not None else RETRY_SECONDS
            self._tasks.start("offers", lambda: provider.offers(needs), self._know, now, gap)
        self._tasks.start(
            "notices", self._provider.read_notices, self._take_notice, now, NOTICE_SECONDS
        )

    def _is_moving(self) -> bool:
        """Return whether the provider's list may change soon."""
        nodes = self._ledger.nodes.values()
        standing = [node for node in nodes if node.state is not NodeState.GONE]
        return (
            not self._wish.up
            or len(standing) != self._wanted
            or any(node.state not in _FIT for node in standing)
            or not all(contact.open for contact in self._sessions.contacts)
            or any(
                record.outcome is PurchaseOutcome.WRITTEN
                for record in self._ledger.purchases.values()
            )
        )

    def _look(self, now: float) -> MachineListing:
        try:
            return MachineListing(self._provider.machines(self._cluster), now)
        except CloudError as error:
            if error.kind != ErrorKind.CREDENTIALS:
                raise
            return MachineListing((), now, locked_out=str(error))

    def _saw(self, look: MachineListing | None, trouble: str) -> None:
        self._troubles["look"] = trouble
        if look is None:
            return
        if self._locked_out and not look.locked_out:
            self._troubles.clear()  # failed requests are repeated
        self._locked_out = look.locked_out
        if not look.locked_out:
            self._machines = {machine.id: machine for machine in look.machines}
            self._seen = look.seen

    def _take_notice(self, noticed: Mapping[str, float] | None, trouble: str) -> None:
        self._troubles["notices"] = trouble
        if noticed is not None:
            taken_back = {*self._noticed} - {*noticed}
            self._withdrawn = (self._withdrawn | taken_back) - {*noticed}
            self._noticed = noticed

    def _know(self, offers: tuple[Offer, ...] | None, trouble: str) -> None:
        self._troubles["offers"] = trouble
        if offers is not None:
            self._offers = self._ledger.offers = offers

    # -- plan

    def _join(self, load: Load) -> None:
        """Record which nodes carry a world, and which could."""
        for node in [*self._ledger.nodes.values()]:
            is_in = node.address in load.used
            if node.state is NodeState.READY and is_in:
                self._put(replace(node, state=NodeState.JOINED, since=self._now))
            elif node.state is NodeState.JOINED and not is_in:
                self._put(replace(node, state=NodeState.READY, since=self._now))

    def _plan(self, load: Load, now: float) -> list[Action]:
        nodes = tuple(self._ledger.nodes.values())
        purchases = tuple(self._ledger.purchases.values())
        if self._sessions.list_reached():
            self._silence = ""
        fact = FleetFact(
            cluster=self._cluster,
            founded=self._ledger.account.founded,
            asked=self._ledger.account.asked,
            nodes=nodes,
            machines=tuple(self._machines.values()),
            seen=self._seen,
            purchases=purchases,
            offers=self._offers,
            contacts=tuple(self._contacts(now)),
            used=frozenset(node.id for node in nodes if node.address in load.used),
            noticed=self._noticed,
            withdrawn=self._withdrawn,
            lead=load.lead,
            calling=frozenset(t for t in self._ledger.purchases if self._tasks.is_on(("buy", t))),
            waiting=load.waiting,
            idle=load.idle,
            over=load.over,
            has_begun=load.busy,
            left=self._left,
            cleaned=self._cleaned,
            silence=self._silence,
        )
        return plan_fleet(self._wish.fleet, fact, wanted=self._wish.up, now=now)

    # -- act

    def _act(self, action: Action, now: float) -> None:
        match action:
            case Buy(record):
                if not self._locked_out:
                    self._buy(record, now)
            case RecordPurchase(record):
                self._ledger.put_purchase(record)
            case Put(node):
                self._put(node)
            case Open(id_):
                if id_ in self._machines:
                    self._sessions.open(id_, self._machines[id_])
            case PrepareNode(id_):
                self._sessions.make_ready(id_, self._wish.fleet)
            case ExplainSilence(ids):
                self._explain_silence([self._machines[id_] for id_ in ids], now)
            case Terminate(ids, why):
                self._release(ids, why, now)
            case Wait(_, why):
                self._waits = why
            case Clean():
                self._clean(now)
            case Finish():
                log.info("Nothing of cluster %r is left.", self._cluster)
                self._sessions.leave_all()
                self._provider.forget()
                fleet = self._wish.fleet
                self._ledger.count_traffic(fleet.place.traffic_price(fleet))
                self._ledger.settle(paid=fleet.place.is_paid)
                self._finished = True

    def _put(self, node: Node) -> None:
        if node.state is NodeState.LEAVING:
            self._sessions.save(node.id)
        self._ledger.put(node, self._machines.get(node.id), self._now)
        if node.state is NodeState.GONE:
            self._sessions.forget(node.id)

    def _buy(self, record: PurchaseRecord, now: float) -> None:
        purchase = record.purchase
        key = ("buy", purchase.token)
        if self._tasks.is_on(key):
            return
        try:
            sent = self._ledger.read_sent(purchase.token) or self._sending(purchase)
            # Recorded first: a successor repeats the same call, so nothing is bought twice.
            self._ledger.put_purchase(record, *sent)
        except StoreUnavailable as error:
            self._troubles["buy"] = str(error)
            return
        log.info("%s", log_messages.buying(purchase))
        log.debug("purchase %s: %r", purchase.token, purchase)
        provider = self._provider
        self._tasks.start(
            key,
            lambda: _answer(provider, purchase, *sent),
            lambda refusal, trouble: self._record_answer(record, refusal, trouble),
            now,
        )

    def _sending(self, purchase: Purchase) -> tuple[str, tuple[tuple[str, str], ...]]:
        expires = self._wish.fleet.expires
        tags = ((EXPIRES, str(int(expires))),) if expires else ()
        return self._provider.user_data(purchase), tags

    def _record_answer(
        self, record: PurchaseRecord, refusal: CloudError | None, trouble: str
    ) -> None:
        """Record the answer; if there was none, the same call is repeated later."""
        if trouble and trouble != self._troubles.get("buy"):
            log.warning("%s", log_messages.refused(record.purchase, trouble))
        self._troubles["buy"] = trouble
        if trouble:
            return
        if refusal is not None and self._is_bought(record):
            return
        known = self._ledger.purchases.get(record.purchase.token)
        if refusal is not None and (known is None or known.message != str(refusal)):
            log.info("%s", log_messages.refused(record.purchase, str(refusal)))
        if refusal is None:
            answered = replace(record, at=self._now, outcome=PurchaseOutcome.BOUGHT)
        elif step(refusal.kind) is Reaction.BACK_OFF:
            # The purchase may exist: a missing answer does not tell.
            answered = replace(record, at=self._now, kind=refusal.kind, message=str(refusal))
        else:
            answered = replace(
                record,
                at=self._now,
                outcome=PurchaseOutcome.REFUSED,
                kind=refusal.kind,
                message=str(refusal),
            )
        self._ledger.put_purchase(answered)

    def _is_bought(self, record: PurchaseRecord) -> bool:
        """Return whether the provider lists machines of the purchase, whatever it answered."""
        known = self._ledger.purchases.get(record.purchase.token)
        return known is not None and known.outcome is PurchaseOutcome.BOUGHT

    def _release(self, ids: tuple[str, ...], why: str, now: float) -> None:
        save = self._sessions.saving(ids)
        shut_down = self._sessions.each(ids, self._provider.shut_down)

        def work() -> None:
            self._provider.part(ids)
            save()
            try:
                self._provider.end(ids)
            except CloudError:
                shut_down()
                raise

        def done(_: object, trouble: str) -> None:
            self._troubles["end"] = trouble

        if self._tasks.start(("end", ids), work, done, now, RETRY_SECONDS):
            self._released.update(ids)
            log.info("%s", log_messages.releasing(ids, why))

    def _explain_silence(self, machines: Sequence[Machine], now: float) -> None:
        def done(why: str | None, trouble: str) -> None:
            self._silence = why or trouble

        provider = self._provider
        self._tasks.start(
            "silence", lambda: provider.explain_silence(machines), done, now, EXPLAIN_SECONDS
        )

    def _clean(self, now: float) -> None:
        provider = self._provider
        self._tasks.start(
            "clean",
            lambda: provider.clean(self._cluster),
            lambda left, trouble: self._record_leftovers(left, trouble, now),
            now,
            RETRY_SECONDS,
        )

    def _record_leftovers(
        self, left: tuple[Leftover, ...] | None, trouble: str, began: float
    ) -> None:
        self._troubles["clean"] = trouble
        if left is not None:
            self._left, self._cleaned = left, began

    # -- view

    def _view(self, now: float) -> Fleet:
        fleet, all_ = self._wish.fleet, self._ledger.nodes.values()
        paid = bill(all_, fleet.budget)
        is_over = self._wish.up and is_used_up(paid.spent, paid.price, fleet.budget)
        return Fleet(
            hosts=tuple(self._hosts()),
            nodes=tuple(node for node in all_ if node.state is not NodeState.GONE),
            bill=paid,
            message=self._message(),
            finished=self._finished,
            over=budget_clause(fleet.budget, fleet.place.unit) if is_over else "",
            away=tuple(sorted(self._in_worlds() - self._sessions.list_reached())),
        )

    def _message(self) -> str:
        if self._locked_out:
            return f"{self._locked_out} {UNTIL_THEN}"
        return self._waits or next(filter(None, self._troubles.values()), "")

    def _within_reach(self) -> set[str]:
        """Return the nodes with a session; a lost session may come back while its world runs."""
        known = {id_ for id_ in self._in_worlds() if self._sessions.session(id_)}
        return self._sessions.list_reached() | known

    def _in_worlds(self) -> set[str]:
        return {node.id for node in self._ledger.nodes.values() if node.address in self._whole}

    def _contacts(self, now: float) -> Iterator[SessionState]:
        """Return the sessions; none is too late while other nodes reach the node's ranks."""
        is_reached = bool(self._sessions.list_reached())
        for one in self._sessions.contacts:
            trains = is_reached and one.id in self._in_worlds() and not one.open
            yield replace(one, since=now) if trains else one

    def _hosts(self) -> Iterator[Host]:
        # Each host reported, or was configured with, its number of slots.
        wished = 0 if self._wish.fleet.place.lists_hosts else self._wish.fleet.slots
        for node in members(
            self._ledger.nodes.values(), self._within_reach(), self._wish.fleet.nodes
        ):
            if session := self._sessions.session(node.id):
                slots = wished or node.slots
                yield replace(
                    session.host,
                    address=node.address,
                    slots=slots,
                    sockets=flows_for(node.network, node.flow),
                )


def _answer(
    provider: NodeProvider, purchase: Purchase, user_data: str, tags: tuple[tuple[str, str], ...]
) -> CloudError | None:
    """Make the call; return an error of the provider as the answer."""
    try:
        provider.buy(purchase, user_data, tags)
    except CloudError as refusal:
        return refusal
    return None


@dataclass(frozen=True)
class MachineListing:
    """The machines that the provider listed.

    Args:
        seen: Epoch seconds of the query.
        locked_out: Why the provider rejects the credentials; empty if it does not.
    """

    machines: tuple[Machine, ...]
    seen: float
    locked_out: str = ""


@dataclass(frozen=True)
class Load:
    """The present use of the nodes.

    Args:
        waiting: Number of waiting runs.
        busy: Whether a run is active.
        used: Addresses of the nodes that have a world.
        whole: Those of them whose world is not broken.
        lead: Seconds that ranks need to leave a node with a notice.
        idle: For how many seconds there has been nothing to do.
        over: Why no nodes are wanted now, as a clause; empty if they are.
    """

    waiting: int = 0
    busy: bool = False
    used: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    lead: float = LEAST_LEAD_SECONDS
    idle: float = 0.0
    over: str = ""


@dataclass(frozen=True)
class Fleet:
    """The nodes of a cluster as they are.

    Args:
        hosts: The nodes that can carry a world, the head first.
        nodes: All nodes that are not gone.
        message: One sentence for the user; empty if there is nothing to report.
        finished: Whether all nodes were to be deleted, and none is left.
        over: Why all nodes are about to go though the cluster is wanted, as a clause; or empty.
        away: The ids of nodes that do not answer, and whose world is not broken.
    """

    hosts: tuple[Host, ...]
    nodes: tuple[Node, ...]
    bill: FleetCost
    message: str
    finished: bool
    over: str = ""
    away: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Fleet {len(self.hosts)} of {len(self.nodes)} nodes are ready>"
