"""Let a run use asyncio although the engine's event loop runs in its thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

CANCEL_SECONDS = 2.0

_loop: asyncio.AbstractEventLoop | None = None


@contextmanager
def own_loop() -> Iterator[None]:
    """Hide the engine's running event loop, so that ``asyncio.run`` works, and restore it."""
    engines = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    asyncio.set_event_loop(_loop_of_rank())
    try:
        yield
    finally:
        asyncio.set_event_loop(engines)
        asyncio._set_running_loop(engines)


def evaluate(parts: Sequence[CodeType], space: dict[str, Any]) -> Any:
    """Execute a cell's parts, all in the event loop if one awaits; return the last one's value.

    Args:
        parts: Compiled with ``ast.PyCF_ALLOW_TOP_LEVEL_AWAIT``.
    """
    if any(_awaits(part) for part in parts):
        return _complete(_awaited(parts, space))
    return [eval(part, space) for part in parts][-1]


async def _awaited(parts: Sequence[CodeType], space: dict[str, Any]) -> Any:
    for part in parts:
        value = eval(part, space)
        if _awaits(part):
            value = await value
    return value


def _awaits(part: CodeType) -> bool:
    return bool(part.co_flags & inspect.CO_COROUTINE)


def cancel_rest() -> None:
    """Cancel the tasks that a cell leaves, as ``asyncio.run`` does at its end.

    The loop itself is kept for the rank's next cell, so objects bound to it stay usable. A task
    that is not cancelled within ``CANCEL_SECONDS`` is ignored; it makes no progress.
    """
    if _loop is not None and not _loop.is_closed() and not _loop.is_running():
        _cancel(_loop, asyncio.all_tasks(_loop))


def _loop_of_rank() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603  # a process is one rank, and its cells share a loop
    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
    return _loop


def _complete(coroutine: Coroutine[Any, Any, Any]) -> Any:
    loop = _loop_of_rank()
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt as error:
        if task.done():
            raise
        # An error while the loop waited: the user's line is where the task is cancelled.
        _cancel(loop, {task})
        raise KeyboardInterrupt().with_traceback(_place(task) or error.__traceback__) from None


def _cancel(loop: asyncio.AbstractEventLoop, tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_SECONDS))


def _place(task: asyncio.Task[Any]) -> Any:
    """Return the traceback of where a task was cancelled, if it was."""
    if not task.done():
        return None
    try:
        task.result()
    except BaseException as error:  # noqa: BLE001  # raised by the user's task
        return error.__traceback__
    return None
