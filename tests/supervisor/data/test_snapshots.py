"""Snapshots outlive their nodes: copied, placed on new nodes, and removed with their run."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import boto3
import pytest

from tests.batches import event_batch
from tests.cloud.conftest import one_endpoint
from tests.supervisor.agents import Over, Talker
from tests.waiting import until
from workbench.cloud.hosts.local_session import LocalSession
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.node.agent_protocol import SendSnapshot, decode_request
from workbench.core.node.frames import FrameKind, FrameReader
from workbench.core.recovery.snapshots import (
    MANIFEST,
    SnapshotFile,
    SnapshotManifest,
    encode_manifest,
)
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import SnapshotSaved
from workbench.core.world.remote import LostSession
from workbench.core.world.world import Host
from workbench.node.snapshot_folder import manifests
from workbench.store import Store
from workbench.store.paths import snapshot_directory
from workbench.supervisor.data.snapshot_client import STALL_SECONDS
from workbench.supervisor.data.snapshots import Snapshots

__all__ = ["one_endpoint"]

RUN = "261121-120000-abcd"
WISH = RunWish(RUN, "a run", RunKind.CELL, "pass", "c", created=1.0)
HOSTS = FleetWish(provider="hosts", nodes=2)


class Far(LocalSession):
    """A session with another machine, though it is this one.

    Attributes:
        noted: What is started and asked, for all nodes in turn.
        stops_at: The request from which on its answers are still on their way.
    """

    noted: ClassVar[list[str]] = []
    stops_at: type | None = None

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self._is_silent = False
        self._guard = threading.RLock()
        self._unheard: list[tuple[Callable[[bytes], None], bytes]] = []

    @property
    def is_silent(self) -> bool:
        """Whether its answers are still on their way."""
        return self._is_silent

    @is_silent.setter
    def is_silent(self, value: bool) -> None:
        with self._guard:
            self._is_silent = value
            while self._unheard and not value:
                hear, data = self._unheard.pop(0)
                hear(data)

    def start(self, command: Sequence[str]) -> Any:
        process = super().start(command)
        write, listen, reader = process.write, process.listen, FrameReader()
        self.noted.append(f"start on {self.host.address}")

        def ask(data: bytes) -> None:
            for frame in reader.feed(data):
                if frame.kind is FrameKind.REQUEST:
                    self.noted.append("ask")
                    request = decode_request(frame.body)
                    self._is_silent |= self.stops_at is not None and type(request) is self.stops_at
            write(data)

        def hear_later(hear: Callable[[bytes], None]) -> None:
            def note(data: bytes) -> None:
                with self._guard:
                    self._unheard.append((hear, data))
                    self.is_silent = self._is_silent and bool(data)

            listen(note)

        process.write, process.listen = ask, hear_later
        return process


class Nodes:
    """Nodes with homes of their own, some of which are gone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sessions: dict[str, Far] = {}

    def add(self, address: str) -> Path:
        """Add a node, and return the folder of the run's snapshots there."""
        home = self.folder / address
        home.mkdir()
        self.sessions[address] = Far(Host(address, 1), home, {"HOME": str(home)})
        return home / "workbench-snapshots" / "c" / RUN

    def lose(self, address: str) -> None:
        self.sessions.pop(address).close()

    def reach(self, host: Host) -> Far | LostSession:
        return self.sessions.get(host.address) or LostSession(host)


@pytest.fixture
def store(tmp_path, monkeypatch) -> Iterator[Store]:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    (tmp_path / "person").mkdir()
    with Store() as store:
        store.wish_run(WISH)
        yield store


@pytest.fixture
def nodes(tmp_path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    for address in [*made.sessions]:
        made.lose(address)


@pytest.fixture
def keeper(store, nodes) -> Iterator[Callable[[], Snapshots]]:
    """Make the keeper of the cluster's snapshots, or its successor."""
    all_: list[Snapshots] = []

    def make() -> Snapshots:
        all_.append(Snapshots("c", nodes.reach))
        return all_[-1]

    yield make
    for one in all_:
        one.close(0.0)


def save(
    folder: Path, iteration: int, *, attempt: int = 1, final=False, part=0, parts=1
) -> SnapshotManifest:
    """Write a snapshot, or a part of one, as the ranks of a node do."""
    data = bytes(range(256)) * 4_000 + b"%d" % iteration
    files = (SnapshotFile("trainer.npz", len(data), zlib.crc32(data)),)
    manifest = SnapshotManifest(
        RUN, attempt, 1, 1, iteration, 0.5, 2, final=final, files=files, part=part, parts=parts
    )
    begun = folder / f".{manifest.name}.part"
    begun.mkdir(parents=True)
    (begun / "trainer.npz").write_bytes(data)
    (begun / MANIFEST).write_text(encode_manifest(manifest))
    begun.rename(folder / manifest.name)
    return manifest


def here() -> list[SnapshotManifest]:
    return manifests(snapshot_directory(RUN), RUN)


def attempt(number: int) -> Run:
    return Run(WISH, RunFact(RUN, state=RunState.QUEUED, attempt=number))


def place(snapshots: Snapshots, number: int, *hosts: str, fleet: FleetWish = HOSTS) -> None:
    until(lambda: snapshots.are_placed(attempt(number), hosts, fleet), what="the snapshots' place")


def test_the_newest_snapshot_is_copied_to_this_machine_while_the_run_trains(nodes, keeper) -> None:
    folder, _ = nodes.add("10.0.0.4"), nodes.add("10.0.0.5")
    snapshots = keeper()
    save(folder, 5)
    newest = save(folder, 9)

    snapshots.begin(attempt(1), ["10.0.0.4", "10.0.0.5"], HOSTS)
    until(lambda: snapshots.has_copy(RUN), what="the copy")

    assert here() == [newest]
    data = (snapshot_directory(RUN) / newest.name / "trainer.npz").read_bytes()
    assert data == (folder / newest.name / "trainer.npz").read_bytes()
    assert snapshots.take_received().keys() == {"10.0.0.4"}


def test_all_parts_of_a_divided_state_are_copied_from_the_nodes_that_have_them(
    nodes, keeper
) -> None:
    addresses = ["10.0.0.4", "10.0.0.5", "10.0.0.6"]
    for number, address in enumerate(addresses):
        folder = nodes.add(address)
        for part in (number, (number - 1) % 3):
            save(folder, 9, part=part, parts=3)
    snapshots = keeper()

    snapshots.begin(attempt(1), addresses, HOSTS)
    until(lambda: snapshots.has_copy(RUN), what="the copy")

    assert sorted(one.part for one in here()) == [0, 1, 2]


def test_parts_that_survived_suffice_and_those_of_a_newer_snapshot_do_not(nodes, keeper) -> None:
    """Node 10.0.0.5 is lost; of iteration 12 it alone had part 1."""
    first, second = nodes.add("10.0.0.4"), nodes.add("10.0.0.6")
    for folder, parts in ((first, (0, 2)), (second, (1, 2))):
        for part in parts:
            save(folder, 9, part=part, parts=3)
    for folder in (first, second):
        save(folder, 12, part=2, parts=3)
    new = nodes.add("10.0.0.8")
    snapshots = keeper()
    snapshots.begin(attempt(1), ["10.0.0.4", "10.0.0.6"], HOSTS)

    place(snapshots, 2, "10.0.0.8")

    assert sorted((one.iteration, one.part) for one in manifests(new, RUN)) == [
        (9, 0), (9, 1), (9, 2),
    ]  # fmt: skip


def test_no_node_is_asked_before_the_agents_of_all_are_started(nodes, keeper) -> None:
    for address in ("10.0.0.4", "10.0.0.5", "10.0.0.6"):
        nodes.add(address)
    nodes.lose("10.0.0.5")
    Far.noted.clear()

    place(keeper(), 2, "10.0.0.4", "10.0.0.5", "10.0.0.6")

    assert Far.noted[:2] == ["start on 10.0.0.4", "start on 10.0.0.6"]
    assert Far.noted.count("ask") >= 2


def test_what_a_run_saved_at_its_end_is_copied_at_once(nodes, keeper) -> None:
    folder = nodes.add("10.0.0.4")
    snapshots = keeper()
    save(folder, 5)
    snapshots.begin(attempt(1), ["10.0.0.4"], HOSTS)
    until(lambda: snapshots.has_copy(RUN), what="the copy")
    end = save(folder, 9, final=True)

    snapshots.end(RUN)
    snapshots.close(20.0)

    assert here()[-1] == end


def test_a_run_that_continues_waits_for_no_copy_of_one_that_has_ended(nodes, keeper) -> None:
    folder, other = nodes.add("10.0.0.4"), replace(WISH, id="261121-120000-efgh")
    nodes.add("10.0.0.8")
    snapshots = keeper()
    snapshots.begin(attempt(1), ["10.0.0.4"], HOSTS)
    session = nodes.sessions["10.0.0.4"]
    session.stops_at = SendSnapshot
    end = save(folder, 9, final=True)
    snapshots.end(RUN)
    until(lambda: session.is_silent, what="the copy")

    began = time.monotonic()
    waiting = Run(other, RunFact(other.id, state=RunState.QUEUED, attempt=2))
    until(lambda: snapshots.are_placed(waiting, ["10.0.0.8"], HOSTS), what="the snapshots' place")

    assert time.monotonic() - began < STALL_SECONDS / 2
    assert not snapshots.message
    session.stops_at, session.is_silent = None, False
    until(lambda: here() == [end], what="the copy")


def test_a_node_that_leaves_is_waited_for(nodes, keeper) -> None:
    folder = nodes.add("10.0.0.4")
    snapshots = keeper()
    first = save(folder, 5)
    snapshots.begin(attempt(1), ["10.0.0.4"], HOSTS)
    until(lambda: snapshots.has_copy(RUN), what="the copy")
    second = save(folder, 9)

    snapshots.flush(nodes.sessions["10.0.0.4"])

    assert here() == [first, second]


def test_a_run_that_lost_all_nodes_gets_its_snapshot_on_new_ones(nodes, keeper) -> None:
    folder = nodes.add("10.0.0.4")
    snapshots = keeper()
    newest = save(folder, 9)
    snapshots.begin(attempt(1), ["10.0.0.4"], HOSTS)
    until(lambda: snapshots.has_copy(RUN), what="the copy")
    nodes.lose("10.0.0.4")
    new = nodes.add("10.0.0.8")
    nodes.add("10.0.0.9")

    place(snapshots, 2, "10.0.0.8", "10.0.0.9")

    assert manifests(new, RUN) == [newest]
    assert new.stat().st_mode & 0o077 == 0


def test_a_later_supervisor_places_what_an_earlier_one_copied(nodes, keeper) -> None:
    save(snapshot_directory(RUN), 9)
    new = nodes.add("10.0.0.8")

    place(keeper(), 2, "10.0.0.8")

    assert [one.iteration for one in manifests(new, RUN)] == [9]


def test_a_move_to_other_nodes_takes_what_only_the_old_ones_have(nodes, keeper) -> None:
    old, new = nodes.add("10.0.0.4"), nodes.add("10.0.0.8")
    snapshots = keeper()
    save(old, 5)
    snapshots.begin(attempt(1), ["10.0.0.4"], HOSTS)
    until(lambda: snapshots.has_copy(RUN), what="the copy")
    newest = save(old, 9)

    place(snapshots, 2, "10.0.0.8")

    assert manifests(new, RUN) == [newest]


def test_nothing_is_moved_where_a_survivor_has_it(nodes, keeper) -> None:
    old, new = nodes.add("10.0.0.4"), nodes.add("10.0.0.8")
    save(old, 9)

    place(keeper(), 2, "10.0.0.8", "10.0.0.4")

    assert manifests(new, RUN) == here() == []


def test_a_damaged_copy_is_passed_over_for_the_one_before(nodes, keeper) -> None:
    before = save(snapshot_directory(RUN), 5)
    newest = save(snapshot_directory(RUN), 9)
    (snapshot_directory(RUN) / newest.name / "trainer.npz").write_bytes(b"torn")
    new = nodes.add("10.0.0.8")

    place(keeper(), 2, "10.0.0.8")

    assert manifests(new, RUN) == [before]
    assert [path.name for path in new.iterdir()] == [before.name]


def test_a_run_without_a_snapshot_anywhere_does_not_wait_for_one(nodes, keeper) -> None:
    nodes.add("10.0.0.8")

    place(keeper(), 2, "10.0.0.8")
    assert keeper().are_placed(attempt(1), ["10.0.0.8"], HOSTS)


RENTED = FleetWish(provider="ec2", nodes=2)


def lost(store: Store, *, is_automatic: bool = True, saved: int = 5) -> Run:
    """Return a run that was lost after a snapshot, and is queued again."""
    store.reports.add_batches([event_batch(RUN, SnapshotSaved(saved))])
    fact = store.run(RUN).fact
    if is_automatic:
        store.attempts.continue_run(replace(fact, state=RunState.LOST, message="It was lost."), "")
    else:
        store.put_run_fact(RUN, state=RunState.LOST)
        store.attempts.resume_run(store.run(RUN).fact, "", WISH)
    return store.run(RUN)


def test_a_run_all_of_whose_copies_are_gone_begins_again(nodes, keeper, store) -> None:
    nodes.add("10.0.0.8")
    gone = Node("i-1", state=NodeState.GONE, address="10.0.0.4")
    store.fleets.put_nodes("c", [gone, Node("i-2", state=NodeState.READY, address="10.0.0.8")])
    run, snapshots = lost(store), keeper()

    place(snapshots, 2, "10.0.0.8", fleet=RENTED)

    assert snapshots.has_lost_all(run)
    assert not snapshots.has_lost_all(attempt(3))


def test_a_run_waits_for_a_node_that_may_have_the_last_copy(nodes, keeper, store) -> None:
    nodes.add("10.0.0.8")
    silent = Node("i-1", state=NodeState.JOINED, address="10.0.0.4")
    store.fleets.put_nodes("c", [silent, Node("i-2", state=NodeState.READY, address="10.0.0.8")])
    run, snapshots = lost(store), keeper()

    def is_placed() -> bool:
        return snapshots.are_placed(run, ["10.0.0.8"], RENTED)

    until(lambda: is_placed() or snapshots.message, what="a sentence")
    assert not is_placed()
    assert snapshots.message.startswith(f"Run {RUN} waits: no node that answers has a snapshot")

    store.fleets.put_nodes("c", [replace(silent, state=NodeState.GONE)])
    until(is_placed, what="the snapshots' place")
    assert snapshots.has_lost_all(run)
    assert not snapshots.message


def test_a_run_does_not_begin_again_while_a_snapshot_may_be_somewhere(
    nodes, keeper, store, tmp_path
) -> None:
    folder = nodes.add("10.0.0.4")
    nodes.add("10.0.0.8")
    store.fleets.put_nodes("c", [Node("i-2", state=NodeState.READY, address="10.0.0.8")])
    run, durable = lost(store), replace(RENTED, snapshots=str(tmp_path / "shared"))

    for fleet in (HOSTS, durable):
        snapshots = keeper()
        place(snapshots, 2, "10.0.0.8", fleet=fleet)
        assert not snapshots.has_lost_all(run)
    save(folder, 5)
    snapshots = keeper()
    place(snapshots, 2, "10.0.0.4", fleet=RENTED)
    assert not snapshots.has_lost_all(run)


def test_a_run_that_is_resumed_without_its_snapshots_does_not_begin_again(
    nodes, keeper, store
) -> None:
    nodes.add("10.0.0.8")
    run, snapshots = lost(store, is_automatic=False), keeper()

    place(snapshots, 2, "10.0.0.8", fleet=RENTED)

    assert not snapshots.has_lost_all(run)


def test_a_folder_that_nodes_share_is_the_durable_place(nodes, keeper, tmp_path) -> None:
    fleet = FleetWish(provider="hosts", nodes=2, snapshots=str(tmp_path / "shared"))
    folder = nodes.add("10.0.0.4")
    snapshots = keeper()
    newest = save(folder, 9)
    snapshots.begin(attempt(1), ["10.0.0.4"], fleet)
    until(lambda: snapshots.has_copy(RUN), what="the copy")
    nodes.lose("10.0.0.4")
    new = nodes.add("10.0.0.8")

    place(snapshots, 2, "10.0.0.8", fleet=fleet)

    assert manifests(new, RUN) == [newest]
    assert here() == []
    assert (tmp_path / "shared" / "c" / RUN / "snapshots" / newest.name / MANIFEST).exists()


@pytest.mark.contract
def test_nodes_keep_snapshots_in_s3_by_themselves(nodes, keeper, one_endpoint, monkeypatch) -> None:
    one_endpoint.reset()
    monkeypatch.setenv("AWS_ENDPOINT_URL", one_endpoint.url)
    client = boto3.client("s3")
    client.create_bucket(Bucket="digits")
    fleet = FleetWish(provider="hosts", nodes=2, snapshots="s3://digits/kept")
    folder = nodes.add("10.0.0.4")
    snapshots = keeper()
    newest = save(folder, 9)
    snapshots.begin(attempt(1), ["10.0.0.4"], fleet)
    until(lambda: snapshots.has_copy(RUN), what="the copy")
    nodes.lose("10.0.0.4")
    new = nodes.add("10.0.0.8")

    place(snapshots, 2, "10.0.0.8", fleet=fleet)

    assert manifests(new, RUN) == [newest]
    keys = [one["Key"] for one in client.list_objects_v2(Bucket="digits")["Contents"]]
    assert f"kept/c/{RUN}/snapshots/{newest.name}/trainer.npz" in keys
    client.close()


def test_a_deleted_run_leaves_no_snapshots_on_nodes(nodes, keeper, store, monkeypatch) -> None:
    monkeypatch.setattr("workbench.supervisor.data.snapshots.REMOVAL_SECONDS", 0.1)
    first, late = nodes.add("10.0.0.4"), "10.0.0.5"
    save(first, 9)
    (first / "notes.txt").write_text("mine")
    states = [Node(a, state=NodeState.JOINED, address=a) for a in ("10.0.0.4", late)]
    store.fleets.put_nodes("c", states)
    store.reports.add_batches([event_batch(RUN, SnapshotSaved(9), time=2.0)])
    store.put_run_fact(RUN, state=RunState.FINISHED, ended=time.time())
    keeper_ = keeper()
    keeper_.keep(HOSTS)

    store.removal.delete_run(RUN)
    until(lambda: not manifests(first, RUN), what="the removal")
    second = nodes.add(late)  # it is back
    save(second, 9)

    until(lambda: not second.exists(), what="the removal")
    assert [path.name for path in first.iterdir()] == ["notes.txt"]


def test_why_a_node_removes_nothing_is_logged_once(
    nodes, keeper, store, monkeypatch, caplog
) -> None:
    monkeypatch.setattr("workbench.supervisor.data.snapshots.REMOVAL_SECONDS", 0.02)
    address = "10.0.0.7"
    nodes.sessions[address] = Talker(address, Over(why="KeyError('RemoveSnapshots')"))
    store.fleets.put_nodes("c", [Node(address, state=NodeState.JOINED, address=address)])
    store.reports.add_batches([event_batch(RUN, SnapshotSaved(9), time=2.0)])
    store.put_run_fact(RUN, state=RunState.FINISHED, ended=time.time())
    keeper().keep(HOSTS)

    store.removal.delete_run(RUN)
    until(lambda: len(nodes.sessions[address].heard) >= 3, what="three requests")

    said = "10.0.0.7: KeyError('RemoveSnapshots'); deleted snapshots are left there."
    assert [one.message for one in caplog.records if address in one.message] == [said]


@pytest.mark.parametrize("is_silent", [False, True], ids=["answered", "not answered yet"])
def test_on_a_host_the_oldest_ended_runs_make_room(
    nodes, keeper, store, monkeypatch, is_silent
) -> None:
    monkeypatch.setattr("workbench.supervisor.data.snapshots.SHARE_OF_DISK", 0.0)
    monkeypatch.setattr("workbench.supervisor.data.snapshots.REMOVAL_SECONDS", 0.1)
    folder = nodes.add("10.0.0.4")
    active = folder.with_name("261121-130000-abcd")
    save(folder, 9)
    (active / "left").mkdir(parents=True)
    store.fleets.put_nodes("c", [Node("10.0.0.4", state=NodeState.JOINED, address="10.0.0.4")])
    store.put_run_fact(RUN, state=RunState.FINISHED, ended=time.time())

    nodes.sessions["10.0.0.4"].is_silent = is_silent
    snapshots = keeper()
    snapshots.keep(HOSTS)

    until(lambda: not folder.exists(), what="the removal")
    assert active.exists()
    save(folder, 12)
    other = Run(replace(WISH, id="261121-130000-abcd"), RunFact("261121-130000-abcd"))
    snapshots.begin(other, ["10.0.0.4"], HOSTS)
    nodes.sessions["10.0.0.4"].is_silent = False

    until(lambda: not folder.exists(), what="the removal")


def test_a_run_that_continues_meanwhile_keeps_its_snapshots_on_the_next_host(
    nodes, keeper, store, monkeypatch
) -> None:
    monkeypatch.setattr("workbench.supervisor.data.snapshots.SHARE_OF_DISK", 0.0)
    hosts = ("10.0.0.4", "10.0.0.5")
    first, second = (nodes.add(address) for address in hosts)
    save(first, 9)
    save(second, 9)
    store.fleets.put_nodes("c", [Node(a, state=NodeState.JOINED, address=a) for a in hosts])
    store.put_run_fact(RUN, state=RunState.FINISHED, ended=time.time())
    nodes.sessions[hosts[0]].is_silent = True
    snapshots = keeper()
    snapshots.keep(HOSTS)
    until(lambda: not first.exists(), what="the removal")

    store.put_run_fact(RUN, state=RunState.QUEUED)
    Far.noted.clear()
    nodes.sessions[hosts[0]].is_silent = False

    until(lambda: Far.noted == [f"start on {hosts[1]}", "ask"], what="the next host")
    snapshots.close(0.0)  # its thread has the answer
    assert second.exists()


def test_a_copy_that_fails_is_said_until_it_succeeds(nodes, keeper, monkeypatch) -> None:
    monkeypatch.setattr("workbench.supervisor.data.snapshots.AGAIN_SECONDS", 0.1)
    monkeypatch.setattr("workbench.supervisor.data.snapshots.LOOK_SECONDS", 0.1)
    folder = nodes.add("10.0.0.4")
    newest = save(folder, 9)
    data = (folder / newest.name / "trainer.npz").read_bytes()
    (folder / newest.name / "trainer.npz").write_bytes(b"torn")
    snapshots = keeper()

    snapshots.begin(attempt(1), ["10.0.0.4"], HOSTS)
    until(lambda: "trainer.npz of the snapshot is damaged" in snapshots.message, what="a sentence")
    assert here() == []
    (folder / newest.name / "trainer.npz").write_bytes(data)

    until(lambda: here() == [newest] and not snapshots.message, what="the copy")


def test_a_deleted_run_leaves_nothing_in_its_durable_place(
    nodes, keeper, store, monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr("workbench.supervisor.data.snapshots.REMOVAL_SECONDS", 0.1)
    shared = tmp_path / "shared"
    fleet = FleetWish(provider="hosts", nodes=1, snapshots=str(shared))
    save(nodes.add("10.0.0.4"), 9)
    store.fleets.put_nodes("c", [Node("10.0.0.4", state=NodeState.JOINED, address="10.0.0.4")])
    store.reports.add_batches([event_batch(RUN, SnapshotSaved(9), time=2.0)])
    store.put_run_fact(RUN, state=RunState.FINISHED, ended=time.time())
    snapshots = keeper()
    snapshots.begin(attempt(1), ["10.0.0.4"], fleet)
    until(lambda: snapshots.has_copy(RUN), what="the copy")
    snapshots.end(RUN)
    snapshots.keep(fleet)

    store.removal.delete_run(RUN)

    until(lambda: not (shared / "c" / RUN).exists(), what="the removal")
    assert (shared / "c").exists()
