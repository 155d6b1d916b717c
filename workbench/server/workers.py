"""Do in threads what would hold up the server: reading and writing the store, drawing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from workbench.store import Store

_THREADS = 8

T = TypeVar("T")


class Workers:
    """The server's threads, which begin when they are needed."""

    def __init__(self) -> None:
        self._askers = ThreadPoolExecutor(_THREADS, "workbench")
        # A connection's data_version means something to that connection only, so whoever follows
        # the store stays in one thread.
        self._reader = ThreadPoolExecutor(1, "workbench reader")
        self._drawer = ThreadPoolExecutor(1, "workbench drawer")  # matplotlib wants to be alone

    async def ask(self, question: Callable[[Store], T], *, draws: bool = False) -> T:
        """Return what ``question`` returns, given a store that is closed afterwards.

        Args:
            draws: Whether it draws a picture.
        """
        executor = self._drawer if draws else self._askers
        return await asyncio.get_running_loop().run_in_executor(executor, _asked, question)

    async def read(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns, called in the one thread that reads for all feeds."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, function)

    def close(self) -> None:
        """End the threads, once they have done what they were asked."""
        for executor in (self._askers, self._reader, self._drawer):
            executor.shutdown()


def _asked(question: Callable[[Store], T]) -> T:
    with Store() as store:
        return question(store)
