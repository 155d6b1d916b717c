"""What one page is sent, and when, by a clock that the test moves."""

from __future__ import annotations

import json
from asyncio import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from workbench.server.feed_pace import USUAL
from workbench.server.run_reader import RunUpdate
from workbench.server.schemas import Ack, OutputRequest
from workbench.server.subscriber import (
    RUN_SECONDS,
    Subscriber,
    Told,
    as_json,
    brief,
)
from workbench.view.page_protocol import as_values
from workbench.view.phrase import phrase

LATER = 100.0


@dataclass
class Wire:
    """A connection that takes what is written when it is told to."""

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


def line_of(it_per_second: float = 2.0) -> list[Any]:
    """Return the line of a run."""
    return [as_values(phrase("%1 it/s", ("rate", it_per_second)))]


def look(
    version: int = 7, *, ended: bool = False, frames=None, output=None, **run: Any
) -> RunUpdate:
    """Return where a run stands."""
    run = {"is_ended": ended, "iteration": 0, "line": line_of(), **run}
    return RunUpdate("feed", version, ended, run, None, frames or {}, output or {})


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def wire(jp_asyncio_loop) -> Wire:
    return Wire(jp_asyncio_loop)


@pytest.fixture
def page(wire, told) -> Subscriber:
    """A page that was greeted, and has version 5 of a feed's curves."""
    page = Subscriber(wire, "feed", 5)
    page.greet(look(), told)
    wire.take()
    return page


@pytest.fixture
def waiting(page, told, wire) -> Subscriber:
    """A page that has not answered a frame of version 6, sent ``LATER``."""
    assert not page.tell(look(6, frames={5: b"5-6"}), told, LATER)
    assert wire.take() == [b"5-6"]
    return page


# -- points


def test_a_page_that_was_not_greeted_lacks_nothing_yet(wire) -> None:
    assert Subscriber(wire).since(LATER, ended=True) is None


@pytest.mark.parametrize(
    ("feed", "version", "since"), [("feed", 5, 5), ("other", 5, 0), ("feed", 8, 0), ("", 0, 0)]
)
def test_what_a_page_has_counts_only_for_the_same_feed(wire, told, feed, version, since) -> None:
    page = Subscriber(wire, feed, version)

    page.greet(look(7, id="x"), told)

    run = {"is_ended": False, "iteration": 0, "line": line_of(), "id": "x"}
    hello = {"type": "hello", "feed": "feed", "run": run}
    assert json.loads(wire.sent[0]) == hello
    assert page.since(LATER, ended=False) == since


def test_no_frame_follows_one_that_is_not_answered(waiting, told, wire) -> None:
    assert waiting.since(LATER + 1000, ended=False) is None

    waiting.tell(look(7, frames={5: b"5-7", 6: b"6-7"}), told, LATER + 1000)

    assert wire.take() == []


def test_an_answer_makes_room_for_the_next_frame_after_a_while(waiting, told, wire) -> None:
    waiting.take(Ack(type="ack", version=6))
    news = look(7, frames={6: b"6-7"})

    waiting.tell(news, told, LATER + 0.01)
    assert wire.take() == []
    waiting.tell(news, told, LATER + 0.1)
    assert wire.take() == [b"6-7"]


@pytest.mark.parametrize("version", [0, 5, 7])
def test_an_answer_to_another_frame_is_none(waiting, version) -> None:
    waiting.take(Ack(type="ack", version=version))

    assert waiting.since(LATER + 1, ended=False) is None


def test_a_frame_for_another_version_is_not_sent(page, told, wire) -> None:
    page.tell(look(7, frames={0: b"0-7"}), told, LATER)

    assert wire.take() == []
    assert page.since(LATER, ended=False) == 5


def test_what_has_not_changed_is_not_sent(page, told, wire) -> None:
    page.tell(look(7, frames={5: None}), told, LATER)

    assert wire.take() == []
    assert page.since(LATER, ended=False) == 7


def test_nothing_is_sent_before_the_connection_has_taken_the_last(page, told, wire) -> None:
    wire.stuck = True
    page.tell(look(6, frames={5: b"5-6"}), told, LATER)
    page.take(Ack(type="ack", version=6))
    wire.take()

    ended = page.tell(look(7, ended=True, frames={6: b"6-7"}), told, LATER + 100)

    assert (wire.take(), ended) == ([], False)


# -- the end


def test_a_page_that_has_all_is_told_the_end(page, told, wire) -> None:
    assert page.tell(look(5, ended=True), told, LATER)
    assert wire.take() == ["end"]


def test_a_page_that_lacks_something_is_not_told_the_end(page, told, wire) -> None:
    assert not page.tell(look(7, ended=True), told, LATER)
    assert not page.tell(look(7, ended=True, frames={5: b"5-7"}), told, LATER)
    assert wire.take() == [b"5-7"]


def test_a_page_that_has_just_come_may_still_ask_for_output(page, told) -> None:
    assert not page.tell(look(5, ended=True), told, USUAL.greeting / 2)


def test_a_page_that_reads_output_is_told_the_end_behind_it(page, told, wire) -> None:
    page.take(OutputRequest(type="output", after=0))
    some = {0: {"after": 3, "skipped": 0, "pieces": []}}

    assert not page.tell(look(5, ended=True), told, LATER)
    assert not page.tell(look(5, ended=True, output=some), told, LATER)
    page.take(OutputRequest(type="output", after=3))
    assert not page.tell(look(5, ended=True), told, LATER)
    assert page.tell(look(5, ended=True, output={3: None}), told, LATER)
    assert wire.take() == ["output", "end"]


def test_a_page_that_wants_no_more_output_is_told_the_end(page, told) -> None:
    page.take(OutputRequest(type="output", after=0))
    page.tell(look(5, ended=True, output={0: {"after": 3}}), told, LATER)

    page.take(OutputRequest(type="output", after=None))

    assert page.tell(look(5, ended=True), told, LATER)


def test_a_page_that_stops_reading_output_is_told_the_end(page, told) -> None:
    page.take(OutputRequest(type="output", after=0))
    page.tell(look(5, ended=True, output={0: {"after": 3}}), told, LATER)

    assert not page.tell(look(5, ended=True), told, LATER + USUAL.patience - 1)
    assert page.tell(look(5, ended=True), told, LATER + USUAL.patience)


def test_a_page_that_does_not_answer_gets_the_rest_of_a_run_that_has_ended(
    waiting, told, wire
) -> None:
    patience = LATER + USUAL.patience

    assert not waiting.tell(look(7, ended=True), told, patience - 1)
    assert waiting.since(patience - 1, ended=True) is None
    assert waiting.is_slow(patience)
    assert waiting.since(patience, ended=True) == 6
    assert not waiting.tell(look(7, ended=True, frames={6: b"6-7"}), told, patience)
    assert waiting.tell(look(7, ended=True), told, patience + 0.1)
    assert wire.take() == [b"6-7", "end"]


def test_a_page_that_does_not_answer_and_lacks_nothing_is_told_the_end(waiting, told) -> None:
    patience = LATER + USUAL.patience

    assert not waiting.tell(look(6, ended=True), told, patience - 1)
    assert waiting.tell(look(6, ended=True), told, patience)
    assert waiting.tell(look(7, ended=True, frames={6: None}), told, patience)


def test_nothing_is_sent_over_a_closed_connection(page, told, wire) -> None:
    page.close(1000)

    page.tell(look(7, frames={5: b"5-7"}), told, LATER)

    assert (wire.take(), wire.closed) == ([], (1000, ""))


# -- where the run stands


def test_a_page_is_told_where_the_run_stands_once(page, told, wire) -> None:
    told.note(look(iteration=1), LATER)

    for _ in range(2):
        page.tell(look(iteration=1), told, LATER)

    assert wire.take() == ["run"]


@pytest.mark.parametrize(
    ("change", "seconds", "count"),
    [
        ({"iteration": 1}, RUN_SECONDS, 2),
        ({"iteration": 1}, RUN_SECONDS - 0.01, 1),
        ({"is_ended": True}, 0.0, 2),
        ({"now": 5.0, "seconds_taken": 9.0, "line": line_of(it_per_second=3.0)}, 1.0, 1),
        ({"line": [*line_of(), "waits for run 'first'"]}, 1.0, 2),
        ({}, USUAL.beat, 2),
    ],
)
def test_what_has_changed_is_told_after_a_moment_and_all_of_it_now_and_then(
    told, change, seconds, count
) -> None:
    told.note(look(), LATER)

    told.note(look(**change), LATER + seconds)

    assert told.run == count
    assert told.is_behind == ("iteration" in change and count == 1)


def test_a_run_that_has_ended_is_not_told_again(told) -> None:
    told.note(look(ended=True), LATER)

    told.note(look(ended=True), LATER + 10 * USUAL.beat)

    assert told.run == 1


def test_a_message_that_json_cannot_carry_is_not_sent() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"value": float("nan")})


def test_a_long_reason_is_cut_where_a_letter_ends() -> None:
    short = brief("ä" * 100)

    assert short == "ä" * 58 + "…"
    assert len(short.encode()) <= 120
    assert brief("fine") == "fine"
