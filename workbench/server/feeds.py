"""Keep what is followed: one following for each run, however many pages look at it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from functools import partial

from workbench.server.following import GOING_AWAY, INTERNAL_ERROR, Following
from workbench.server.page import Page
from workbench.server.workers import Workers

_GOODBYE = "The server is stopping."


class Feeds:
    """The runs that are followed.

    Args:
        workers: The threads in which they are read.
        log: Where trouble is written that no page can do anything about.
    """

    def __init__(self, workers: Workers, log: logging.Logger) -> None:
        self._workers = workers
        self._log = log
        self._server = secrets.token_hex(8)
        self._followings: dict[str, Following] = {}
        self._closed = False

    def join(self, run: str, page: Page) -> Following | None:
        """Let ``page`` follow ``run``; it is sent away when the server is stopping."""
        if self._closed:
            page.close(GOING_AWAY, _GOODBYE)
            return None
        following = self._followings.get(run)
        if following is None or following.is_over:
            former = following.task if following else None
            following = Following(run, self._server, self._workers, self._log, former)
            following.task.add_done_callback(partial(self._forget, run, following))
            self._followings[run] = following
        following.join(page)
        return following

    async def close(self) -> None:
        """Send all pages away."""
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
            following.dismiss(INTERNAL_ERROR, "The server failed; its log says why.")
