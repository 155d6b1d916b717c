"""The functions that the supervisor calls by name on every engine, through ipyparallel."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

from workbench.core.run.model import Assignment
from workbench.engine.edited_modules import note_sources
from workbench.engine.execution import execute
from workbench.engine.framework import install_frameworks, preload
from workbench.engine.import_hook import when_imported
from workbench.engine.mpi_lifetime import lifetime, refuse_spawning
from workbench.engine.output.display_capture import route_displays
from workbench.engine.output.output_capture import refuse_questions
from workbench.engine.output.widget_displays import show_widgets
from workbench.engine.rank import Rank
from workbench.engine.reporting.channel import Address
from workbench.engine.run_context import bind_to_run
from workbench.engine.timing.mpi_calls import WatchedComm

# Each takes a function first, in which the other methods of a pool end.
_POOL_METHODS = ("apply_async", "_map_async", "imap", "imap_unordered")

_rank: Rank | None = None
_begun: set[str] = set()


def join(
    generation: int, endpoint: str, server_key: str, fault_tolerant: bool, crash_folder: str
) -> dict[str, Any]:
    """Make this engine a rank of ``generation``, and return its ``RankFact`` as a dict.

    Collective over the engine set.
    """
    global _rank  # noqa: PLW0603  # a process is one rank for as long as it lives
    if _rank is None:
        address = Address(endpoint, server_key.encode())
        route_displays(_shell())
        refuse_questions()
        note_sources()
        follow_threads()
        draw_bars_as_text()
        show_widgets()
        install_frameworks()
        sys.argv = ["cell"]  # the engine's own options are none of a cell's
        lifetime.accept_starts()
        refuse_spawning(WatchedComm)
        _rank = Rank(
            generation,
            address,
            fault_tolerant=fault_tolerant,
            crash_folder=crash_folder,
            shell=_shell(),
        )
    return asdict(_rank.fact(_shell().kernel.engine_id))


def run(assignment: Assignment) -> None:
    """Execute an assignment; a repeated call for the same attempt is ignored.

    A supervisor that was killed before it recorded the call repeats it.
    """
    rank, execution = _require_rank(), assignment.execution
    if execution in _begun or rank.is_cancelled(execution) or rank.has_continued(execution):
        return
    _begun.add(execution)
    execute(rank, assignment, _shell())


def pass_over(is_process: bool = False) -> None:
    """Note that a run begins on lower ranks alone.

    Args:
        is_process: Whether it is a script, with which all ranks end.
    """
    _require_rank().pass_over()
    if is_process:
        _require_rank().end_beside()


def recover() -> bool:
    """Create new communicators after a failure; collective over the engine set."""
    return _require_rank().recover()


def warm_up() -> None:
    """Import the modules of a training cell, so that it begins at once."""
    _require_rank().note_own()
    preload()


def _require_rank() -> Rank:
    if _rank is None:
        raise RuntimeError("this engine has not joined a generation")
    return _rank


def _shell() -> Any:
    from IPython import get_ipython

    return get_ipython()


class TextBars(MetaPathFinder, Loader):
    """Gives ``tqdm.notebook`` the bars of ``tqdm``; ``tqdm.auto`` then chooses them as well."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find ``tqdm.notebook`` alone."""
        return spec_from_loader(fullname, self) if fullname == "tqdm.notebook" else None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module, without ``IProgress``, which would mean that widgets are available."""
        bars = import_module("tqdm.std")
        module.__dict__.update(
            tqdm=bars.tqdm, trange=bars.trange, tqdm_notebook=bars.tqdm, tnrange=bars.trange
        )


def draw_bars_as_text() -> None:
    """Make ``tqdm.auto`` and ``tqdm.notebook`` draw text from now on, once."""
    if not any(isinstance(finder, TextBars) for finder in sys.meta_path):
        sys.meta_path.insert(0, TextBars())


def follow_threads() -> None:
    """Note from now on in which run a thread begins, once."""
    if hasattr(threading.Thread.start, "__wrapped__"):
        return
    _replace(threading.Thread, "start", _wrap_start)
    _replace(ThreadPoolExecutor, "submit", _wrap_pool_call)
    when_imported("multiprocessing.pool", _follow_pools)


def _follow_pools(module: Any) -> None:
    for name in _POOL_METHODS:
        _replace(module.ThreadPool, name, _wrap_pool_call)


def _replace(kind: type, name: str, made: Callable[[Callable[..., Any]], Any]) -> None:
    method = getattr(kind, name)
    setattr(kind, name, functools.wraps(method)(made(method)))


def _wrap_start(start: Callable[..., Any]) -> Callable[..., Any]:
    def started(thread: threading.Thread) -> None:
        thread.run = bind_to_run(thread.run)  # type: ignore[method-assign]  # of this thread alone
        start(thread)

    return started


def _wrap_pool_call(give: Callable[..., Any]) -> Callable[..., Any]:
    def given(pool: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return give(pool, bind_to_run(function), *args, **kwargs)

    return given
