"""An outbox sends a limited window, and resends after a silence, at growing intervals."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from workbench.engine.reporting.outbox import WINDOW_BATCHES, WINDOW_NBYTES, Outbox


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "runs" / "rank-0.log")


def sent(outbox: Outbox, now: float = 0.0) -> list[bytes]:
    """Send all that may be sent."""
    lines = []
    while (line := outbox.due()) is not None:
        lines.append(line)
        outbox.note_sent(now)
    return lines


def test_only_so_many_batches_are_on_the_way(outbox) -> None:
    lines = [f"{number}".encode() for number in range(3 * WINDOW_BATCHES)]
    for line in lines:
        outbox.add(line)

    first = sent(outbox)
    outbox.acknowledge(50, 0.0)
    second = sent(outbox)

    assert first == lines[:WINDOW_BATCHES]
    assert second == lines[WINDOW_BATCHES : WINDOW_BATCHES + 50]


def test_only_so_many_bytes_are_on_the_way_but_always_one_batch(outbox) -> None:
    for _ in range(3):
        outbox.add(b"x" * WINDOW_NBYTES)

    assert len(sent(outbox)) == 1
    assert sent(outbox) == []
    outbox.acknowledge(1, 0.0)
    assert len(sent(outbox)) == 1


def test_what_no_one_confirms_is_sent_again_ever_more_rarely(outbox) -> None:
    outbox.add(b"one")
    sent(outbox)

    moments = []
    for second in range(1, 200):
        outbox.resend_after_silence(float(second))
        moments += [second] * len(sent(outbox, float(second)))

    assert [b - a for a, b in zip([0, *moments], moments, strict=False)] == [
        3,
        5,
        9,
        17,
        31,
        31,
        31,
        31,
        31,
    ]


def test_a_word_from_the_supervisor_makes_it_impatient_again(outbox) -> None:
    outbox.add(b"one")
    outbox.add(b"two")
    sent(outbox)
    for second in (3.0, 8.0, 17.0):
        outbox.resend_after_silence(second)
        sent(outbox, second)

    outbox.acknowledge(1, 18.0)
    outbox.resend_after_silence(21.0)

    assert sent(outbox) == [b"two"]


def test_a_confirmation_of_what_was_never_sent_does_no_harm(outbox) -> None:
    outbox.add(b"one")

    outbox.acknowledge(9, 0.0)
    outbox.add(b"two")

    assert sent(outbox) == [b"two"]
    assert outbox.waiting == 3


def test_the_file_is_opened_once_however_much_is_sent_again(outbox) -> None:
    for number in range(500):
        outbox.add(f"{number}".encode())
        outbox.resend()
        sent(outbox)

    files = [file.path for file in psutil.Process().open_files()]
    assert files.count(str(outbox.path)) == 1
    outbox.discard()
    assert not [file for file in psutil.Process().open_files() if file.path == str(outbox.path)]


def test_a_look_at_many_batches_that_no_one_confirms_costs_next_to_nothing(outbox) -> None:
    for number in range(50_000):
        outbox.add(f"{number}".encode())
    sent(outbox)

    outbox.resend_after_silence(5.0)

    assert len(sent(outbox, 5.0)) == WINDOW_BATCHES
