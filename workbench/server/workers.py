"""Threads for slow work of the server: the store, and drawing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from workbench.store import Store
from workbench.store.database import LOCK_SECONDS

_THREADS = 8

T = TypeVar("T")


class Workers:
    """The server's threads, started when needed."""

    def __init__(self) -> None:
        self.lock_seconds = LOCK_SECONDS
        self._many = ThreadPoolExecutor(_THREADS, "workbench")
        self._drawer = ThreadPoolExecutor(1, "workbench drawer")  # matplotlib is not thread-safe

    async def do(self, function: Callable[[], T], *, draws: bool = False) -> T:
        """Run ``function`` in a thread and return its result.

        Args:
            draws: Whether it draws a picture.
        """
        executor = self._drawer if draws else self._many
        return await asyncio.get_running_loop().run_in_executor(executor, function)

    async def ask(self, question: Callable[[Store], T], *, draws: bool = False) -> T:
        """Run ``question`` with a store that is closed afterwards, and return its result."""
        return await self.do(partial(_ask_store, question, self.lock_seconds), draws=draws)

    def close(self) -> None:
        """End the threads after their pending work."""
        self._many.shutdown()
        self._drawer.shutdown()


def _ask_store(question: Callable[[Store], T], lock_seconds: float) -> T:
    with Store(lock_seconds=lock_seconds) as store:
        return question(store)
