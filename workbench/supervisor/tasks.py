"""Run long tasks on threads, beside the supervisor's loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from workbench.errors import WorkbenchError

log = logging.getLogger("workbench.supervisor")
T = TypeVar("T")


class BackgroundTasks:
    """Runs tasks on threads, each key once at a time.

    Args:
        pool: The pool for short tasks.
        long_pool: The pool for tasks that may take minutes. It is separate, so that the provider
            is still queried and nodes are still ended while many nodes are prepared.
        long: The first words of the keys of long tasks.
    """

    def __init__(
        self, pool: Executor, long_pool: Executor | None = None, long: Collection[str] = ()
    ) -> None:
        self._pool = pool
        self._long_pool = long_pool or pool
        self._long = long
        self._on: dict[Hashable, tuple[Future[Any], Callable[[Any, str], None]]] = {}
        self._due: dict[Hashable, float] = {}

    def start(
        self,
        key: Hashable,
        work: Callable[[], T],
        done: Callable[[T | None, str], None],
        now: float,
        gap: float = 0.0,
    ) -> bool:
        """Start a task, unless it is running or was started less than ``gap`` seconds ago.

        Args:
            work: Runs on a thread; it may raise.
            done: Called by ``turn`` with the result of ``work``, or with None and a sentence.
        """
        if key in self._on or now < self._due.get(key, 0.0):
            return False
        self._due[key] = now + gap
        is_long = isinstance(key, tuple) and key[0] in self._long
        self._on[key] = (self._long_pool if is_long else self._pool).submit(work), done
        return True

    def is_on(self, key: Hashable) -> bool:
        """Return whether this task is running."""
        return key in self._on

    def turn(self) -> bool:
        """Report the tasks that have ended since the last turn; return false if none has."""
        ended = [key for key, (future, _) in self._on.items() if future.done()]
        for key in ended:
            future, done = self._on.pop(key)
            error = future.exception()
            if error is None:
                done(future.result(), "")
            elif isinstance(error, WorkbenchError):
                done(None, str(error))
            elif isinstance(error, Exception):
                log.error("%s failed", key, exc_info=error)
                done(None, f"{type(error).__name__}: {error}; see the supervisor's log.")
            else:
                raise error
        return bool(ended)

    def close(self) -> None:
        """Wait for running tasks; no other is started."""
        for pool in (self._long_pool, self._pool):
            pool.shutdown(wait=True, cancel_futures=True)
