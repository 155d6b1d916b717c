"""Do in threads what would hold up the server: reading and writing the store, drawing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from workbench.store import Store

_THREADS = 8

T = TypeVar("T")


class Workers:
    """The server's threads, which begin when they are needed."""

    def __init__(self) -> None:
        self._many = ThreadPoolExecutor(_THREADS, "workbench")
        self._drawer = ThreadPoolExecutor(1, "workbench drawer")  # matplotlib wants to be alone

    async def do(self, function: Callable[[], T], *, draws: bool = False) -> T:
        """Return what ``function`` returns.

        Args:
            draws: Whether it draws a picture.
        """
        executor = self._drawer if draws else self._many
        return await asyncio.get_running_loop().run_in_executor(executor, function)

    async def ask(self, question: Callable[[Store], T], *, draws: bool = False) -> T:
        """Return what ``question`` returns, given a store that is closed afterwards."""
        return await self.do(partial(_asked, question), draws=draws)

    def close(self) -> None:
        """End the threads, once they have done what they were asked."""
        self._many.shutdown()
        self._drawer.shutdown()


def _asked(question: Callable[[Store], T]) -> T:
    with Store() as store:
        return question(store)
