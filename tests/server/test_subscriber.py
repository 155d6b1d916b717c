"""What one page is sent, and when, by a clock that the test moves."""

from __future__ import annotations

import json
from asyncio import Future
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from workbench.core.run.model import Run, RunFact, RunKind, RunWish
from workbench.pages.messages import run_message
from workbench.pages.protocol import OutputMessage
from workbench.pages.requests import Ack, OutputRequest
from workbench.server.run_reader import USUAL, RunUpdate
from workbench.server.subscriber import (
    RUN_SECONDS,
    LatestMessages,
    Subscriber,
    shorten_reason,
)

LATER = 100.0


@dataclass
class Wire:
    """A connection that takes what is written when the test lets it."""

    loop: Any
    sent: list[str | bytes] = field(default_factory=list)
    closed: tuple[int, str] | None = None
    stuck: bool = False

    def deliver(self, data: str | bytes) -> Future[None]:
        self.sent.append(data)
        taken: Future[None] = self.loop.create_future()
        if not self.stuck:
            taken.set_result(None)
        return taken

    def close(self, code: int, reason: str) -> None:
        self.closed = code, reason

    def take(self) -> list[str | bytes]:
        """Return what was sent since the last time: frames as they are, of the rest the type."""
        taken, self.sent = self.sent, []
        return [data if isinstance(data, bytes) else json.loads(data)["type"] for data in taken]


RUN = run_message(
    Run(
        RunWish("260101-000000-aaaa", "digits", RunKind.CELL, "pass"), RunFact("260101-000000-aaaa")
    ),
    0.0,
)


def line_of(it_per_second: float = 2.0) -> tuple[str, ...]:
    """Return the line of a run."""
    return (f"{it_per_second} it/s",)


def output_until(after: int) -> OutputMessage:
    return OutputMessage(after=after, skipped=0, pieces=())


def look(
    version: int = 7, *, ended: bool = False, frames=None, output=None, **run: Any
) -> RunUpdate:
    """Return a run's state."""
    run = msgspec.structs.replace(RUN, **{"is_ended": ended, "line": line_of(), **run})
    return RunUpdate("feed", version, ended, run, None, frames or {}, output or {})


@pytest.fixture
def latest() -> LatestMessages:
    return LatestMessages()


@pytest.fixture
def wire(jp_asyncio_loop) -> Wire:
    return Wire(jp_asyncio_loop)


@pytest.fixture
def page(wire, latest) -> Subscriber:
    """A page that was greeted, and has version 5 of a feed's curves."""
    page = Subscriber(wire, "feed", 5)
    page.greet(look(), latest)
    wire.take()
    return page


@pytest.fixture
def waiting(page, latest, wire) -> Subscriber:
    """A page that has not answered a frame of version 6, sent ``LATER``."""
    assert not page.send(look(6, frames={5: b"5-6"}), latest, LATER)
    assert wire.take() == [b"5-6"]
    return page


# -- points


def test_a_page_that_was_not_greeted_lacks_nothing_yet(wire) -> None:
    assert Subscriber(wire).since(LATER, ended=True) is None


@pytest.mark.parametrize(
    ("feed", "version", "since"), [("feed", 5, 5), ("other", 5, 0), ("feed", 8, 0), ("", 0, 0)]
)
def test_what_a_page_has_counts_only_for_the_same_feed(wire, latest, feed, version, since) -> None:
    page = Subscriber(wire, feed, version)

    page.greet(look(7, id="x"), latest)

    hello = json.loads(wire.sent[0])
    assert (hello["type"], hello["feed"], hello["run"]["id"]) == ("hello", "feed", "x")
    assert page.since(LATER, ended=False) == since


def test_no_frame_follows_one_that_is_not_answered(waiting, latest, wire) -> None:
    assert waiting.since(LATER + 1000, ended=False) is None

    waiting.send(look(7, frames={5: b"5-7", 6: b"6-7"}), latest, LATER + 1000)

    assert wire.take() == []


def test_an_answer_makes_room_for_the_next_frame_after_a_while(waiting, latest, wire) -> None:
    waiting.take(Ack(version=6))
    news = look(7, frames={6: b"6-7"})

    waiting.send(news, latest, LATER + 0.01)
    assert wire.take() == []
    waiting.send(news, latest, LATER + 0.1)
    assert wire.take() == [b"6-7"]


@pytest.mark.parametrize("version", [0, 5, 7])
def test_an_answer_to_another_frame_is_none(waiting, version) -> None:
    waiting.take(Ack(version=version))

    assert waiting.since(LATER + 1, ended=False) is None


def test_a_frame_for_another_version_is_not_sent(page, latest, wire) -> None:
    page.send(look(7, frames={0: b"0-7"}), latest, LATER)

    assert wire.take() == []
    assert page.since(LATER, ended=False) == 5


def test_what_has_not_changed_is_not_sent(page, latest, wire) -> None:
    page.send(look(7, frames={5: None}), latest, LATER)

    assert wire.take() == []
    assert page.since(LATER, ended=False) == 7


def test_nothing_is_sent_before_the_connection_has_taken_the_last(page, latest, wire) -> None:
    wire.stuck = True
    page.send(look(6, frames={5: b"5-6"}), latest, LATER)
    page.take(Ack(version=6))
    wire.take()

    ended = page.send(look(7, ended=True, frames={6: b"6-7"}), latest, LATER + 100)

    assert (wire.take(), ended) == ([], False)


# -- the end


def test_a_page_that_has_all_gets_the_end(page, latest, wire) -> None:
    assert page.send(look(5, ended=True), latest, LATER)
    assert wire.take() == ["end"]


def test_a_page_that_lacks_something_does_not_get_the_end(page, latest, wire) -> None:
    assert not page.send(look(7, ended=True), latest, LATER)
    assert not page.send(look(7, ended=True, frames={5: b"5-7"}), latest, LATER)
    assert wire.take() == [b"5-7"]


def test_a_page_that_has_just_come_may_still_ask_for_output(page, latest) -> None:
    assert not page.send(look(5, ended=True), latest, USUAL.greeting / 2)


def test_a_page_that_reads_output_gets_the_end_behind_it(page, latest, wire) -> None:
    page.take(OutputRequest(after=0))
    some = {0: output_until(3)}

    assert not page.send(look(5, ended=True), latest, LATER)
    assert not page.send(look(5, ended=True, output=some), latest, LATER)
    page.take(OutputRequest(after=3))
    assert not page.send(look(5, ended=True), latest, LATER)
    assert page.send(look(5, ended=True, output={3: None}), latest, LATER)
    assert wire.take() == ["output", "end"]


def test_a_page_that_wants_no_more_output_gets_the_end(page, latest) -> None:
    page.take(OutputRequest(after=0))
    page.send(look(5, ended=True, output={0: output_until(3)}), latest, LATER)

    page.take(OutputRequest(after=None))

    assert page.send(look(5, ended=True), latest, LATER)


def test_a_page_that_stops_reading_output_gets_the_end(page, latest) -> None:
    page.take(OutputRequest(after=0))
    page.send(look(5, ended=True, output={0: output_until(3)}), latest, LATER)

    assert not page.send(look(5, ended=True), latest, LATER + USUAL.patience - 1)
    assert page.send(look(5, ended=True), latest, LATER + USUAL.patience)


def test_a_page_that_does_not_answer_gets_the_rest_of_a_run_that_has_ended(
    waiting, latest, wire
) -> None:
    patience = LATER + USUAL.patience

    assert not waiting.send(look(7, ended=True), latest, patience - 1)
    assert waiting.since(patience - 1, ended=True) is None
    assert waiting.is_slow(patience)
    assert waiting.since(patience, ended=True) == 6
    assert not waiting.send(look(7, ended=True, frames={6: b"6-7"}), latest, patience)
    assert waiting.send(look(7, ended=True), latest, patience + 0.1)
    assert wire.take() == [b"6-7", "end"]


def test_a_page_that_does_not_answer_and_lacks_nothing_gets_the_end(waiting, latest) -> None:
    patience = LATER + USUAL.patience

    assert not waiting.send(look(6, ended=True), latest, patience - 1)
    assert waiting.send(look(6, ended=True), latest, patience)
    assert waiting.send(look(7, ended=True, frames={6: None}), latest, patience)


def test_nothing_is_sent_over_a_closed_connection(page, latest, wire) -> None:
    page.close(1000)

    page.send(look(7, frames={5: b"5-7"}), latest, LATER)

    assert (wire.take(), wire.closed) == ([], (1000, ""))


# -- the run's state


def test_a_page_gets_the_state_of_the_run_once(page, latest, wire) -> None:
    latest.note(look(iteration=1), LATER)

    for _ in range(2):
        page.send(look(iteration=1), latest, LATER)

    assert wire.take() == ["run"]


@pytest.mark.parametrize(
    ("change", "seconds", "count"),
    [
        ({"iteration": 1}, RUN_SECONDS, 2),
        ({"iteration": 1}, RUN_SECONDS - 0.01, 1),
        ({"is_ended": True}, 0.0, 2),
        ({"now": 5.0, "seconds_taken": 9.0, "line": line_of(it_per_second=3.0)}, 1.0, 1),
        ({"line": (*line_of(), "waits for run 'first'")}, 1.0, 2),
        ({}, USUAL.beat, 2),
    ],
)
def test_what_has_changed_is_sent_after_a_moment_and_all_of_it_periodically(
    latest, change, seconds, count
) -> None:
    latest.note(look(), LATER)

    latest.note(look(**change), LATER + seconds)

    assert latest.run == count
    assert latest.is_behind == ("iteration" in change and count == 1)


def test_a_run_that_has_ended_is_not_sent_again(latest) -> None:
    latest.note(look(ended=True), LATER)

    latest.note(look(ended=True), LATER + 10 * USUAL.beat)

    assert latest.run == 1


def test_a_long_reason_is_cut_where_a_letter_ends() -> None:
    short = shorten_reason("ä" * 100)

    assert short == "ä" * 58 + "…"
    assert len(short.encode()) <= 120
    assert shorten_reason("fine") == "fine"
