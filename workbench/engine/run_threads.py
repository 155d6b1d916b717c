"""Have what threads print and report belong to the run in which they began.

A thread of a pool belongs to the run that gave it its present work: a pool may stay for later runs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from workbench.engine.import_hook import when_imported
from workbench.engine.run_context import belonging

# Each takes a function first, in which the other methods of a pool end.
_POOL_METHODS = ("apply_async", "_map_async", "imap", "imap_unordered")


def follow_threads() -> None:
    """Note from now on in which run a thread begins, once."""
    if hasattr(threading.Thread.start, "__wrapped__"):
        return
    _replace(threading.Thread, "start", _starting)
    _replace(ThreadPoolExecutor, "submit", _giving_work)
    when_imported("multiprocessing.pool", _follow_pools)


def _follow_pools(module: Any) -> None:
    for name in _POOL_METHODS:
        _replace(module.ThreadPool, name, _giving_work)


def _replace(kind: type, name: str, made: Callable[[Callable[..., Any]], Any]) -> None:
    method = getattr(kind, name)
    setattr(kind, name, functools.wraps(method)(made(method)))


def _starting(start: Callable[..., Any]) -> Callable[..., Any]:
    def started(thread: threading.Thread) -> None:
        thread.run = belonging(thread.run)  # type: ignore[method-assign]  # of this thread alone
        start(thread)

    return started


def _giving_work(give: Callable[..., Any]) -> Callable[..., Any]:
    def given(pool: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return give(pool, belonging(function), *args, **kwargs)

    return given
