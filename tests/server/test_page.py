"""What one page is sent, and when, by a clock that the test moves."""

from __future__ import annotations

import json
from asyncio import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from workbench.server.bodies import Ack, Output
from workbench.server.page import GREETING_SECONDS, PATIENCE_SECONDS, Page, brief, encoded

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


@pytest.fixture
def wire(jp_asyncio_loop) -> Wire:
    return Wire(jp_asyncio_loop)


@pytest.fixture
def page(wire) -> Page:
    """A page that was greeted, and has version 5 of a feed's curves."""
    page = Page(wire, "feed", 5)
    page.greet("feed", 7, {})
    return page


def test_a_page_that_was_not_greeted_gets_nothing(wire) -> None:
    page = Page(wire)

    assert page.since(LATER, ended=False) is None
    assert not page.may_end(0, LATER, dry=True)


@pytest.mark.parametrize(
    ("feed", "version", "since"), [("feed", 5, 5), ("other", 5, 0), ("feed", 8, 0), ("", 0, 0)]
)
def test_what_a_page_has_counts_only_for_the_same_feed(wire, feed, version, since) -> None:
    page = Page(wire, feed, version)

    page.greet("feed", 7, {"id": "x"})

    assert json.loads(wire.sent[0]) == {"type": "hello", "feed": "feed", "run": {"id": "x"}}
    assert page.since(LATER, ended=False) == since


def test_no_frame_follows_one_that_is_not_answered(page) -> None:
    page.send_frame(b"", 7, now=LATER)

    assert page.since(LATER + 1000, ended=False) is None


def test_an_answer_makes_room_for_the_next_frame_after_a_while(page) -> None:
    page.send_frame(b"", 7, now=LATER)

    page.take(Ack(type="ack", version=7))

    assert page.since(LATER + 0.01, ended=False) is None
    assert page.since(LATER + 0.1, ended=False) == 7


@pytest.mark.parametrize("version", [0, 6, 8])
def test_an_answer_to_another_frame_is_none(page, version) -> None:
    page.send_frame(b"", 7, now=LATER)

    page.take(Ack(type="ack", version=version))

    assert page.since(LATER + 1, ended=False) is None


def test_nothing_is_sent_before_the_connection_has_taken_the_last(page, wire) -> None:
    wire.stuck = True

    page.send({"type": "run"})

    assert not page.is_clear
    assert page.since(LATER, ended=True) is None
    assert not page.may_end(5, LATER, dry=True)


def test_a_page_that_has_all_is_told_the_end(page) -> None:
    assert page.may_end(5, LATER, dry=True)
    assert not page.may_end(7, LATER, dry=True)


def test_a_page_that_has_just_come_may_still_ask_for_output(page) -> None:
    assert not page.may_end(5, GREETING_SECONDS / 2, dry=True)


def test_a_page_that_reads_output_is_told_the_end_behind_it(page) -> None:
    page.take(Output(type="output", after=0))

    assert not page.may_end(5, LATER, dry=False)
    page.send_output({"after": 3}, LATER)
    assert not page.may_end(5, LATER, dry=False)
    page.take(Output(type="output", after=3))
    assert not page.may_end(5, LATER, dry=False)
    assert page.may_end(5, LATER, dry=True)


def test_a_page_that_wants_no_more_output_is_told_the_end(page) -> None:
    page.take(Output(type="output", after=0))
    page.send_output({"after": 3}, LATER)

    page.take(Output(type="output", after=None))

    assert page.may_end(5, LATER, dry=False)


def test_a_page_that_does_not_answer_gets_the_rest_of_a_run_that_has_ended(page) -> None:
    page.send_frame(b"", 6, now=LATER)
    patience = LATER + PATIENCE_SECONDS

    assert page.since(patience - 1, ended=True) is None
    assert not page.may_end(7, patience - 1, dry=True)
    assert page.is_slow(patience)
    assert page.since(patience, ended=True) == 6
    page.send_frame(b"", 7, now=patience)
    assert page.may_end(7, patience, dry=True)


def test_a_page_that_stops_reading_output_is_told_the_end(page) -> None:
    page.take(Output(type="output", after=0))
    page.send_output({"after": 3}, LATER)

    assert not page.may_end(5, LATER + PATIENCE_SECONDS - 1, dry=False)
    assert page.may_end(5, LATER + PATIENCE_SECONDS, dry=False)


def test_what_has_not_changed_is_not_sent(page) -> None:
    page.skip_to(5, 7)

    assert page.since(LATER, ended=False) == 7


def test_what_a_page_answered_meanwhile_is_not_skipped(page) -> None:
    page.send_frame(b"", 6, now=LATER)
    page.take(Ack(type="ack", version=6))

    page.skip_to(5, 7)

    assert page.since(LATER + 1, ended=False) == 6


def test_nothing_is_sent_over_a_closed_connection(page, wire) -> None:
    page.close(1000)

    page.send({"type": "run"})

    assert (len(wire.sent), wire.closed) == (1, (1000, ""))


def test_a_long_reason_is_cut_where_a_letter_ends() -> None:
    short = brief("ä" * 100)

    assert short == "ä" * 58 + "…"
    assert len(short.encode()) <= 120
    assert brief("fine") == "fine"


def test_a_message_that_json_cannot_carry_is_not_sent() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encoded({"value": float("nan")})
