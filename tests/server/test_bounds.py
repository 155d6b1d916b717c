"""Whatever pages ask for, a server follows so many runs, for so many pages, and no more."""

from __future__ import annotations

import asyncio
import functools
import logging

import pytest

from workbench.server import run_feed
from workbench.server.run_feed import STORE_TROUBLE, Feeds


def looped(test):
    """Have a test run in an event loop of its own."""

    @functools.wraps(test)
    def run(feeds: Feeds) -> None:
        asyncio.run(test(feeds))

    return run


class Sent:
    """A page that notes how it was sent away."""

    stays = False

    def __init__(self) -> None:
        self.closed: list[tuple[int, str]] = []

    def close(self, code: int, reason: str = "") -> None:
        self.closed.append((code, reason))


class Idle:
    """A following that reads nothing."""

    def __init__(self, *_: object) -> None:
        self.task = asyncio.get_running_loop().create_future()
        self.is_over = False
        self.pages: list[Sent] = []

    @property
    def amount(self) -> int:
        return len(self.pages)

    def join(self, page: Sent) -> None:
        self.pages.append(page)

    def dismiss(self, code: int, reason: str) -> None:
        self.is_over = True
        self.task.set_result(None)


@pytest.fixture
def feeds(monkeypatch):
    monkeypatch.setattr(run_feed, "FollowedRun", Idle)
    return Feeds(None, logging.getLogger("test"), most_runs=3, most_pages=2)


@looped
async def test_a_run_too_many_is_refused_in_a_sentence(feeds):
    for run in "abc":
        assert feeds.join(run, Sent()) is not None
    page = Sent()

    following = feeds.join("d", page)

    assert following is None
    ((code, reason),) = page.closed
    assert code == STORE_TROUBLE
    assert "runs at once" in reason


@looped
async def test_a_run_that_no_page_follows_any_longer_makes_room(feeds):
    first = feeds.join("a", Sent())
    for run in "bc":
        feeds.join(run, Sent())
    first.pages.clear()
    page = Sent()

    assert feeds.join("d", page) is not None

    assert page.closed == []
    assert first.is_over


@looped
async def test_a_page_too_many_of_one_run_is_refused(feeds):
    for _ in range(2):
        feeds.join("a", Sent())
    page = Sent()

    assert feeds.join("a", page) is None
    assert "pages can follow a run" in page.closed[0][1]
