"""Follow one run for all its pages: look, tell each page what it lacks, wait, and look again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.errors import Unknown, WorkbenchError
from workbench.server.chores import Chores
from workbench.server.page import Page, encoded
from workbench.server.reading import Look, Reading
from workbench.server.workers import Workers

if TYPE_CHECKING:
    from workbench.server.bodies import PageMessage

LOOK_SECONDS = 0.1
SLOW_SECONDS = 1.0  # between looks while no page answers
KEEP_SECONDS = 15.0  # after the last page has left: one that is reloaded finds what it had
RUN_SECONDS = 0.25
STEPS_SECONDS = 1.0
BEAT_SECONDS = 5.0  # a page that hears nothing for longer takes the connection for dead
CHORES_SECONDS = 1.0

# Close codes of the WebSocket; extension/src/protocol.ts has the last two.
NORMAL = 1000
GOING_AWAY = 1001
INTERNAL_ERROR = 1011
UNKNOWN_RUN = 4404
STORE_TROUBLE = 4503

# What changes all the time, though nothing happens.
_PASSING = frozenset({"now", "seconds_left", "seconds_taken", "rate"})


class Following:
    """One run and the pages that follow it.

    Args:
        run: The run's id.
        server: Tells this server's pages from those of others.
        workers: The threads in which the run is read.
        log: Where trouble is written that no page can do anything about.
        former: What followed the run before, and has to be through with it.
    """

    def __init__(
        self,
        run: str,
        server: str,
        workers: Workers,
        log: logging.Logger,
        former: asyncio.Task[None] | None = None,
    ) -> None:
        self.is_over = False
        self._run = run
        self._chores = Chores(run, server)
        self._workers = workers
        self._log = log
        self._pages: set[Page] = set()
        self._finished = 0  # pages that were told the end, and see to it that the result is kept
        self._told = Told()
        self._woken = asyncio.Event()
        self._changed = asyncio.Event()
        # Its own context: that of the first page's request would keep that request in memory.
        self.task = asyncio.get_running_loop().create_task(self._live(former), context=Context())

    def __repr__(self) -> str:
        return f"<Following {self._run}: {len(self._pages)} pages>"

    def join(self, page: Page) -> None:
        """Add a page."""
        self._pages.add(page)
        self._wake()

    def take(self, page: Page, message: PageMessage) -> None:
        """Take in what a page says."""
        was_slow = page.is_slow(time.monotonic())
        page.take(message)
        if was_slow:
            self._woken.set()

    def leave(self, page: Page) -> None:
        """Forget a page whose connection is closed."""
        self._pages.discard(page)
        self._wake()

    def dismiss(self, code: int, reason: str) -> None:
        """Close all connections and come to an end; who comes later begins anew."""
        self.is_over = True
        for page in self._pages:
            page.close(code, reason)
        self._pages.clear()
        self._wake()

    def _wake(self) -> None:
        self._woken.set()
        self._changed.set()

    async def _live(self, former: asyncio.Task[None] | None) -> None:
        if former is not None:
            await asyncio.wait([former])
        try:
            reading = await self._workers.read(partial(Reading, self._run))
        except WorkbenchError as error:
            self._refuse(error)
            return
        chores = asyncio.get_running_loop().create_task(self._do_chores())
        try:
            await self._follow(reading)
        except WorkbenchError as error:
            self._refuse(error)
        finally:
            self.is_over = True
            self._wake()
            await self._workers.read(reading.close)
            await chores

    def _refuse(self, error: WorkbenchError) -> None:
        self.dismiss(UNKNOWN_RUN if isinstance(error, Unknown) else STORE_TROUBLE, str(error))

    # -- looking and telling

    async def _follow(self, reading: Reading) -> None:
        while await self._is_wanted():
            self._woken.clear()
            now, ended = time.monotonic(), self._told.ended
            since = {
                page: version
                for page in self._pages
                if (version := page.since(now, ended=ended)) is not None
            }
            after = {page.wanted for page in self._pages if page.wanted is not None}
            look = await self._workers.read(
                partial(reading.look, time.time(), set(since.values()), after)
            )
            self._told.note(look, now)
            for page in list(self._pages):
                if not page.greeted:
                    self._greet(page, look)
                elif page.is_clear:
                    self._tell_news(page, look, now)
                    self._send_frame(page, look, since.get(page), now)
                    if ended:
                        self._end(page, look, after, now)
            if not look.behind:
                await self._pause(now)

    async def _is_wanted(self) -> bool:
        """Return whether a page is there; wait for one as long as the feed is kept."""
        if not self._pages and not self.is_over:
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), KEEP_SECONDS)
        self.is_over = not self._pages
        return not self.is_over

    async def _pause(self, begun: float) -> None:
        now = time.monotonic()
        slow = all(page.is_slow(now) for page in self._pages)
        due = begun + (SLOW_SECONDS if slow and self._pages else LOOK_SECONDS)
        if due > now:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), due - now)

    def _greet(self, page: Page, look: Look) -> None:
        page.greet(look.feed, look.version, look.run)
        page.has_run = self._told.run
        self._woken.set()  # it is to have the curves at once

    def _tell_news(self, page: Page, look: Look, now: float) -> None:
        told = self._told
        if page.has_run != told.run:
            page.has_run = told.run
            page.send(told.run_text)
        if page.has_steps != told.steps:
            page.has_steps = told.steps
            page.send(told.steps_text)
        if page.wanted in look.output:
            page.send_output(look.output[page.wanted], now)

    def _send_frame(self, page: Page, look: Look, since: int | None, now: float) -> None:
        if since is None:
            return
        if (frame := look.frames.get(since)) is not None:
            page.send_frame(frame, look.version, now)
        else:
            page.skip_to(since, look.version)

    def _end(self, page: Page, look: Look, after: set[int], now: float) -> None:
        dry = page.wanted in after and page.wanted not in look.output
        if page.may_end(look.version, now, dry=dry):
            page.send(encoded({"type": "end"}))
            page.close(NORMAL, "")
            self._pages.remove(page)
            self._finished += 1

    # -- attendance

    async def _do_chores(self) -> None:
        complaint = ""
        while True:
            self._changed.clear()
            over, pages = self.is_over, len(self._pages)
            told = 0 if over else pages + self._finished
            try:
                await self._workers.ask(
                    partial(self._chores.do, pages=told, looking=pages > 0, now=time.time())
                )
            except WorkbenchError as error:
                if str(error) != complaint:
                    complaint = str(error)
                    self._log.warning("%s", complaint)
            if over:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), CHORES_SECONDS if pages else None)


class Told:
    """What pages have been told of a run, or are to be told as soon as their connection is clear.

    ``run`` and ``steps`` count up with each new message; a page that bears another number lacks it.
    """

    def __init__(self) -> None:
        self.ended = False
        self.run = self.steps = 0
        self.run_text = self.steps_text = ""
        self._run: dict[str, Any] = {}
        self._steps: dict[str, Any] | None = None
        self._run_at = self._steps_at = float("-inf")

    def note(self, look: Look, now: float) -> None:
        """Take in where the run stands.

        Args:
            now: Seconds of any clock.
        """
        lasting = {name: value for name, value in look.run.items() if name not in _PASSING}
        quiet = now - self._run_at
        over = look.run["is_ended"] and not self._run.get("is_ended")
        changed = lasting != self._run and (over or quiet >= RUN_SECONDS)
        if changed or (quiet >= BEAT_SECONDS and not look.ended):
            self.run += 1
            self.run_text = encoded({"type": "run", "run": look.run})
            self._run, self._run_at = lasting, now
        if look.steps and look.steps != self._steps and now - self._steps_at >= STEPS_SECONDS:
            self.steps += 1
            self.steps_text = encoded({"type": "steps", **look.steps})
            self._steps, self._steps_at = look.steps, now
        self.ended = look.ended
