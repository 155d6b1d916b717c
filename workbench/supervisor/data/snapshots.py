"""Keep the snapshots of a cluster's runs: where ranks save them, copies, and removal.

Snapshots on other machines are copied in the background to this one, into the run's folder, or to
the durable place that the cluster names. Before a run resumes on nodes that have no snapshot, one
of them gets it. All of this happens on a separate thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from workbench.cloud.hosts.local_session import LocalSession
from workbench.cluster.node_agent import pass_over
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.provider import Provider
from workbench.core.node.agent_protocol import (
    FetchSnapshots,
    LimitSnapshots,
    RemoveSnapshots,
    StoreSnapshot,
    encode_path,
)
from workbench.core.node.staging import is_bucket, snapshot_folder
from workbench.core.quote import one_line
from workbench.core.recovery.resumption import may_begin_without, saves_snapshots
from workbench.core.recovery.snapshot_copies import (
    SHARE_OF_DISK,
    SHARE_OF_LINK,
    CopiesLeft,
    copies_left,
    pause_after,
    to_bring,
    to_copy,
)
from workbench.core.recovery.snapshots import SnapshotManifest, whole
from workbench.core.run.model import Run, RunKind
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import MachineError, WorkbenchError
from workbench.node.stream import StreamLost
from workbench.store import Store
from workbench.store.paths import snapshot_directory
from workbench.supervisor.data.snapshot_client import (
    HERE,
    LONG_SECONDS,
    Interruption,
    Reach,
    SnapshotClient,
    SnapshotClients,
    transfer,
)
from workbench.supervisor.data.staging import bucket_environment

log = logging.getLogger("workbench.supervisor")

LOOK_SECONDS = 1.0
WAIT_SECONDS = 0.05
AGAIN_SECONDS = 5.0
FLUSH_SECONDS = 60.0
FIRST_COPY_SECONDS = 20.0  # 500 MB at 25 MB/s, until a copy of the run was measured
REMOVAL_SECONDS = 10.0
TRIES = 3
UNSEEN = "its snapshots are not seen"
AWAITED = (
    "Run {run} waits: no node that answers has a snapshot of it, and others do not answer. It "
    "continues once one of them does, and begins again once all of them are gone."
)


def snapshot_place(
    run: Run, provider: Provider, has_snapshot: Callable[[str], bool] = lambda run: False
) -> str:
    """Return the folder for a run's snapshots on each rank's host; empty for none.

    It depends on the provider alone: the run may continue on other hosts of the cluster.
    A run that repeats another one reads from that one's folder, if it has any.
    """
    owner = run.wish.replays or run.id
    reads = run.wish.kind is RunKind.REPLAY and has_snapshot(owner)
    if not (reads or saves_snapshots(run.wish)):
        return ""
    if provider.is_remote:
        return snapshot_folder(run.wish.cluster, owner)
    return str(snapshot_directory(owner))


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, WorkbenchError) else one_line(repr(error))


def _are_copied(fleet: FleetWish) -> bool:
    return fleet.place.is_remote or bool(fleet.snapshots)


class Snapshots:
    """The snapshots of a cluster's runs.

    Args:
        reach: Returns the session with a host; None for this machine.
        here: The session with this machine, if there is one.
    """

    def __init__(self, cluster: str, reach: Reach, here: LocalSession | None = None) -> None:
        self._cluster, self._reach = cluster, reach
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = 0.0
        self._runs: dict[str, RunCopies] = {}
        self._hosts: dict[str, tuple[str, ...]] = {}
        self._wanted: dict[str, Wanted] = {}
        self._placed: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._all_lost: dict[str, int] = {}  # the attempts that find no snapshot anywhere
        self._clients = SnapshotClients(reach, here)
        # A run that waits to continue must not wait for the copies of others.
        self._copying = Interruption()
        self._flushing: dict[str, float] = {}
        self._removed: set[tuple[str, str]] = set()
        self._limited: set[str] = set()
        self._removal_due = 0.0
        self._removal: Iterator[None] = iter(())
        self._fleet = FleetWish()
        self._is_shared = False

    def __repr__(self) -> str:
        return f"<Snapshots of {self._cluster}: {len(self._runs)} runs>"

    @property
    def message(self) -> str:
        """One sentence for the user; empty if there is nothing to report."""
        troubles = [one.trouble for one in [*self._wanted.values()]]
        troubles += [kept.trouble for kept in [*self._runs.values()]]
        return next(filter(None, troubles), "")

    def begin(self, run: Run, hosts: Sequence[str], fleet: FleetWish) -> None:
        """Copy the snapshots of a run that begins, or continues, on some hosts."""
        if saves_snapshots(run.wish) and _are_copied(fleet):
            copies = self._copies_of(run, hosts, fleet)
            with self._lock:
                self._runs[run.id] = copies
            self._limited.difference_update(copies.hosts)
            self._start()

    def end(self, run: str) -> None:
        """Copy the last snapshots of a run that has ended."""
        if kept := self._runs.get(run):
            kept.over, kept.due = True, 0.0
            self._wake.set()

    def are_placed(self, run: Run, hosts: Sequence[str], fleet: FleetWish) -> bool:
        """Return whether a run can begin on some hosts; if not, its snapshots are brought there."""
        needs_some = run.fact.attempt > 1 and saves_snapshots(run.wish)
        if not (needs_some and _are_copied(fleet)):
            return True
        wanted = (run.fact.attempt, self._addresses(hosts))
        if self._placed.get(run.id) == wanted:
            return True
        with self._lock:
            known = self._wanted.get(run.id)
            if known is None or (known.attempt, known.hosts) != wanted:
                self._wanted[run.id] = Wanted(self._copies_of(run, hosts, fleet), *wanted)
        self._copying.set()
        self._start()
        return False

    def has_lost_all(self, run: Run) -> bool:
        """Return whether an attempt that can begin has no snapshot on any node or elsewhere."""
        return self._all_lost.get(run.id) == run.fact.attempt

    def has_copy(self, run: str) -> bool:
        """Return whether a snapshot of a run is where any node can have it."""
        kept = self._runs.get(run)
        return self._is_shared if kept is None else bool(whole([*(kept.copied or ())]))

    def copy_seconds(self, run: str) -> float:
        """Return about how long the copy of a run's last snapshot takes; 0 if none is made."""
        kept = self._runs.get(run)
        if kept is None:
            return 0.0
        return min(kept.seconds or FIRST_COPY_SECONDS, FLUSH_SECONDS)

    def flush(self, session: Session, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until a node's snapshots are copied, at most for a while; from any thread."""
        address, deadline = session.host.address, time.monotonic() + seconds
        if not any(address in kept.hosts for kept in [*self._runs.values()]):
            return
        self._flushing[address] = deadline
        self._wake.set()
        while address in self._flushing and time.monotonic() < deadline:
            time.sleep(WAIT_SECONDS)
        self._flushing.pop(address, None)

    def take_received(self) -> dict[str, int]:
        """Return the bytes received from each other node since the last call, by address."""
        return self._clients.take_received()

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """End when the snapshots of ended runs are copied, or after a while."""
        self._closing = time.monotonic() + seconds
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self._clients.close()

    def keep(self, fleet: FleetWish) -> None:
        """Remove the snapshots of deleted runs from the nodes of a fleet, from now on."""
        self._fleet = fleet
        self._is_shared = not _are_copied(fleet)  # simulated nodes have this machine's disk
        if not self._is_shared:
            self._start()

    # -- on any thread

    def _addresses(self, hosts: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                HERE if self._reach(Host(address, 1)) is None else address for address in hosts
            )
        )

    def _copies_of(self, run: Run, hosts: Sequence[str], fleet: FleetWish) -> RunCopies:
        known = self._runs.get(run.id)
        all_ = dict.fromkeys((*self._addresses(hosts), *self._hosts.get(run.id, ())))
        self._hosts[run.id] = tuple(all_)
        return RunCopies(
            run.id,
            snapshot_place(run, fleet.place),
            tuple(all_),
            fleet.snapshots,
            is_metered=fleet.place.is_paid and not fleet.snapshots,
            is_rented=fleet.place.is_paid,
            copied=known.copied if known else None,
            seconds=known.seconds if known else 0.0,
        )

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="snapshots", daemon=True)
                self._thread.start()
        self._wake.set()

    # -- on its thread

    def _work(self) -> None:
        while not self._is_done():
            try:
                self._turn(time.monotonic())
            except WorkbenchError as error:
                log.warning("snapshots: %s", error)
            except Exception:  # without this thread no run resumes on other nodes
                log.exception("snapshots failed")
                self._wake.wait(AGAIN_SECONDS)
            self._wake.wait(WAIT_SECONDS if self._wanted else LOOK_SECONDS)
            self._wake.clear()

    def _is_done(self) -> bool:
        if not self._closing:
            return False
        waiting = [kept for kept in [*self._runs.values()] if kept.over and kept.failures < TRIES]
        return not waiting or time.monotonic() > self._closing

    def _turn(self, now: float) -> None:
        """Do what is due."""
        for run, wanted in [*self._wanted.items()]:
            if now >= wanted.due:
                self._place(run, wanted)
        if self._wanted:
            return  # a run that waits goes first
        flushing = [*self._flushing]
        for kept in [*self._runs.values()]:
            is_flushed = any(address in flushing for address in kept.hosts)
            if is_flushed or kept.over or now - kept.looked >= LOOK_SECONDS:
                kept.looked = now
                if not kept.over:  # they are ready when the run has to continue
                    self._clients.start((HERE, *kept.hosts))
                self._copy(kept, now, is_flushed=is_flushed)
        for address in flushing:
            self._flushing.pop(address, None)
        # A node at a time: a run may have to be placed meanwhile.
        if now >= self._removal_due and next(self._removal, self) is self:
            self._removal_due = now + REMOVAL_SECONDS
            self._removal = self._remove()

    def _copy(self, kept: RunCopies, now: float, *, is_flushed: bool) -> None:
        """Copy what a run has and its durable place lacks, if it is due.

        Args:
            is_flushed: Whether one of its nodes leaves: then other runs wait for the copy.
        """
        if now < kept.due and not (is_flushed or kept.over):
            return
        try:
            is_whole = self._copy_from(kept, is_flushed=is_flushed)
        except Exception as error:  # noqa: BLE001  # what one node sends delays no other run
            if self._gives_way(is_flushed):
                return  # it was broken off, and is copied later
            kept.failures += 1
            kept.due = now + AGAIN_SECONDS
            why = _reason(error)
            log.warning("snapshots of run %s are not copied: %s", kept.run, why)
            kept.trouble = f"The snapshots of run {kept.run} are not copied: {why}."
            is_whole = kept.failures >= TRIES
        else:
            kept.failures, kept.trouble = 0, ""
        with self._lock:
            if kept.over and is_whole and self._runs.get(kept.run) is kept:
                del self._runs[kept.run]

    def _gives_way(self, is_flushed: bool) -> bool:
        """Return whether a copy is broken off for a run that waits to continue."""
        return bool(self._wanted) and not is_flushed

    def _copy_from(self, kept: RunCopies, *, is_flushed: bool) -> bool:
        """Copy what the nodes have that can be reached; return whether nothing is left to copy."""
        held = self._held_by_nodes(kept)
        if held is None:
            return True  # if a node comes back, the next attempt of the run looks for it
        if kept.copied is None:
            # A durable place compares its own index when a snapshot is stored.
            kept.copied = set() if kept.durable else {*self._here_has(kept.run)}
        begun, nbytes = time.monotonic(), 0
        for manifest in to_copy(held, kept.copied):
            source = held[manifest]
            try:
                self._bring(manifest, source, kept, self._interruption(is_flushed=is_flushed))
            except StreamLost:
                raise
            except MachineError:
                if manifest in source.manifests(kept.run, kept.folder):
                    raise
                continue  # its ranks need it no longer, and have removed it meanwhile
            kept.copied.add(manifest)
            kept.seconds = seconds = time.monotonic() - begun
            nbytes += sum(file.nbytes for file in manifest.files)
            log.info("Copied snapshot %s of run %s (%.1f s).", manifest.name, kept.run, seconds)
            kept.due = begun + pause_after(nbytes, seconds, is_metered=kept.is_metered)
        return True

    def _interruption(self, *, is_flushed: bool) -> Interruption:
        """Return what breaks a copy off, which a run that waits does."""
        found = Interruption()
        if not is_flushed:
            self._copying = found
            if self._wanted:
                found.set()
        return found

    def _here_has(self, run: str) -> list[SnapshotManifest]:
        return self._clients.of(HERE).manifests(run, str(snapshot_directory(run)))

    def _bring(
        self,
        manifest: SnapshotManifest,
        source: SnapshotClient,
        kept: RunCopies,
        interruption: Interruption,
    ) -> None:
        """Copy a snapshot to its durable place, or to this machine."""
        folder = encode_path(kept.folder)
        if kept.durable:
            place, environment = self._durable(source.address, kept.durable)
            request = StoreSnapshot(place, kept.run, folder, manifest.name, environment)
            source.ask(request, LONG_SECONDS, interruption)
            return
        transfer(
            manifest,
            source,
            kept.folder,
            self._clients.of(HERE),
            str(snapshot_directory(kept.run)),
            share=SHARE_OF_LINK if interruption is self._copying and not kept.over else 1.0,
            interruption=interruption,
        )

    def _durable(self, address: str, durable: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return the cluster's durable place for a node, and what its S3 client needs there."""
        if not durable:
            return "", ()
        session = self._clients.session(address)
        environment = bucket_environment(session) if is_bucket(durable) else ()
        return f"{durable.rstrip('/')}/{self._cluster}", environment

    def _held_by_nodes(self, kept: RunCopies) -> dict[SnapshotManifest, SnapshotClient] | None:
        """Return the snapshots of a run, each with a node that has it; None if none can be reached.

        The first node that can be reached has all of them, unless they are divided into parts.
        """
        held: dict[SnapshotManifest, SnapshotClient] | None = None
        for address in kept.hosts:
            opened = None
            with pass_over(self._clients.session(address), UNSEEN):
                client = self._clients.of(address)
                client.begin()
                opened = client
            if opened is None:
                continue
            held = held or {}
            for one in opened.manifests(kept.run, kept.folder):
                held.setdefault(one, opened)
            if all(one.parts == 1 for one in held):
                break
        return held

    # -- before a run resumes

    def _place(self, run: str, wanted: Wanted) -> None:
        """Bring what a run needs to its nodes, if they do not have it."""
        try:
            if not self._bring_to(wanted.copies, wanted):
                wanted.due = time.monotonic() + LOOK_SECONDS
                return
        except Exception as error:  # noqa: BLE001  # likewise
            wanted.failures += 1
            wanted.due = time.monotonic() + wanted.failures
            log.warning("snapshots of run %s are not placed: %s", run, _reason(error))
            if wanted.failures < TRIES:
                return
        with self._lock:
            if self._wanted.get(run) is wanted:
                del self._wanted[run]
                self._placed[run] = (wanted.attempt, wanted.hosts)

    def _bring_to(self, kept: RunCopies, wanted: Wanted) -> bool:
        """Bring what is needed; return whether no more can come."""
        first = wanted.hosts[0]
        target = self._clients.of(first)
        if kept.durable:
            place, environment = self._durable(first, kept.durable)
            folder = encode_path(kept.folder)
            request = FetchSnapshots(place, kept.run, folder, wanted.attempt, environment)
            target.ask(request, LONG_SECONDS)
        places = dict.fromkeys((HERE, *wanted.hosts, *kept.hosts))
        self._clients.start(places)  # the run waits for the last of them alone
        held = {address: self._held(address, kept) or [] for address in places}
        is_here = HERE in wanted.hosts
        while moves := to_bring(held, wanted.hosts, wanted.damaged):
            move = moves[0]
            is_from_here = move.source == HERE and not is_here
            there = str(snapshot_directory(kept.run)) if is_from_here else kept.folder
            source = self._clients.of(move.source)
            try:
                transfer(move.manifest, source, there, target, kept.folder, share=1.0)
            except StreamLost:
                raise
            except MachineError as error:
                log.warning("snapshot %s is passed over: %s", move.manifest.name, error)
                wanted.damaged.add((move.source, move.manifest.name))
            else:
                log.info("Placed snapshot %s on %s.", move.manifest.name, first)
                held[first] = [*held[first], move.manifest]
        return not kept.is_rented or bool(kept.durable) or self._is_settled(kept, wanted)

    def _is_settled(self, kept: RunCopies, wanted: Wanted) -> bool:
        """Return whether it is known what is left of a run's snapshots; note if nothing is."""
        with Store() as store:
            living = [node.address for node in store.fleets.nodes(self._cluster) if node.address]
            past, snapshot = store.attempts.past(kept.run), store.attempts.newest_snapshot(kept.run)
        if not may_begin_without(past, snapshot):
            return True
        places = dict.fromkeys((HERE, *wanted.hosts, *living))
        found = copies_left({one: self._held(one, kept) for one in places}, wanted.damaged)
        if found is CopiesLeft.NOTHING:
            self._all_lost[kept.run] = wanted.attempt
        is_unknown = found is CopiesLeft.UNKNOWN
        wanted.trouble = AWAITED.format(run=kept.run) if is_unknown else ""
        return not is_unknown

    def _held(self, address: str, kept: RunCopies) -> list[SnapshotManifest] | None:
        """Return what a node has of a run; None if it cannot be reached."""
        with pass_over(self._clients.session(address), UNSEEN):
            if address == HERE:
                return self._here_has(kept.run)
            return self._clients.of(address).manifests(kept.run, kept.folder)
        return None

    # -- removal

    def _remove(self) -> Iterator[None]:
        """Remove the snapshots of deleted runs from every node that is there, one after another."""
        fleet = self._fleet
        with Store() as store:
            gone = store.removal.removed_snapshots(self._cluster)
            nodes = [node.address for node in store.fleets.nodes(self._cluster) if node.address]
        for address in nodes if fleet.place.is_remote else [HERE]:
            left = [run for run in gone if (address, run) not in self._removed]
            is_limited = fleet.place.lists_hosts and address not in self._limited
            with pass_over(self._clients.session(address), "deleted snapshots are left there"):
                for run in left:
                    folder = encode_path(self._folder_of(address, run))
                    place, environment = self._durable(address, fleet.snapshots)
                    request = RemoveSnapshots(place, run, folder, environment)
                    self._clients.of(address).ask(request)
                    self._removed.add((address, run))
                if is_limited:
                    self._limit(address)
            if left or is_limited:
                yield

    def _limit(self, address: str) -> None:
        """Remove the snapshots of the oldest ended runs from a host, beyond a limit."""
        client, root = self._clients.of(address), self._folder_of(address, "").rstrip("/")
        with Store() as store:  # nodes before this one took their time: a run may continue now
            ended = store.removal.ended_runs(self._cluster)
        self._limited.add(address)  # before it is asked: a run that begins meanwhile takes it out
        try:
            client.ask(LimitSnapshots(encode_path(root), SHARE_OF_DISK, (*ended,)))
        except MachineError:
            self._limited.discard(address)
            raise

    def _folder_of(self, address: str, run: str) -> str:
        if address == HERE:
            return str(snapshot_directory(run))
        return snapshot_folder(self._cluster, run)


@dataclass
class RunCopies:
    """A run whose snapshots are copied.

    Args:
        folder: Of its snapshots on each node.
        hosts: Addresses of the nodes that had ranks of it, those of the present attempt first.
        durable: A folder or ``s3://bucket/prefix``; empty for the run's folder on this machine.
        is_metered: Whether the traffic to this machine costs money.
        is_rented: Whether the provider says which nodes are gone for good.
        copied: What the durable place has; None while unknown.
        due: When the next copy may begin, by the monotonic clock.
        seconds: How long the last copy took; 0 before the first.
        over: Whether the run has ended.
        failures: Attempts in a row that failed.
    """

    run: str
    folder: str
    hosts: tuple[str, ...]
    durable: str
    is_metered: bool
    is_rented: bool = False
    copied: set[SnapshotManifest] | None = None
    due: float = 0.0
    seconds: float = 0.0
    looked: float = 0.0
    over: bool = False
    failures: int = 0
    trouble: str = ""


@dataclass
class Wanted:
    """Nodes that are to have a run's snapshots before it resumes there."""

    copies: RunCopies
    attempt: int
    hosts: tuple[str, ...]
    failures: int = 0
    due: float = 0.0
    damaged: set[tuple[str, str]] = field(default_factory=set)
    trouble: str = ""
