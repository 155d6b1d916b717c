"""Several processes and threads share the file; each problem of it is one sentence."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish, Provider, Purchase
from workbench.core.performance.exchange_model import Codec, marked_codec
from workbench.core.run.rank_protocol import Batch
from workbench.core.run.samples import Sample
from workbench.errors import StoreError
from workbench.store import Store
from workbench.store.schema import MIGRATIONS, VERSION

PROGRAMS = Path(__file__).parent / "programs"


def test_a_fresh_store_has_this_version(store) -> None:
    assert store._one("PRAGMA user_version") == (VERSION,)


def test_an_empty_file_is_taken_for_version_0_and_migrated(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    path.touch()

    with Store(path) as store:
        store.wish_cluster("lab", up=True, ranks=2)

    with Store(path) as store:
        assert store.cluster_wish("lab") is not None


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_store_of_an_older_version_is_migrated_and_keeps_what_it_had(tmp_path, version) -> None:
    path = tmp_path / "store.sqlite3"
    with sqlite3.connect(path) as connection:
        for step in range(version):
            connection.executescript(MIGRATIONS[step])
        connection.execute(
            "INSERT INTO clusters (name, up, ranks, oversubscribe, revision) "
            "VALUES ('lab', 1, 3, 0, 7)"
            if version < 3
            else "INSERT INTO clusters (name, up, ranks, oversubscribe, revision, fleet) "
            "VALUES ('lab', 1, 3, 0, 7, '')"
        )
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()

    with Store(path) as store:
        assert store.cluster_wish("lab") == ClusterWish("lab", True, 3, False, 7)
        assert store.wish_cluster("lab", up=True, ranks=4).revision == 8
        assert store.nodes("lab") == store.purchases("lab") == []
        assert store.open_pages("run", 0.0) is None
        assert store.surveys("lab") == store.forecasts("lab", 1e12) == []
        assert store._one("PRAGMA user_version") == (VERSION,)


def test_a_node_of_an_older_store_keeps_the_disk_that_was_counted(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    with sqlite3.connect(path) as connection:
        for step in range(7):
            connection.executescript(MIGRATIONS[step])
        for name, place in (("lab", "ec2"), ("desk", "hosts")):
            fleet = json.dumps({"place": place})
            connection.execute(
                "INSERT INTO clusters (name, up, ranks, oversubscribe, revision, fleet) "
                "VALUES (?, 1, 0, 0, 1, ?)", (name, fleet)
            )  # fmt: skip
            connection.execute(
                "INSERT INTO nodes VALUES (?, 'n', 'joined', '', 1, '', '', 0.1, 0.2, 1, 0, 0, '', "
                "1, 0)", (name,)
            )  # fmt: skip
        connection.execute("PRAGMA user_version = 7")
    connection.close()

    with Store(path) as store:
        [rented], [own] = store.nodes("lab"), store.nodes("desk")

    assert rented.extra_price == pytest.approx(50 * 0.08 / 730)
    assert (rented.spent, own.extra_price) == (0.2, 0.0)
    assert (rented.traffic, own.traffic) == (0.0, 0.0)


def test_what_was_in_texts_and_places_of_an_older_store_has_fields(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    exchange = {"nbytes": 1000, "seconds": 1e-3, "ranks": 3}
    old = [
        exchange | {"algorithm": "workbench: ring: of all"},
        exchange | {"algorithm": "mpi"},
        exchange | {"way": "mpi", "choice": "own"},
    ]
    survey = {"time": 1.0, "nodes": ["a"], "pairs": [], "exchanges": old, "rating": 1e9}
    document = json.dumps({"survey": survey, "ranks": 3, "seconds": 1.0}, separators=(",", ":"))
    names = ["set-up network", "network in generation 6 of lab", "fit"]
    with sqlite3.connect(path) as connection:
        for step in range(10):
            connection.executescript(MIGRATIONS[step])
        for number, name in enumerate(names, 1):
            connection.execute(
                "INSERT INTO runs (number, id, name, cluster, kind, source, path, folder, "
                "arguments, parameters, environment, wished_ranks, grace, wall_clock_limit, "
                "created) VALUES (?, ?, ?, 'lab', ?, '', '', '', '[]', '[]', '[]', 0, 1, 0, 1)",
                (number, f"r{number}", name, "cell" if name == "fit" else "setup"),
            )
        connection.execute("INSERT INTO metrics VALUES (5, 'exchange/codec'), (6, 'main/loss')")
        connection.execute("INSERT INTO points VALUES (3, 1, 0, 9, 1, 5, 0), (3, 2, 0, 9, 1, 6, 0)")
        connection.execute("INSERT INTO points VALUES (3, 3, 1, 9, 1, 5, 5)")
        connection.execute("INSERT INTO latest VALUES (3, 5, 0, 9, 0), (3, 6, 0, 9, 0)")
        connection.execute("INSERT INTO latest VALUES (3, 5, 1, 9, 5)")
        connection.execute("INSERT INTO surveys VALUES ('r3', 'lab', 1, ?)", (document,))
        connection.execute("PRAGMA user_version = 10")
    connection.close()

    with Store(path) as store:
        setups = [store.run(f"r{number}").wish.setup for number in (1, 2, 3)]
        measured = store.measured("r3", "exchange/")
        history = store.history("r3", "exchange/")
        [kept] = store.surveys("lab")

    assert setups == ["network", "network", ""]
    assert measured == {0: {"codec none": 1.0}, 1: {"codec powersgd": 1.0}}
    assert [*map(marked_codec, measured.values())] == [Codec.NONE, Codec.POWERSGD]
    assert history == {rank: [values] for rank, values in measured.items()}
    assert [(one.way, one.choice) for one in kept.survey.exchanges] == [
        ("workbench", "ring: of all"),
        ("mpi", ""),
        ("mpi", "own"),
    ]


def test_what_was_asked_for_before_options_had_their_names_is_read(tmp_path) -> None:
    path, script = tmp_path / "store.sqlite3", 'echo "least": "place": '
    fleet = {"place": "ec2", "nodes": 3, "least": 2, "most": 5, "most_price": 1.5}
    purchase = {"cluster": "lab", "token": "t", "rung": 0, "count": 3, "least": 2}
    purchase |= {"types": ["a"], "most_price": 0.5}
    with sqlite3.connect(path) as connection:
        for step in range(11):
            connection.executescript(MIGRATIONS[step])
        connection.execute(
            "INSERT INTO clusters (name, up, ranks, oversubscribe, revision, fleet) "
            "VALUES ('lab', 1, 0, 0, 1, ?)", (json.dumps(fleet | {"prepare": script}),)
        )  # fmt: skip
        connection.execute(
            "INSERT INTO purchases VALUES (1, 'lab', 't', ?, 1, 0, 'written', 1, '', '', '', '[]')",
            (json.dumps(purchase),),
        )
        connection.execute("PRAGMA user_version = 11")
    connection.close()

    with Store(path) as store:
        wish, [record] = store.cluster_wish("lab"), store.purchases("lab")

    assert wish is not None
    assert wish.fleet == FleetWish(
        Provider.EC2, nodes=3, min_nodes=2, max_nodes=5, max_price=1.5, prepare=script
    )
    assert record.purchase == Purchase("lab", "t", 0, 3, 2, ("a",), max_price=0.5)


def test_a_cluster_of_an_older_store_continues_with_its_next_number(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    with sqlite3.connect(path) as connection:
        for step in range(21):
            connection.executescript(MIGRATIONS[step])
        connection.execute("INSERT INTO cluster_facts VALUES ('lab', 'up', 2, 7, '', 0, '', 1, 4)")
        connection.execute("PRAGMA user_version = 21")
    connection.close()

    with Store(path) as store:
        row = store._one("SELECT generation, since, newest FROM cluster_facts")

    assert row == (7, 4, 7)


def test_what_had_other_names_in_an_older_store_is_read(tmp_path) -> None:
    path, run = tmp_path / "store.sqlite3", "260101-000000-aaaa"
    purchase = {"cluster": "lab", "token": "t", "rung": 2, "count": 3, "min_nodes": 2}
    purchase |= {"types": ["a"]}
    with sqlite3.connect(path) as connection:
        for step in range(14):
            connection.executescript(MIGRATIONS[step])
        connection.execute(
            "INSERT INTO runs (number, id, name, cluster, kind, source, path, folder, arguments, "
            "parameters, environment, wished_ranks, grace, wall_clock_limit, created) "
            "VALUES (3, ?, 'fit', 'lab', 'cell', '', '', '', '[]', '[]', '[]', 0, 1, 0, 1)", (run,)
        )  # fmt: skip
        connection.execute("INSERT INTO metrics VALUES (5, 'gauge/noise'), (6, 'gauge/mine')")
        connection.execute("INSERT INTO points VALUES (3, 1, 0, 9, 1, 5, 7), (3, 2, 0, 9, 1, 6, 8)")
        connection.execute("INSERT INTO latest VALUES (3, 5, 0, 9, 7), (3, 6, 0, 9, 8)")
        connection.execute(
            "INSERT INTO purchases VALUES (1, 'lab', 't', ?, 4, 0, 'written', 1, '', '', '', '[]')",
            (json.dumps(purchase),),
        )
        forecast = ('[{"setup": 1}]', 2.0)
        connection.execute("INSERT INTO forecasts VALUES (1, 'lab', 'r', 'plan', ?, ?)", forecast)
        node = ("lab", "n", "joined", "", 1, "", "", 0.1, 0.2, 1, 0, 0, "", 1, 0, 0, 0, 0.01, 0)
        connection.execute(f"INSERT INTO nodes VALUES ({', '.join('?' * len(node))})", node)
        connection.execute("INSERT INTO attendance VALUES (?, 'server', 2, 50)", (run,))
        connection.execute("INSERT INTO doomed VALUES (4, 'gone')")
        connection.execute("PRAGMA user_version = 14")
    connection.close()

    with Store(path) as store:
        measured, values = store.measured(run, "gradient_noise/"), store.final_values(run)
        [record], [node] = store.purchases("lab"), store.nodes("lab")
        predicted = store._one("SELECT predictor, predicted_at FROM forecasts")
        pages, deleted = store.open_pages(run, 51.0), store.sweep()

    assert measured == {0: {"noise": 7.0}}
    assert "gauge/mine" in str(values)
    assert (record.purchase.number, record.pass_number) == (2, 4)
    assert (predicted, node.extra_price, pages, deleted) == (("plan", 2.0), 0.01, 2, True)


def test_a_migration_that_fails_leaves_nothing_half_done(tmp_path) -> None:
    path = tmp_path / "store.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE points (mine TEXT)")  # in the way of the migration's own
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


def test_a_store_in_a_folder_that_is_none_cannot_be_opened(tmp_path) -> None:
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
            store.add_batches([Batch(run, rank, sequence, (sample,))])
            store.points(run)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(deliver, rank) for rank in range(4)]:
            done.result()

    points = store.points(run)
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
        new = store.points(run, len(followed), limit=97)
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
