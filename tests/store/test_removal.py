"""The size of runs is reported, and deletion frees it in the store and on the disk."""

from __future__ import annotations

import re
import sqlite3

import pytest

from workbench.core.recovery.retention import Retention
from workbench.core.run.model import RunState
from workbench.core.run.rank_protocol import Batch, Chunk, Sample
from workbench.errors import InputError, StateError, Unknown
from workbench.requests.run_deletion import delete_runs, find_chosen, what_goes
from workbench.store import Store
from workbench.store.schema import VERSION


@pytest.fixture
def ended(store, wish):
    """Make a run with points and output that has ended."""

    def make(name: str, at: float = 1.0, points: int = 100, state=RunState.FINISHED) -> str:
        run = f"26010{len(store.runs())}-000000-aaaa"
        store.wish_run(wish(name, id=run))
        samples = tuple(Sample("loss", n, 0.0, 1.0) for n in range(points))
        chunks = (Chunk("stdout", 0.0, "x" * 10 * points),)
        store.reports.add_batches([Batch(run, 0, 1, samples, chunks)])
        store.put_run_fact(run, state=state, ended=at)
        folder = store.path.parent / "runs" / run / "output"
        folder.mkdir(parents=True)
        (folder / "snapshot").write_bytes(bytes(100_000))
        return run

    return make


def count(store: Store, table: str) -> int:
    return store.one(f"SELECT count(*) FROM {table}")[0]


def test_a_deleted_run_leaves_nothing_and_the_others_stay(store, ended) -> None:
    first, second = ended("first", points=25_000), ended("second", points=3)
    store.all("PRAGMA wal_checkpoint(TRUNCATE)")
    before = store.path.stat().st_size

    said = delete_runs(store, find_chosen(store, ["first"]))

    assert [run.id for run in store.runs()] == [second]
    assert count(store, "points") == 3
    tables = ("output", "latest", "deliveries", "deleted_runs")
    assert [count(store, table) for table in tables] == [1, 1, 1, 0]
    assert not (store.path.parent / "runs" / first).exists()
    assert (store.path.parent / "runs" / second / "output" / "snapshot").exists()
    assert store.path.stat().st_size < before / 3  # the disk has it back
    assert re.fullmatch(r"Deleted 1 run; \d{3} kB of disk space freed\.", said)


def test_a_run_that_continues_is_not_deleted(store, ended) -> None:
    ended("fit", state=RunState.RUNNING)

    with pytest.raises(StateError, match=r"Run 'fit' is running; stop it first"):
        find_chosen(store, ["fit"])

    assert find_chosen(store, keep=0) == []
    assert not store.removal.delete_run(store.runs()[0].id)


def test_an_unknown_run_is_reported(store) -> None:
    with pytest.raises(Unknown, match="No run is called 'absent'"):
        find_chosen(store, ["absent"])
    with pytest.raises(InputError):
        find_chosen(store)


def test_what_goes_is_reported_before(store, ended) -> None:
    for number in range(7):
        ended(f"run {number}", at=number)

    assert what_goes(find_chosen(store, keep=0)).startswith(
        "7 runs (run 6, run 5, run 4, run 3, run 2 and 2 more), about 7"
    )


def test_a_new_run_gets_nothing_of_one_that_is_still_being_deleted(store, ended, wish) -> None:
    store.removal.delete_run(ended("first", points=30_000))

    new = store.wish_run(wish("second")).id

    assert store.reports.points(new) == []
    assert store.reports.output(new) == []
    while store.removal.sweep():
        pass
    assert count(store, "points") == 0


def test_a_deletion_that_was_cut_short_continues(store, ended) -> None:
    store.removal.delete_run(ended("first", points=30_000))
    store.removal.sweep()

    with Store(store.path) as successor:
        while successor.removal.sweep():
            pass

    assert count(store, "points") == count(store, "deleted_runs") == 0


def test_a_name_is_free_again_at_once(store, ended, wish) -> None:
    store.removal.delete_run(ended("first"))

    assert store.wish_run(wish("first")).name == "first"


def test_a_folder_that_is_a_link_is_not_followed(store, ended, tmp_path) -> None:
    run, precious = ended("first"), tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    folder = store.path.parent / "runs" / run
    for path in (folder / "output" / "snapshot", folder / "output", folder):
        path.unlink() if path.is_file() else path.rmdir()
    folder.symlink_to(precious)

    delete_runs(store, store.removal.list_kept())

    assert not folder.is_symlink()
    assert (precious / "file").exists()


def test_a_store_of_an_older_workbench_gives_the_disk_back_too(tmp_path, wish) -> None:
    path = tmp_path / "store.sqlite3"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")
    connection.close()

    with Store(path) as store:
        run = store.wish_run(wish(id="260101-000000-aaaa")).id
        store.reports.add_batches(
            [Batch(run, 0, 1, tuple(Sample("a", n, 0.0, 1.0) for n in range(30_000)))]
        )
        store.put_run_fact(run, state=RunState.FINISHED, ended=1.0)
        store.all("PRAGMA wal_checkpoint(TRUNCATE)")
        before = store.path.stat().st_size
        delete_runs(store, store.removal.list_kept())

        assert store.path.stat().st_size < before / 3
        assert store.one("PRAGMA auto_vacuum") == (2,)
        assert store.one("PRAGMA user_version") == (VERSION,)


def test_usage_tells_store_and_folders(store, ended) -> None:
    ended("first", points=20_000)

    usage = store.removal.usage()

    assert usage.number == 1
    assert usage.store > 20_000 * 20
    assert 100_000 <= usage.runs < 200_000


def test_runs_are_kept_until_the_user_says_otherwise(store) -> None:
    assert store.removal.retention() == Retention()

    store.removal.put_retention(Retention(90.0, 5))

    assert store.removal.retention() == Retention(90.0, 5)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"age": "x"}', "null", '{"nbytes": 1e999}'])
def test_a_retention_that_cannot_be_read_deletes_nothing(store, text) -> None:
    with store.transaction() as connection:
        connection.execute("INSERT INTO settings VALUES ('retention', ?)", (text,))

    assert store.removal.retention() == Retention()


def test_runs_are_deleted_on_a_full_disk(on_disk) -> None:
    answer = on_disk("deletion.py", size="4m")

    assert answer.stdout.split()[:4] == ["full", "Deleted", "1", "run;"], answer.stderr
    assert answer.stdout.splitlines()[-1] == "0"
