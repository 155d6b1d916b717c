"""A rank's log numbers what it takes, keeps it until it is confirmed, and survives a full disk."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.report import Batch, Ending, Progress, decode
from workbench.engine.log import RunLog


def test_the_first_batch_comes_though_it_is_empty(taken) -> None:
    assert taken() == Batch("a-run", 0, 1, progress=Progress())


def test_nothing_is_taken_while_there_is_no_news(log, taken) -> None:
    taken()

    assert log.take() is None
    assert log.sequence == 1


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


def test_what_is_not_confirmed_is_kept_as_it_was_sent(log) -> None:
    sent = []
    for number in range(4):
        log.write("stdout", f"line {number} ä\n")
        sent.append(log.take())

    log.acknowledge(1)

    assert log.unacknowledged() == sent[1:]
    log.acknowledge(4)
    assert log.unacknowledged() == []


def test_an_old_confirmation_changes_nothing(log, taken) -> None:
    taken()
    log.acknowledge(1)

    log.acknowledge(0)

    assert log.acknowledged == 1
    assert log.unacknowledged() == []


def test_every_batch_is_written_down_before_it_is_taken(log) -> None:
    lines = []
    for number in range(3):
        log.write("stdout", f"{number}\n")
        lines.append(log.take())
        assert log.path.read_bytes().splitlines() == lines


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.text(), max_size=6), st.integers(0, 6))
def test_any_text_can_be_sent_again(tmp_path_factory, texts, confirmed) -> None:
    log = RunLog("a-run", 0, tmp_path_factory.mktemp("log") / "rank-0.log")
    for text in texts:
        log.write("stdout", text + ".")
        log.take()

    log.acknowledge(min(confirmed, len(texts)))

    again = [decode(line) for line in log.unacknowledged()]
    assert [batch.chunks[0].text for batch in again] == [t + "." for t in texts[confirmed:]]
    assert [batch.sequence for batch in again] == [*range(confirmed + 1, len(texts) + 1)]


@contextmanager
def files_of_at_most(nbytes: int) -> Iterator[None]:
    """Let no file grow beyond this; pytest's own output, which may be one, comes after it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_does_not_fit_on_the_disk_is_kept_in_memory(log) -> None:
    sent = []
    with files_of_at_most(2000):
        for letter in "abcdef":
            log.write("stdout", letter * 600)
            sent.append(log.take())
    assert log.path.stat().st_size <= 2000 < sum(map(len, sent))

    assert log.unacknowledged() == sent


def test_the_disk_is_used_again_once_there_is_room(log) -> None:
    log.path.mkdir(parents=True)  # in the way of the file
    log.write("stdout", "a")
    first = log.take()

    log.path.rmdir()
    log.write("stdout", "b")
    second = log.take()

    assert log.unacknowledged() == [first, second]
    assert log.path.read_bytes() == second + b"\n"


def test_a_folder_that_cannot_be_made_does_not_end_the_run(tmp_path) -> None:
    (tmp_path / "file").touch()
    log = RunLog("a-run", 0, tmp_path / "file" / "runs" / "rank-0.log")

    log.write("stdout", "hello\n")
    line = log.take()

    assert log.unacknowledged() == [line]


def test_a_log_is_taken_from_while_it_is_added_to(tmp_path) -> None:
    program = """
import sys, threading
from pathlib import Path
from workbench.core.report import Ending, decode
from workbench.engine.log import RunLog

sys.setswitchinterval(1e-5)
log = RunLog("r", 0, Path(sys.argv[1]) / "rank-0.log")
taken = []

def take():
    while not log.closed:
        if line := log.take():
            taken.append(decode(line))

thread = threading.Thread(target=take)
thread.start()
for n in range(20_000):
    log.add("loss", n, 0.0)
log.finish(Ending("finished"))
thread.join()
assert [s.iteration for b in taken for s in b.samples] == [*range(20_000)]
assert [b.sequence for b in taken] == [*range(1, len(taken) + 1)] and len(taken) > 1
print("whole")
"""
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert (answer.stdout, answer.stderr) == ("whole\n", "")
