"""Runs are deleted after the retention that the user has set, and logs stay small."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.core.recovery.retention import Retention
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Chunk, Ending, Progress, Sample, encode
from workbench.store import SavedCurves
from workbench.supervisor import housekeeping
from workbench.supervisor.housekeeping import (
    LOOK_SECONDS,
    PIECE_SECONDS,
    Housekeeping,
    LogFile,
    shorten,
)

DAY = 86_400.0
NOW = 1000 * DAY


@pytest.fixture
def run(store):
    """Make a run that ended some days ago."""

    def make(days: float, state=RunState.FINISHED) -> str:
        number = len(store.runs())
        id_ = f"260101-00000{number}-aaaa"
        store.wish_run(RunWish(id_, f"run {number}", RunKind.CELL, "", "lab"))
        store.put_run_fact(id_, state=state, ended=NOW - days * DAY, generation=3, ranks=2)
        return id_

    return make


def keep_house(store, turns: int = 30, standing=()) -> None:
    keeper = Housekeeping(store, "lab", lambda: standing)
    for turn in range(turns):
        keeper.turn(NOW, LOOK_SECONDS + turn * PIECE_SECONDS)


def test_by_default_everything_is_kept(store, run) -> None:
    run(5000)

    keep_house(store)

    assert len(store.runs()) == 1


def test_runs_that_ended_long_ago_are_deleted_and_logged(store, run, caplog) -> None:
    _, _, new = run(100), run(91), run(89)
    going = run(200, RunState.RUNNING)
    store.removal.put_retention(Retention(age=90 * DAY))

    with caplog.at_level(logging.INFO, "workbench.supervisor"):
        keep_house(store)

    assert {run.id for run in store.runs()} == {new, going}
    assert "Deleted run 'run 0', which ended 100 d ago: ended runs are deleted 90 d" in caplog.text


def test_the_oldest_go_while_all_take_too_much(store, run) -> None:
    runs = [run(days) for days in (3, 2, 1)]
    for id_ in runs:
        (store.path.parent / "runs" / id_).mkdir(parents=True)
        (store.path.parent / "runs" / id_ / "file").write_bytes(bytes(10_000_000))
    store.removal.put_retention(Retention(nbytes=15_000_000))

    keep_house(store)

    assert [run.id for run in store.runs()] == runs[-1:]


def test_the_newest_measurement_of_a_cluster_stays(store, run) -> None:
    measured = [run(100), run(99)]
    with store.transaction() as connection:
        for number, id_ in enumerate(measured):
            connection.execute("INSERT INTO surveys VALUES (?, 'lab', ?, '{}')", (id_, number))
    store.removal.put_retention(Retention(age=DAY))

    keep_house(store)

    assert [run.id for run in store.runs()] == measured[1:]


@pytest.fixture
def left(store, run):
    """A log of a rank that died before the store had its last two batches."""
    id_ = run(1)
    batches = [Batch(id_, 0, n, (), (Chunk("stdout", 0.0, f"{n}\n"),)) for n in (1, 2)]
    batches.append(Batch(id_, 0, 3, progress=Progress(), ending=Ending("failed", error="boom")))
    store.reports.add_batches(batches[:1])
    path = store.path.parent / "runs" / id_ / "rank-0.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(encode(batch) + b"\n" for batch in batches) + b'["Batch", {"ru')
    return path


def test_what_a_dead_rank_wrote_down_is_taken_in_and_its_log_goes(store, left) -> None:
    keep_house(store)

    assert [row.text for row in store.reports.output(left.parent.name)] == ["1\n", "2\n"]
    assert not left.parent.exists()


def test_a_log_whose_rank_may_be_alive_stays(store, left) -> None:
    keep_house(store, standing=[3])

    assert left.exists()


def test_a_log_of_another_rank_or_run_is_not_believed(store, left, run) -> None:
    other = run(1)
    left.write_bytes(
        encode(Batch(other, 0, 1, (), (Chunk("stdout", 0.0, "forged"),)))
        + b"\n"
        + encode(Batch(left.parent.name, 1, 1, (), (Chunk("stdout", 0.0, "forged"),)))
    )

    keep_house(store)

    assert store.reports.output(other) == []
    assert [row.text for row in store.reports.output(left.parent.name)] == ["1\n"]


def test_the_log_of_an_earlier_attempt_goes_unread(store, left) -> None:
    run = left.parent.name
    store.attempts.continue_run(store.run(run).fact, "because")
    store.put_run_fact(run, state=RunState.FINISHED, generation=4)
    batch = Batch(store.run(run).execution, 0, 1, (), (Chunk("stdout", 0.0, "again\n"),))
    left.with_name("rank-0-2.log").write_bytes(encode(batch))

    keep_house(store)

    assert [row.text for row in store.reports.output(run)] == ["1\n", "again\n"]
    assert not left.parent.exists()


def test_what_a_lost_world_wrote_down_is_read_before_its_run_continues(store, left) -> None:
    Housekeeping(store, "lab", lambda: [3]).read_left(left.parent.name)

    assert [row.text for row in store.reports.output(left.parent.name)] == ["1\n", "2\n"]
    assert store.reports.endings(left.parent.name)[0].error == "boom"
    assert left.exists()


def test_the_curves_of_a_long_run_are_saved_while_points_arrive(store, run, monkeypatch) -> None:
    monkeypatch.setattr(housekeeping, "POINTS_AT_ONCE", 100)
    id_ = run(0, RunState.RUNNING)

    def add(sequence: int, amount: int) -> None:
        samples = tuple(Sample("loss", sequence, 1.0, 2.0) for _ in range(amount))
        store.reports.add_batches([Batch(id_, 0, sequence, samples)])

    saving = housekeeping.CurveSaving(store, "lab", least=250)
    add(1, 249)
    saving.turn(0.0)
    saving.turn(1.0)
    assert store.curves.read_saved(id_) is None

    add(2, 1)
    for turn in range(4):  # to begin, and for each piece of 100 points
        saving.turn(housekeeping.LOOK_SECONDS + turn)
        if not turn:
            add(3, 20)
    saved = store.curves.read_saved(id_)
    assert (saved.last, saved.points) == (270, 270)

    add(4, 1000)
    for turn in range(12):
        saving.turn(2 * housekeeping.LOOK_SECONDS + turn)
    saved = store.curves.read_saved(id_)
    assert (saved.last, saved.points) == (1270, 1270)


def test_damaged_curves_are_made_again(store, run) -> None:
    id_ = run(0, RunState.RUNNING)
    samples = tuple(Sample("loss", i, 1.0, 2.0) for i in range(20))
    store.reports.add_batches([Batch(id_, 0, 1, samples)])
    store.curves.save(id_, SavedCurves(5, 5, b"torn"), 0)

    saving = housekeeping.CurveSaving(store, "lab", least=10)
    saving.turn(0.0)
    saving.turn(1.0)

    saved = store.curves.read_saved(id_)
    assert (saved.last, saved.points) == (20, 20)


WRITE = str(Path(__file__).parent / "programs" / "write_log.py")


def test_a_large_log_is_begun_again_and_the_former_one_kept(tmp_path) -> None:
    log = tmp_path / "supervisor.log"

    with log.open("ab") as file:
        subprocess.run([sys.executable, WRITE, log], stdout=file, stderr=file, check=True)

    assert log.stat().st_size < 1100
    assert (tmp_path / "supervisor.log.1").stat().st_size < 1100
    assert log.read_text().splitlines()[-1] == "printed"


def test_a_warning_about_unsigned_sessions_is_left_out(tmp_path, capsys) -> None:
    handler = LogFile(tmp_path / "supervisor.log")

    for said in ("Message signing is disabled.  This is insecure", "ready"):
        handler.handle(logging.LogRecord("traitlets", logging.WARNING, "", 0, said, (), None))

    assert [line.rpartition(" ")[2] for line in capsys.readouterr().err.splitlines()] == ["ready"]


def test_output_that_is_not_the_log_is_not_redirected(tmp_path) -> None:
    log = tmp_path / "supervisor.log"
    log.touch()

    command = [sys.executable, WRITE, str(log)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)

    assert said.stderr.count("line ") == 50
    assert log.stat().st_size == 0


def test_a_large_log_of_others_keeps_its_end(tmp_path) -> None:
    log = tmp_path / "ipcontroller-1.log"
    log.write_text("".join(f"line {number}\n" for number in range(1000)))

    with log.open("ab", buffering=0) as writer:
        shorten(log, most=1000)
        writer.write(b"after\n")

    lines = log.read_text().splitlines()
    assert (lines[-2:], len(lines) < 60) == (["line 999", "after"], True)
    assert all(line.startswith(("line ", "after")) for line in lines)
