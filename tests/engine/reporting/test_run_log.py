"""A rank's log numbers its batches, keeps them until acknowledged, and survives a full disk."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.run.rank_protocol import (
    MOST_NAMES,
    Batch,
    Ending,
    ExamplesVisited,
    HandwrittenLoop,
    PointsSaved,
    Progress,
    Sample,
    Samples,
    SnapshotSaved,
    TrainingResumed,
    decode_message,
)
from workbench.engine.reporting.run_log import (
    BATCH_CHARACTERS,
    BATCH_SAMPLES,
    MOST_SAVED,
    UNWATCHED_SECONDS,
    WAITING_PIECES,
    RunLog,
    make_for_owner,
)

PROGRAMS = Path(__file__).parents[1] / "programs"


def unconfirmed(log: RunLog) -> list[bytes]:
    """Return what a supervisor gets that asks for what it lacks."""
    log.outbox.resend()
    lines = []
    while (line := log.outbox.due()) is not None:
        lines.append(line)
        log.outbox.note_sent(0.0)
    return lines


def test_the_first_batch_comes_though_it_is_empty(taken) -> None:
    assert taken() == Batch("260101-000000-arun", 0, 1, progress=Progress())


def test_nothing_is_taken_while_there_is_no_news(log, taken) -> None:
    taken()

    assert log.take() is None
    assert log.outbox.sequence == 1


def test_values_are_taken_once_and_in_order(log, taken) -> None:
    for iteration in range(3):
        log.add("loss", iteration, iteration / 2)

    first = taken()

    assert [(s.name, s.iteration, s.value) for s in first.samples] == [
        ("loss", 0, 0.0),
        ("loss", 1, 0.5),
        ("loss", 2, 1.0),
    ]
    assert log.take() is None


def test_a_run_has_a_limited_number_of_names_and_says_so_once(log, taken) -> None:
    for step in range(2 * MOST_NAMES):
        log.add(f"loss{step}", step, 1.0)
    log.add("step/compute", 1, 1.0)
    log.add("loss0", MOST_NAMES, 2.0)

    batch = taken()
    (said,) = taken().chunks if not batch.chunks else batch.chunks

    assert len(batch.samples.names) == MOST_NAMES + 1
    assert [one.value for one in batch.samples if one.name == "loss0"] == [1.0, 2.0]
    assert "more than 1,000 names; 'loss1000' and all later ones are left out" in said.text


def test_the_first_value_of_a_script_that_starts_again_says_from_where(log, taken) -> None:
    log.restarts = True
    log.tell(HandwrittenLoop())
    before = taken()
    log.add("loss", 501, 0.5)
    log.add("loss", 502, 0.5)

    first = taken()
    log.add("loss", 503, 0.5)

    assert [one.event for one in before.events] == [HandwrittenLoop()]
    assert [(one.event, one.after) for one in first.events] == [(TrainingResumed(500), 0)]
    assert [s.iteration for s in first.samples] == [501, 502]
    assert taken().events == ()


def test_an_event_keeps_its_place_among_the_values(log, taken) -> None:
    log.add("loss", 1, 0.5)
    log.tell(SnapshotSaved(1))
    log.add("loss", 2, 0.5)

    assert [(one.event, one.after) for one in taken().events] == [(SnapshotSaved(1), 1)]


def test_what_is_not_acknowledged_is_undelivered_wherever_it_waits(log, taken) -> None:
    visited = ExamplesVisited(3, 0, ((1, 60),))
    log.add("loss", 1, 0.5)
    log.acknowledge(taken().sequence)
    log.add("loss", 2, 0.25)
    log.tell(HandwrittenLoop())
    taken()
    log.add_all(3, (("loss", 0.125), ("lr", 0.5)))
    log.tell(visited)
    log.add("another numbering", 300, 1.0)
    log.fetching.append(lambda: log.add("on a device", 3, 2.0))

    points, counts = log.undelivered(3)

    assert (points.iteration, points.rank, counts) == (3, 0, visited)
    assert [(one.name, one.iteration, one.value) for one in points.samples] == [
        ("loss", 2, 0.25), ("loss", 3, 0.125), ("lr", 3, 0.5), ("on a device", 3, 2.0),
    ]  # fmt: skip
    assert [one.iteration for one in taken().samples] == [3, 3, 300, 3]


def test_what_an_earlier_rank_did_not_deliver_stays_undelivered_until_it_is(log, taken) -> None:
    earlier = PointsSaved(4, 2, Samples.of([Sample("loss", 4, 1.0, 0.5)]))
    log.tell(earlier)
    log.add("loss", 5, 0.25)
    batch = taken()

    of_two, own = log.undelivered(5)
    log.acknowledge(batch.sequence)

    assert (of_two.rank, of_two.samples, own.rank) == (2, earlier.samples, 0)
    assert [one.iteration for one in own.samples] == [5]
    assert log.undelivered(5) == []


def test_a_snapshot_has_the_newest_points_of_a_supervisor_that_is_absent(log, taken) -> None:
    for n in range(1, 2 * MOST_SAVED + 1):
        log.add("loss", n, 0.0)
        if n % BATCH_SAMPLES == 0:
            taken()

    (points,) = log.undelivered(2 * MOST_SAVED)

    assert [one.iteration for one in points.samples] == [*range(MOST_SAVED + 1, 2 * MOST_SAVED + 1)]


def test_points_of_many_ranks_take_several_batches(log, taken) -> None:
    several = Samples.of([Sample("loss", n, 1.0, 0.0) for n in range(BATCH_SAMPLES // 2)])
    for rank in range(4):
        log.tell(PointsSaved(BATCH_SAMPLES, rank, several))

    batches = [taken(), taken()]

    assert [[one.event.rank for one in batch.events] for batch in batches] == [[0, 1], [2, 3]]


def test_progress_alone_is_news_once(log, taken) -> None:
    taken()

    log.progress = Progress(5, 10)

    assert taken().progress == Progress(5, 10)
    assert log.take() is None


def test_pieces_of_one_stream_are_joined_and_streams_keep_their_order(log, taken) -> None:
    for stream, text in (
        ("stdout", "a"),
        ("stdout", "\n"),
        ("stderr", "b\n"),
        ("stdout", "c"),
        ("stdout", "d"),
    ):
        log.write(stream, text)

    chunks = taken().chunks

    assert [(c.stream, c.text) for c in chunks] == [
        ("stdout", "a\n"),
        ("stderr", "b\n"),
        ("stdout", "cd"),
    ]
    assert [*chunks] == sorted(chunks, key=lambda chunk: chunk.time)


def test_the_ending_is_in_the_last_batch_with_what_came_before_it(log, taken) -> None:
    log.write("stdout", "bye\n")
    log.finish(Ending("finished", 7))

    last = taken()

    assert (last.ending, last.chunks[0].text) == (Ending("finished", 7), "bye\n")
    assert log.closed
    log.write("stdout", "too late")
    assert log.take() is None


def test_a_log_is_settled_when_its_ending_is_confirmed(log, taken) -> None:
    taken()
    log.finish(Ending("finished"))
    assert not log.settled

    taken()
    log.acknowledge(1)
    assert not log.settled

    log.acknowledge(2)
    assert log.settled


def test_only_the_owner_may_read_a_log_whatever_the_umask(log) -> None:
    before = os.umask(0)

    log.take()

    os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (log.path, log.path.parent)]
    assert modes == [0o600, 0o700]


def test_folders_above_are_made_for_their_owner_alone_too(tmp_path) -> None:
    before = os.umask(0)

    make_for_owner(tmp_path / "runs" / "260101-000000-arun" / "output")

    os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o700] * 3


def test_a_discarded_log_leaves_its_folder_to_the_other_ranks(tmp_path) -> None:
    logs = [
        RunLog("260101-000000-arun", rank, tmp_path / "runs" / f"rank-{rank}.log")
        for rank in range(2)
    ]
    for log in logs:
        log.take()

    logs[0].discard()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["rank-1.log"]

    logs[1].discard()
    assert not (tmp_path / "runs").exists()


def test_what_is_not_confirmed_is_kept_as_it_was_sent(log) -> None:
    sent = []
    for number in range(4):
        log.write("stdout", f"line {number} ä\n")
        sent.append(log.take())

    log.acknowledge(1)

    assert unconfirmed(log) == sent[1:]
    log.acknowledge(4)
    assert unconfirmed(log) == []


def test_an_old_confirmation_changes_nothing(log, taken) -> None:
    taken()
    log.acknowledge(1)

    log.acknowledge(0)

    assert log.outbox.acknowledged == 1
    assert unconfirmed(log) == []


def test_every_batch_is_written_down_before_it_is_taken(log) -> None:
    lines = []
    for number in range(3):
        log.write("stdout", f"{number}\n")
        lines.append(log.take())
        assert log.path.read_bytes().splitlines() == lines


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.text(), max_size=6), st.integers(0, 6))
def test_any_text_can_be_sent_again(tmp_path_factory, texts, confirmed) -> None:
    log = RunLog("260101-000000-arun", 0, tmp_path_factory.mktemp("log") / "rank-0.log")
    for text in texts:
        log.write("stdout", text + ".")
        log.take()

    log.acknowledge(min(confirmed, len(texts)))

    again = [decode_message(line) for line in unconfirmed(log)]
    assert [batch.chunks[0].text for batch in again] == [t + "." for t in texts[confirmed:]]
    assert [batch.sequence for batch in again] == [*range(confirmed + 1, len(texts) + 1)]


@contextmanager
def files_of_at_most(nbytes: int) -> Iterator[None]:
    """Let no file grow beyond this; pytest's own output, which may be one, comes after it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python 3.11 keeps bytecode that was written in part (python/cpython#126606).
    writes_no_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes_no_bytecode


def test_what_does_not_fit_on_the_disk_is_kept_in_memory(log) -> None:
    sent = []
    with files_of_at_most(2000):
        for letter in "abcdef":
            log.write("stdout", letter * 600)
            sent.append(log.take())
    assert log.path.stat().st_size <= 2000 < sum(map(len, sent))

    assert unconfirmed(log) == sent


def test_the_disk_is_used_again_once_there_is_room(log) -> None:
    log.path.mkdir(parents=True)  # in the way of the file
    log.write("stdout", "a")
    first = log.take()

    log.path.rmdir()
    log.write("stdout", "b")
    second = log.take()

    assert unconfirmed(log) == [first, second]
    assert log.path.read_bytes() == second + b"\n"


def test_a_folder_that_cannot_be_made_does_not_end_the_run(tmp_path) -> None:
    (tmp_path / "file").touch()
    log = RunLog("260101-000000-arun", 0, tmp_path / "file" / "runs" / "rank-0.log")

    log.write("stdout", "hello\n")
    line = log.take()

    assert unconfirmed(log) == [line]


def test_a_log_is_taken_from_while_it_is_added_to(tmp_path) -> None:
    answer = subprocess.run(
        [sys.executable, PROGRAMS / "taken_log.py", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (answer.stdout, answer.stderr) == ("whole\n", "")


def drained(log: RunLog) -> list[Batch]:
    """Take all that there is."""
    batches = []
    while line := log.take():
        batches.append(decode_message(line))
    return batches


def test_what_is_written_fast_is_taken_in_batches_of_bounded_size_and_whole(log) -> None:
    line = "x" * 99 + "\n"
    for _ in range(60_000):
        log.write("stdout", line)
    log.finish(Ending("finished"))

    batches = drained(log)

    sizes = [sum(len(chunk.text) for chunk in batch.chunks) for batch in batches]
    assert sum(sizes) == 6_000_000
    assert max(sizes) <= BATCH_CHARACTERS + len(line)
    assert [batch.ending is not None for batch in batches] == [False] * (len(batches) - 1) + [True]
    assert all(len(batch.chunks) == 1 for batch in batches)


def test_taking_what_was_written_takes_time_in_proportion(tmp_path) -> None:
    def seconds(lines: int) -> float:
        log = RunLog("260101-000000-arun", 0, tmp_path / str(lines))
        for number in range(lines):
            log.note("stdout", f"{number:99}\n")
        start = time.process_time()
        drained(log)
        return time.process_time() - start

    seconds(1_000)

    assert seconds(80_000) < 60 * seconds(4_000) + 0.2


def test_one_long_piece_is_cut_into_batches_and_keeps_its_order(log) -> None:
    text = "".join(f"{number:09}\n" for number in range(450_000))
    log.write("stdout", text)
    log.write("stdout", "after\n")

    batches = drained(log)

    assert "".join(chunk.text for batch in batches for chunk in batch.chunks) == text + "after\n"
    assert max(len(chunk.text) for batch in batches for chunk in batch.chunks) <= 1_000_100


def test_who_writes_faster_than_it_is_taken_waits(log) -> None:
    thread = threading.Thread(
        target=lambda: [log.write("stdout", "x" * 99) for _ in range(210_000)]
    )

    thread.start()
    thread.join(1.0)
    waited = thread.is_alive()
    while thread.is_alive():
        log.take()

    assert waited
    assert sum(len(c.text) for batch in drained(log) for c in batch.chunks) <= 99 * WAITING_PIECES


def test_many_values_are_taken_in_batches_of_bounded_size(log) -> None:
    for number in range(50_000):
        log.add("loss", number, 0.5)

    batches = drained(log)

    assert max(len(batch.samples) for batch in batches) <= 20_000
    assert [s.iteration for batch in batches for s in batch.samples] == [*range(50_000)]


@pytest.mark.parametrize(
    "wrong",
    [("loss", 2**70, 0.5), ("loss", -1, 0.5), ("loss", "1", 0.5), (5, 1, 0.5), ("loss", 1, "x")],
    ids=repr,
)
def test_what_cannot_be_sent_is_left_out_and_said_once(log, wrong) -> None:
    for _ in range(2):
        log.add(*wrong)
        log.take()
    log.add("loss", 7, 0.25)
    log.finish(Ending("finished", 7))

    batches = [decode_message(line) for line in unconfirmed(log)] + drained(log)

    assert [s.value for b in batches for s in b.samples] == [0.25]
    said = [c.text for b in batches for c in b.chunks]
    assert len(said) == 1
    assert "could not be sent" in said[0]
    assert batches[-1].ending == Ending("finished", 7)


def test_a_training_that_cannot_say_how_far_it_is_continues(log, taken) -> None:
    def broken() -> Progress:
        raise RuntimeError("no updater")

    log.progress_source = broken
    log.add("loss", 1, 0.5)

    assert [s.value for s in taken().samples] == [0.5]
    assert "no updater" in taken().chunks[0].text


def test_an_error_of_any_length_is_reported_in_part_and_is_whole_in_the_output(log) -> None:
    long = "ValueError: " + "x" * 20_000_000
    log.finish(Ending("failed", 3, long, f"Traceback\n{long}"))

    batches = drained(log)

    ending = batches[-1].ending
    assert ending is not None
    assert len(ending.error) <= 2_000
    assert len(ending.traceback) <= 20_000
    assert "characters are left out" in ending.error
    text = "".join(chunk.text for batch in batches for chunk in batch.chunks)
    assert text == f"Traceback\n{long}\n"


def test_a_long_run_that_no_page_follows_is_looked_at_rarely_and_a_new_one_often(log) -> None:
    """Each look takes time of the core on which the rank trains."""
    began = time.monotonic()
    log.take()
    watched = log.pause(0.08, began + 40)
    log.is_watched = False

    assert (watched, log.pause(0.08, began)) == (0.08, 0.08)
    assert 0.08 < log.pause(0.08, began + 5) < UNWATCHED_SECONDS
    assert log.pause(0.08, began + 60) == UNWATCHED_SECONDS


def test_a_run_that_a_page_follows_is_looked_at_for_a_few_pixels_of_its_curve_each(log) -> None:
    """A page shows little of what comes in between, and each update takes time of the cores."""
    log.take()
    log.looked = log._began + 900

    pauses = [log.pause(0.08, log._began + age) for age in (0, 40, 60, 150, 300, 90_000)]

    assert pauses == [0.08, 0.08, 0.25, 0.5, UNWATCHED_SECONDS, UNWATCHED_SECONDS]
    assert not log.is_due(log.looked + 0.5 * UNWATCHED_SECONDS)
    assert log.is_due(log.looked + UNWATCHED_SECONDS)
    log.finish(Ending("finished", 3))
    assert log.is_due(log.looked)


def test_the_first_values_are_sent_at_once_though_no_page_follows_them(log) -> None:
    """A run whose rank is killed begins again if an iteration of it is known."""
    log.take()
    log.is_watched = False
    log.looked = long = log._began + 60

    before = log.is_due(long)
    log.add("loss", 1, 0.5)
    first = log.is_due(long)
    log.take()
    log.add("loss", 2, 0.5)

    assert (before, first, log.is_due(long)) == (False, True, False)


def test_output_that_no_page_follows_waits_for_the_next_look(log) -> None:
    """An acknowledgement wakes the channel at once, where output would make another batch."""
    log.take()
    log.is_watched = False
    log.note("stdout", "epoch 1")
    young, long = log._began + 0.2, log._began + 60

    log.looked = young
    assert log.is_due(young)
    log.looked = long
    assert not log.is_due(long + 0.5 * UNWATCHED_SECONDS)
    assert log.is_due(long + UNWATCHED_SECONDS)


def test_a_run_that_ends_is_looked_at_often(log) -> None:
    """Its user waits for the end."""
    log.take()
    log.is_watched = False

    log.finish(Ending("finished", 3))

    assert log.pause(0.08, time.monotonic() + 60) == 0.08


def test_a_look_that_comes_a_little_early_still_takes_what_there_is(log) -> None:
    """Else every second look would take nothing."""
    log.take()
    log.is_watched = False
    log.looked = time.monotonic()

    assert log.is_due(log.looked + UNWATCHED_SECONDS - 0.002)
