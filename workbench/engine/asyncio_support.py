"""Let a run use asyncio although the engine's event loop runs in its thread."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections.abc import Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

CANCEL_SECONDS = 2.0
# For how long a cell waits for tasks that it did not wait for itself; most need one round.
SETTLE_SECONDS = 2.0

_loop: asyncio.AbstractEventLoop | None = None
_find_running = asyncio.get_running_loop


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
        return _complete(_run_parts(parts, space))
    return [eval(part, space) for part in parts][-1]


async def _run_parts(parts: Sequence[CodeType], space: dict[str, Any]) -> Any:
    for part in parts:
        value = eval(part, space)
        if _awaits(part):
            value = await value
    return value


def _awaits(part: CodeType) -> bool:
    return bool(part.co_flags & inspect.CO_COROUTINE)


@contextmanager
def cell_tasks() -> Iterator[None]:
    """Let a cell create tasks as in a notebook, and let these work at the cell's end.

    The loop is kept for the rank's next cell, so objects bound to it stay usable. Tasks that are
    not done soon are paused: they continue where a later cell awaits. The tasks of a cell that
    fails are cancelled; if that takes longer than ``CANCEL_SECONDS``, they are ignored.
    """
    before = asyncio.all_tasks(_loop_of_rank())
    try:
        with _offer_loop():
            yield
        _settle(before)
    except BaseException:
        loop = _loop_of_rank()
        _cancel(loop, asyncio.all_tasks(loop) - before)
        raise


@contextmanager
def _offer_loop() -> Iterator[None]:
    """Answer ``get_running_loop`` in the cell's own lines by the loop that its tasks work in.

    It does not run there, so that ``asyncio.run`` and ``run_until_complete`` work as well.
    """

    def get_running_loop() -> asyncio.AbstractEventLoop:
        is_cells = is_open and threading.current_thread() is threading.main_thread()
        return _loop_of_rank() if is_cells and not asyncio._get_running_loop() else _find_running()

    is_open = True
    asyncio.get_running_loop = asyncio.events.get_running_loop = get_running_loop
    try:
        yield
    finally:
        is_open = False  # for libraries that have kept the function
        asyncio.get_running_loop = asyncio.events.get_running_loop = _find_running


def _settle(before: Collection[asyncio.Task[Any]]) -> None:
    """Let the tasks of a cell work, until they are done or the time is over."""
    loop = _loop_of_rank()
    tasks = asyncio.all_tasks(loop).difference(before)
    if not tasks:
        if getattr(loop, "_ready", ()):  # callbacks alone
            _complete(asyncio.sleep(0))
        return
    _complete(_wait_for_tasks(tasks))
    for task in tasks:
        error = task.exception() if task.done() and not task.cancelled() else None
        if error is not None:
            message = f"Task {task.get_name()!r} of this cell, which nothing awaits, failed"
            loop.call_exception_handler({"message": message, "exception": error, "task": task})
    if left := [task.get_name() for task in tasks if not task.done()]:
        names = ", ".join(map(repr, sorted(left)))
        print(
            f"workbench: {names} of this cell {'is' if len(left) == 1 else 'are'} paused, and "
            "will continue while a later cell awaits something; await it to wait for it here.",
            file=sys.stderr,
        )


async def _wait_for_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks, timeout=SETTLE_SECONDS)


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
        if task.done() or type(error) is not KeyboardInterrupt:  # the run was stopped in a task
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
