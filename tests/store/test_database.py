"""Several processes and threads share the file; each problem of it is one sentence."""

from __future__ import annotations

import re
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pytest

from workbench.core.cluster.model import ClusterFact, ClusterWish
from workbench.core.fleet.model import Node
from workbench.core.fleet.purchases import PurchaseRecord
from workbench.core.performance.prediction import Forecasts
from workbench.core.run.model import RunFact, RunWish
from workbench.core.run.rank_protocol import Batch, Sample
from workbench.core.world.world import RankFact
from workbench.errors import StoreError
from workbench.store import SavedCurves, Store, schema
from workbench.store.fleet import Account
from workbench.store.schema import FIRST, VERSION

PROGRAMS = Path(__file__).parent / "programs"


def test_a_fresh_store_has_this_version(store) -> None:
    assert store.one("PRAGMA user_version") == (VERSION,)


def test_an_empty_file_gets_the_tables(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    path.touch()

    with Store(path) as store:
        store.wish_cluster("lab", up=True, ranks=2)

    with Store(path) as store:
        assert store.cluster_wish("lab") is not None


@pytest.mark.parametrize("version", [1, FIRST - 1])
def test_a_store_of_a_development_version_is_refused_and_left_alone(tmp_path, version) -> None:
    path = tmp_path / "store.sqlite3"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(StoreError) as refusal:
        Store(path)

    assert str(refusal.value) == (
        f"The store {path} has version {version}, which a development version of workbench wrote "
        f"before the first release, and this one reads {FIRST} and later; keep its folder, and set "
        "WORKBENCH_HOME to a new one."
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, FIRST, FIRST + 1])
def test_the_migrations_that_a_file_lacks_are_made(tmp_path, version) -> None:
    steps = ["CREATE TABLE first (a); INSERT INTO first VALUES (1)", "ALTER TABLE first ADD b"]
    connection = sqlite3.connect(tmp_path / "store.sqlite3", isolation_level=None)
    if version:
        schema.prepare(connection, "here", steps[: version - FIRST])

    schema.prepare(connection, "here", steps)
    schema.prepare(connection, "here", steps)

    assert connection.execute("SELECT a, b FROM first").fetchall() == [(1, None)]
    assert connection.execute("PRAGMA user_version").fetchone() == (FIRST + 2,)
    assert connection.execute("SELECT count(*) FROM runs").fetchone() == (0,)
    connection.close()


def test_each_field_has_a_column(store) -> None:
    kinds = {
        "clusters": [ClusterWish], "cluster_facts": [ClusterFact], "ranks": [RankFact],
        "runs": [RunWish, RunFact], "nodes": [Node], "purchases": [PurchaseRecord],
        "accounts": [Account], "forecasts": [Forecasts], "saved_curves": [SavedCurves],
    }  # fmt: skip
    for table, made in kinds.items():
        columns = {row["name"] for row in store.rows(f"PRAGMA table_info({table})")}
        assert {one.name for kind in made for one in fields(kind)} <= columns


def test_a_schema_that_fails_leaves_nothing_half_done(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE points (mine TEXT)")  # in the way of our own
    connection.close()

    with pytest.raises(StoreError, match="table points already exists"):
        Store(path)

    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("points",)]
    connection.close()


def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(StoreError) as refusal:
        Store(path)

    assert str(refusal.value) == (
        f"The store {path} has version {VERSION + 1}, newer than this workbench's {VERSION}; "
        "upgrade workbench, or set WORKBENCH_HOME to another folder."
    )
    assert path.read_bytes() == before


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    path.write_text("Dear diary, " * 100)

    with pytest.raises(StoreError) as refusal:
        Store(path)

    assert str(refusal.value) == (
        f"The store {path} is not a workbench store; move the file away, or set WORKBENCH_HOME."
    )
    assert path.read_text() == "Dear diary, " * 100


def test_a_damaged_store_is_reported(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    with Store(path) as store:
        store.wish_cluster("lab", up=True, ranks=2)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))

    reported = r"is damaged, and was left as it is; .*\.recover"
    with pytest.raises(StoreError, match=reported), Store(path) as store:
        store.clusters()

    assert path.read_bytes()[4096:] == b"\xff" * (len(whole) - 4096)


@pytest.mark.parametrize("value", [2**70, "\ud800", object(), None])
def test_a_value_that_cannot_be_kept_is_our_defect_and_loses_nothing(store, run, value) -> None:
    with pytest.raises(StoreError, match="a defect of workbench, please report it"):
        store.put_run_fact(run, epoch=value)

    assert store.run(run).fact.epoch == 0


def test_a_file_with_other_tables_is_no_store_of_ours(store) -> None:
    with sqlite3.connect(store.path) as connection:
        connection.execute("DROP TABLE setups")
    connection.close()

    with pytest.raises(StoreError, match=r"\(no such table: setups\); another program may have"):
        store.setups("lab")


def test_a_store_below_a_file_cannot_be_opened(tmp_path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "store.sqlite3"

    with pytest.raises(StoreError) as refusal:
        Store(path)

    assert str(refusal.value) == (
        f"The store {path} cannot be opened; correct its permissions, or set WORKBENCH_HOME."
    )


def test_only_the_owner_may_read_what_a_store_writes(store) -> None:
    store.wish_cluster("lab", up=True, ranks=2)

    files = sorted(store.path.parent.glob("store.sqlite3*"))

    assert [file.name[13:] for file in files] == ["", "-shm", "-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_store_says_where_it_is(store) -> None:
    assert repr(store) == f"<Store {store.path}>"


# -- several at once


def test_threads_share_a_store(store, run) -> None:
    def deliver(rank: int) -> None:
        for sequence in range(1, 41):
            sample = Sample("loss", sequence, 0.0, float(rank))
            store.reports.add_batches([Batch(run, rank, sequence, (sample,))])
            store.reports.points(run)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(deliver, rank) for rank in range(4)]:
            done.result()

    points = store.reports.points(run)
    assert [point.sequence for point in points] == [*range(1, 161)]
    for rank in range(4):
        assert [p.iteration for p in points if p.rank == rank] == [*range(1, 41)]


def test_a_store_that_was_closed_by_another_thread_opens_again(store) -> None:
    store.wish_cluster("lab", up=True, ranks=2)
    thread = threading.Thread(target=store.close)
    thread.start()
    thread.join()

    assert store.cluster_wish("lab") is not None


def test_several_may_open_a_fresh_store_at_the_same_moment(tmp_path) -> None:
    def open_at_once(path: Path) -> None:
        together.wait()
        with Store(path) as store:
            store.wish_cluster("lab", up=True, ranks=1)

    together = threading.Barrier(4)
    with ThreadPoolExecutor(4) as threads:
        for number in range(40):
            path = tmp_path / f"{number}.sqlite3"
            for done in [threads.submit(open_at_once, path) for _ in range(4)]:
                done.result()

            with Store(path) as store:
                wish = store.cluster_wish("lab")
            assert wish is not None
            assert wish.revision == 4


def test_a_reader_follows_two_writing_processes_without_loss(store, run) -> None:
    command = [sys.executable, str(PROGRAMS / "writer.py"), str(store.path), run]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    writers = [subprocess.Popen([*command, str(rank)], **pipes) for rank in range(2)]
    assert [writer.stdout.readline() for writer in writers] == [b"ready\n"] * 2
    for writer in writers:
        writer.stdin.write(b"go\n")
        writer.stdin.flush()

    followed, reads, new, writing = [], 0, [], True
    while writing or new:
        writing = any(writer.poll() is None for writer in writers)
        new = store.reports.points(run, len(followed), limit=97)
        followed += new
        reads += writing and bool(new)

    assert [writer.communicate()[1] for writer in writers] == [b"", b""]
    assert [point.sequence for point in followed] == [*range(1, 4001)]
    for rank in range(2):
        assert [p.iteration for p in followed if p.rank == rank] == [*range(10, 2010)]
    assert reads > 1  # it read while they wrote


def test_a_store_that_is_held_too_long_is_reported(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    Store(path).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    with Store(path, lock_seconds=0.1) as store, pytest.raises(StoreError) as refusal:
        store.wish_cluster("lab", up=True, ranks=1)

    holder.close()
    assert f"The store {path} was busy for 0.1 s; end the program that holds it" in str(
        refusal.value
    )


# -- disks that do not take it


@pytest.mark.parametrize("size", ["16k", "40k", "100k", "400k"])
def test_a_full_disk_is_reported_and_what_was_written_stays(on_disk, size) -> None:
    answer = on_disk("setups.py", size=size)

    sentence, kept = answer.stdout.splitlines()
    assert sentence.startswith("The store store.sqlite3 ")
    assert "full" in sentence
    assert kept == f"{kept.split()[0]} True" or kept == "0 True"
    assert answer.returncode == 0


def test_writing_continues_once_a_full_disk_has_room(on_disk) -> None:
    answer = on_disk("room_again.py")

    sentence, kept = answer.stdout.splitlines()
    assert re.fullmatch(
        r"The store store.sqlite3 cannot be written: its disk is full, /.*/disk "
        r"\(tmpfs, 1.05 MB with \d+ B free\); make room \(`workbench runs --delete` frees what "
        r"runs took\), or set WORKBENCH_HOME to a folder on another disk\.",
        sentence,
    )
    assert kept == "[('cell', 'pass')]"


@pytest.mark.parametrize("limit", [1000, 40_000, 200_000])
def test_a_file_that_may_not_grow_is_reported(tmp_path, limit) -> None:
    answer = subprocess.run(
        [sys.executable, str(PROGRAMS / "setups.py"), str(limit)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    sentence = answer.stdout.splitlines()[0]
    assert sentence.startswith("The store store.sqlite3 cannot be read or written (disk I/O error)")
    assert sentence.endswith("check whether your quota is used up, or the disk is broken.")


def test_a_read_only_disk_is_reported(on_disk) -> None:
    answer = on_disk("setups.py", shell='mount -o remount,ro "$1"')

    assert answer.stdout.splitlines()[0] == (
        "The store store.sqlite3 cannot be opened; correct its permissions, or set WORKBENCH_HOME."
    )


def test_a_store_that_became_read_only_is_reported(on_disk) -> None:
    answer = on_disk("remounted.py")

    assert answer.stdout.startswith("The store store.sqlite3 cannot be ")
    assert "set WORKBENCH_HOME" in answer.stdout
