"""The feeds of runs: each waits for news of its run, and sends each page what it lacks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from functools import partial
from typing import TypeVar

from workbench.core.cluster.model import ClusterState
from workbench.core.moment import is_due
from workbench.errors import Unknown, WorkbenchError
from workbench.pages.protocol import STORE_TROUBLE, UNKNOWN_RUN
from workbench.pages.requests import PageMessage
from workbench.requests.supervisor import SupervisorMonitor, supervisor_is_awake
from workbench.server.run_reader import USUAL, FeedPace, FeedRequests, RunReader, RunUpdate
from workbench.server.subscriber import LatestMessages, Subscriber
from workbench.server.workers import Workers
from workbench.store import Store

# Further close codes of the WebSocket.
NORMAL = 1000
GOING_AWAY = 1001
INTERNAL_ERROR = 1011

T = TypeVar("T")
_GOODBYE = "The server is stopping."
MOST_RUNS = 64
MOST_PAGES = 64
_FULL = "This server follows at most {} runs at once; close some pages."
_CROWDED = "At most {} pages can follow a run; close some of them."


class FollowedRun:
    """One run and the pages that follow it.

    Args:
        run: The run's id.
        server: Tells this server's pages from those of others.
        workers: The threads for periodic tasks.
        log: For errors that no page can fix.
        pace: Its times.
        former: The previous feed of this run, which has to end first.
    """

    def __init__(
        self,
        run: str,
        server: str,
        workers: Workers,
        log: logging.Logger,
        pace: FeedPace,
        former: asyncio.Task[None] | None = None,
    ) -> None:
        self.is_over = False
        self._run = run
        self._workers = workers
        self._log = log
        self._pace = pace
        self._pages: set[Subscriber] = set()
        # Pages that know of the end, and until when they may stay: the notebook is open there, so
        # they save it.
        self._staying: dict[Subscriber, float] = {}
        self._latest = LatestMessages(pace)
        self._chores = Chores(run, server, pace)
        self._thread = ThreadPoolExecutor(1, f"workbench reader of {run}")
        self._reading: RunReader | None = None
        self._failure: Exception | None = None
        self._woken = asyncio.Event()
        self._changed = asyncio.Event()
        # Its own context: that of the first page's request would keep that request in memory.
        self._loop = asyncio.get_running_loop()
        self.task = self._loop.create_task(self._serve(former), context=Context())

    def __repr__(self) -> str:
        return f"<FollowedRun {self._run}: {len(self._pages)} pages>"

    @property
    def amount(self) -> int:
        """The number of pages that follow it, without those that only stay to save its result."""
        return len(self._pages)

    def join(self, page: Subscriber) -> None:
        """Add a page."""
        self._pages.add(page)
        self._wake()

    def take(self, page: Subscriber, message: PageMessage) -> None:
        """Handle a message from a page."""
        was_slow = page.is_slow(time.monotonic())
        page.take(message)
        self._ask(urgent=was_slow)

    def leave(self, page: Subscriber) -> None:
        """Forget a page whose connection is closed."""
        self._pages.discard(page)
        self._staying.pop(page, None)
        self._wake()

    def dismiss(self, code: int, reason: str) -> None:
        """Close all connections and end; a later page gets a new feed."""
        self.is_over = True
        for page in (*self._pages, *self._staying):
            page.close(code, reason)
        self._pages.clear()
        self._staying.clear()
        self._wake()

    def _wake(self) -> None:
        self._woken.set()
        self._changed.set()
        self._ask(urgent=True)

    async def _serve(self, former: asyncio.Task[None] | None) -> None:
        try:
            self._reading = await self._read(partial(RunReader, self._run, self._pace.refresh))
            await self._follow(self._reading, former)
        except WorkbenchError as error:
            self._refuse(error)
        finally:
            self.is_over = True
            self._thread.shutdown()

    async def _read(self, function: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._thread, function)

    def _refuse(self, error: WorkbenchError) -> None:
        self.dismiss(UNKNOWN_RUN if isinstance(error, Unknown) else STORE_TROUBLE, str(error))

    # -- reading and sending

    async def _follow(self, reading: RunReader, former: asyncio.Task[None] | None) -> None:
        chores = asyncio.get_running_loop().create_task(self._do_chores(former))
        try:
            while await self._is_wanted():
                self._ask()
                await self._read(partial(reading.follow, self._deliver))
                if self._failure is not None:
                    raise self._failure
        except WorkbenchError as error:
            self._refuse(error)
        finally:
            self.is_over = True
            self._changed.set()
            reading.ask(FeedRequests(wanted=False), urgent=True)
            reading.take()
            await self._read(reading.close)
            await chores

    async def _is_wanted(self) -> bool:
        """Return whether there is a page; wait for one as long as the feed is kept."""
        due = time.monotonic() + self._pace.keep
        while not self._pages and not self.is_over:
            until = max(due, *self._staying.values(), 0.0)
            if (left := until - time.monotonic()) <= 0:
                break
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), left)
        if not self._pages:
            self.dismiss(NORMAL, "")
        return not self.is_over

    def _ask(self, *, urgent: bool = False) -> None:
        """Request from the reader what pages lack."""
        if self._reading is None:
            return
        now, ended = time.monotonic(), self._latest.ended
        since = {page.since(now, ended=ended) for page in self._pages}
        after = {page.wanted for page in self._pages}
        questions = FeedRequests(
            frozenset(version for version in since if version is not None),
            frozenset(sequence for sequence in after if sequence is not None),
            slow=not ended and all(page.is_slow(now) for page in self._pages),
            anyway=self._latest.is_behind,
            wanted=bool(self._pages) and self._failure is None,
        )
        self._reading.ask(questions, urgent=urgent)

    def _deliver(self, look: RunUpdate) -> None:
        """Have an update sent, in the thread that has read it."""
        self._loop.call_soon_threadsafe(self._answer, look)

    def _answer(self, look: RunUpdate) -> None:
        try:
            self._send(look)
        except Exception as error:  # noqa: BLE001 - the task raises it again
            self._failure = error
        self._ask()
        if self._reading is not None:
            self._reading.take()

    def _send(self, look: RunUpdate) -> None:
        now = time.monotonic()
        self._latest.note(look, now)
        for page in list(self._pages):
            if not page.greeted:
                page.greet(look, self._latest)
                self._ask(urgent=True)  # it gets the curves immediately
            elif page.send(look, self._latest, now):
                self._pages.remove(page)
                if page.stays:
                    self._staying[page] = now + self._pace.stay
                else:
                    page.close(NORMAL)
                self._changed.set()

    # -- periodic tasks

    async def _do_chores(self, former: asyncio.Task[None] | None) -> None:
        if former is not None:
            await asyncio.wait([former])  # it counts as well
        complaint = ""
        while True:
            self._changed.clear()
            over, pages = self.is_over, len(self._pages) + len(self._staying)
            try:
                await self._workers.do(self._chore(over, pages))
            except WorkbenchError as error:
                if str(error) != complaint:
                    complaint = str(error)
                    self._log.warning("%s", complaint)
            if over:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._pace.chores if pages else None)

    def _chore(self, over: bool, pages: int) -> Callable[[], None]:
        """Return the periodic task that is due, to be done in a thread."""
        now, run = time.time(), self._latest.run_now
        count = 0 if over else pages
        cluster = "" if run is None or run.is_ended or not pages else run.cluster

        def do() -> None:
            self._chores.count(count, now, repeat=pages > 0)
            if cluster:
                self._chores.look_after(cluster, time.monotonic())

        return do


class Feeds:
    """The runs that are followed.

    Args:
        workers: The threads that read them.
        log: Where trouble is written that no page can do anything about.
        most_runs: The number of runs that can be followed at once.
        most_pages: The number of pages that can follow a run.

    Attributes:
        pace: The times of the feeds and pages that begin from now on.
    """

    def __init__(
        self,
        workers: Workers,
        log: logging.Logger,
        *,
        most_runs: int = MOST_RUNS,
        most_pages: int = MOST_PAGES,
    ) -> None:
        self.pace = USUAL
        self._workers = workers
        self._log = log
        self._most_runs, self._most_pages = most_runs, most_pages
        self._server = secrets.token_hex(8)
        self._followings: dict[str, FollowedRun] = {}
        self._closed = False

    def join(self, run: str, page: Subscriber) -> FollowedRun | None:
        """Let ``page`` follow ``run``; its connection is closed if the server is stopping."""
        if self._closed:
            page.close(GOING_AWAY, _GOODBYE)
            return None
        following = self._followings.get(run)
        if following is None or following.is_over:
            former = following.task if following else None
            if len(self._followings) >= self._most_runs and not self._make_room():
                page.close(STORE_TROUBLE, _FULL.format(self._most_runs))
                return None
            following = FollowedRun(run, self._server, self._workers, self._log, self.pace, former)
            following.task.add_done_callback(partial(self._forget, run, following))
            self._followings[run] = following
        if following.amount >= self._most_pages:
            page.close(STORE_TROUBLE, _CROWDED.format(self._most_pages))
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

    def _forget(self, run: str, following: FollowedRun, task: asyncio.Task[None]) -> None:
        if self._followings.get(run) is following:
            del self._followings[run]
        if error := task.exception():
            self._log.error("Following run %s failed.", run, exc_info=error)
            following.dismiss(INTERNAL_ERROR, "The server failed; see its log.")


class Chores:
    """The periodic tasks for one run, about once a second.

    Args:
        run: The run's id.
        server: The id of this server, to distinguish its pages from others'.
        pace: How often they are done.
    """

    def __init__(self, run: str, server: str, pace: FeedPace = USUAL) -> None:
        self._run = run
        self._server = server
        self._pace = pace
        self._pages = 0
        self._written = 0.0
        self._care: SupervisorMonitor | None = None

    def count(self, pages: int, now: float, *, repeat: bool = True) -> None:
        """Store the number of pages, if it has changed or the stored one is old.

        Args:
            now: Epoch seconds.
            repeat: Whether to store an unchanged number.

        Raises:
            StoreError: The store cannot be written.
        """
        if pages != self._pages or (repeat and is_due(self._written, now, self._pace.pages)):
            with Store(lock_seconds=self._pace.lock) as store:
                store.put_open_pages(self._run, self._server, pages, now)
            self._pages, self._written = pages, now

    def look_after(self, cluster: str, now: float) -> None:
        """Restart the cluster's supervisor if it died.

        Args:
            now: Seconds of a monotonic clock.

        Raises:
            ClusterError: It dies repeatedly.
            MachineError: The store cannot be read, or no supervisor started.
        """
        if self._care is None:
            self._care = SupervisorMonitor(cluster, now, self._pace.waking)
        # A failed cluster is only retried on request.
        if supervisor_is_awake(cluster) or not _has_failed(cluster):
            self._care.look(now)


def _has_failed(cluster: str) -> bool:
    with Store() as store:
        return store.cluster_fact(cluster).state is ClusterState.FAILED
