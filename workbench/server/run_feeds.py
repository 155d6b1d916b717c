"""The registry of feeds: one for each run, for any number of pages."""

from __future__ import annotations

import asyncio
import logging
import secrets
from functools import partial

from workbench.server.run_feed import GOING_AWAY, INTERNAL_ERROR, NORMAL, STORE_TROUBLE, Following
from workbench.server.subscriber import Subscriber
from workbench.server.workers import Workers

_GOODBYE = "The server is stopping."
MOST_RUNS = 64
MOST_PAGES = 64
_FULL = f"This server follows at most {MOST_RUNS} runs at once; close some pages."
_CROWDED = f"At most {MOST_PAGES} pages can follow a run; close some of them."


class Feeds:
    """The runs that are followed.

    Args:
        workers: The threads that read them.
        log: Where trouble is written that no page can do anything about.
    """

    def __init__(self, workers: Workers, log: logging.Logger) -> None:
        self._workers = workers
        self._log = log
        self._server = secrets.token_hex(8)
        self._followings: dict[str, Following] = {}
        self._closed = False

    def join(self, run: str, page: Subscriber) -> Following | None:
        """Let ``page`` follow ``run``; its connection is closed if the server is stopping."""
        if self._closed:
            page.close(GOING_AWAY, _GOODBYE)
            return None
        following = self._followings.get(run)
        if following is None or following.is_over:
            former = following.task if following else None
            if len(self._followings) >= MOST_RUNS and not self._make_room():
                page.close(STORE_TROUBLE, _FULL)
                return None
            following = Following(run, self._server, self._workers, self._log, former)
            following.task.add_done_callback(partial(self._forget, run, following))
            self._followings[run] = following
        if following.amount >= MOST_PAGES:
            page.close(STORE_TROUBLE, _CROWDED)
            return None
        following.join(page)
        return following

    def _make_room(self) -> bool:
        """End the feed of a run that no page follows any longer, if there is one."""
        for following in self._followings.values():
            if not following.is_over and not following.amount:
                following.dismiss(NORMAL, "")
                return True
        return False

    async def close(self) -> None:
        """Close all feeds."""
        self._closed = True
        followings = list(self._followings.values())
        for following in followings:
            following.dismiss(GOING_AWAY, _GOODBYE)
        await asyncio.gather(*(following.task for following in followings), return_exceptions=True)

    def _forget(self, run: str, following: Following, task: asyncio.Task[None]) -> None:
        if self._followings.get(run) is following:
            del self._followings[run]
        if error := task.exception():
            self._log.error("Following run %s failed.", run, exc_info=error)
            following.dismiss(INTERNAL_ERROR, "The server failed; see its log.")
