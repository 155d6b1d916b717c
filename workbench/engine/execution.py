"""Run a cell or a script on this rank, and report how it ended."""

from __future__ import annotations

import ast
import builtins
import contextlib
import faulthandler
import linecache
import os
import resource
import signal
import socket
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult
from msgspec.structs import replace

from workbench.core.node.staging import DATA_VARIABLE, OUTPUT_VARIABLE
from workbench.core.run.model import Assignment, RunKind, RunWish
from workbench.core.run.origin import PYTHON_PATH
from workbench.core.run.rank_protocol import Ending
from workbench.core.world.world import THREADS
from workbench.engine.asyncio_support import cell_tasks, evaluate, own_loop
from workbench.engine.boundary import RunStopped
from workbench.engine.cell_effects import note_effects
from workbench.engine.edited_modules import forget_edited
from workbench.engine.forked_children import end_forked
from workbench.engine.framework import enter_frameworks, explain_error, frameworks
from workbench.engine.output.display_capture import show_figures, show_value
from workbench.engine.output.traceback_format import last_line, own_traceback
from workbench.engine.own_gpu import hold_gpu
from workbench.engine.rank import Rank
from workbench.engine.reporting.run_log import make_for_owner
from workbench.engine.run_context import RunContext
from workbench.engine.timing.mpi_calls import is_echo

MAGIC_LINE = "%%dist_train\n"
USAGE_STATUS = 2  # of argparse, optparse and click
NO_ARGUMENTS = (
    "A cell has no arguments; set them before they are parsed, as in sys.argv = ['cell', '--lr', "
    "'0.1'], or run the script with %dist_train train.py --lr 0.1."
)


# Others, such as SIGCHLD, belong to libraries that set them once.
_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
)
_LIMITS = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)  # who exceeds one is ended by a signal
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)

_GPUS = "CUDA_VISIBLE_DEVICES"


def execute(rank: Rank, assignment: Assignment, shell: Any) -> None:
    """Run ``assignment`` on this rank; the result goes into the run's log.

    Args:
        shell: The engine's IPython shell, whose namespace a cell runs in.
    """
    run, wish = rank.enter(assignment), assignment.wish
    ending = Ending("failed", 0, "ended by its engine")
    try:
        with (
            _set_surroundings(assignment),
            _restore_process(),
            note_effects(shell.user_ns) as effects,
        ):
            ending = _attempt(rank, run, assignment, shell)
            if wish.is_process:
                ending = rank.wind_up(run, ending)
            ending = replace(ending, effects=effects())
    finally:
        run.close()
        if ending.state == "failed":
            for one in frameworks():  # the others may wait for this rank
                one.free(wish.name or wish.id)
        rank.leave(run, ending)
    if wish.is_process:
        rank.end(run, ending)


def _attempt(rank: Rank, run: RunContext, assignment: Assignment, shell: Any) -> Ending:
    try:
        body = _body(assignment.wish)
        with (
            own_loop(),
            rank.interruptible(),
            enter_frameworks(),
            show_figures(),
            end_forked(),
        ):
            body(run, assignment.wish, shell)
    except RunStopped:
        return Ending("stopped", run.iteration)
    except KeyboardInterrupt as error:
        return Ending("stopped", run.iteration, "interrupted", _own_traceback(error, run)[0])
    except SystemExit as error:
        if run.boundaries.was_asked:
            return Ending("stopped", run.iteration)
        if error.code in (None, 0):
            return Ending("finished", run.iteration, exited=True)
        return _build_failure(error, run, exited=True)
    except BaseException as error:  # noqa: BLE001  # any error of a user's code is the run's result
        return _build_failure(error, run, stale=rank.stale(error))
    # A script that was asked for its checkpoint has saved it and left its loop.
    return Ending("stopped" if run.boundaries.was_asked else "finished", run.iteration)


def _build_failure(
    error: BaseException, run: RunContext, *, exited: bool = False, stale: str = ""
) -> Ending:
    """Return the ending of a failed rank.

    Args:
        stale: The message about a communicator from before a failure, if the error is due to one.
    """
    text, whole = _own_traceback(error, run)
    if stale:
        return Ending("failed", run.iteration, stale, f"{stale}\n{text}", whole=whole)
    echo = is_echo(error) or any(one.owns(error) for one in frameworks())
    said = last_line(error, run.log.last_words)
    return Ending("failed", run.iteration, said, text, exited, echo, whole=whole)


def _cell(run: RunContext, wish: RunWish, shell: Any) -> None:
    run.source_name = name = f"<cell of run {wish.id}>"
    source = shell.transform_cell(wish.source)
    # In the notebook the magic is line 1; tracebacks use the editor's line numbers.
    _remember_lines(name, MAGIC_LINE + source)
    tree = ast.increment_lineno(ast.parse(source, name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    space = shell.user_ns
    space.update(wish.options.parameters)
    parts = [_compile(tree, name, "exec")]
    if isinstance(last, ast.Expr):
        parts.append(_compile(ast.Expression(last.value), name, "eval"))
    with cell_events(shell, wish.source, source):
        forget_edited(shell)
        with cell_tasks():
            value = evaluate(parts, space)
            if value is not None and not _is_silenced(source):
                show_value(shell, value)


def _compile(tree: ast.Module | ast.Expression, name: str, mode: str) -> CodeType:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile(tree, name, mode, flags, dont_inherit=True)
    return code


def _script(run: RunContext, wish: RunWish, _: Any) -> None:
    """Execute a script in this process, which ends with it: nothing is restored afterwards."""
    run.source_name = path = wish.path
    _remember_lines(path, wish.source)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins, **dict(wish.options.parameters))
    if wish.origin.module:  # as python -m does: the package's other modules are found from it
        module.__spec__ = spec_from_file_location(wish.origin.module, path)
        module.__package__ = wish.origin.module.rpartition(".")[0]
    sys.modules["__main__"] = module
    sys.argv = [path, *wish.options.arguments]
    sys.path.insert(0, str(_search_folder(wish)))
    exec(compile(wish.source, path, "exec", dont_inherit=True), module.__dict__)


def _search_folder(wish: RunWish) -> Path:
    """Return where a script finds modules first: its folder, or the one that has its package."""
    return Path(wish.path).parents[wish.origin.module.count(".")]


def _measure(run: RunContext, wish: RunWish, _: Any) -> None:
    from mpi4py import MPI

    from workbench.engine.measurement.survey import measure

    measure(run, MPI.COMM_WORLD, **dict(wish.options.parameters))


def _body(wish: RunWish) -> Callable[[RunContext, RunWish, Any], None]:
    """Return what executes a run: as a script if it has a path, also where it is repeated."""
    if wish.kind is RunKind.MEASUREMENT:
        return _measure
    return _script if wish.path else _cell


@contextmanager
def _set_surroundings(assignment: Assignment) -> Iterator[None]:
    """Set the run's folder and environment; the folder is kept after it, as in a notebook."""
    _enter(assignment.wish.folder)
    if assignment.is_beside:
        hold_gpu(int(os.environ.get("LOCAL_RANK", "0")))
    with _set_variables({**_places(assignment), **dict(assignment.environment)}):
        yield


def _places(assignment: Assignment) -> dict[str, str]:
    """Return the variables that name the data and the output folder, which is created."""
    named = {DATA_VARIABLE: assignment.data, OUTPUT_VARIABLE: assignment.output}
    places = {name: str(Path(path).expanduser()) for name, path in named.items() if path}
    if output := places.get(OUTPUT_VARIABLE):
        try:
            make_for_owner(Path(output))
        except OSError as error:
            print(
                f"{output} cannot be made on {socket.gethostname()} ({error.strerror}), so "
                "nothing that the run writes is kept; correct that folder there.",
                file=sys.stderr,
            )
    return places


def _enter(folder: str) -> None:
    """Change to the notebook's folder, if this host has it."""
    try:
        if folder:
            os.chdir(folder)
    except OSError as error:
        print(
            f"{folder} cannot be entered on {socket.gethostname()} ({error.strerror}), "
            f"so the run is in {Path.cwd()}; give files by a path that all hosts have.",
            file=sys.stderr,
        )


def _remember_lines(name: str, source: str) -> None:
    """Make the source, which is in no file here, available to tracebacks and ``inspect``."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)


def _is_silenced(source: str) -> bool:
    return source.rstrip().endswith(";")


def _own_traceback(error: BaseException, run: RunContext) -> tuple[str, str]:
    """Return the error's traceback with advice, and the full one if frames are folded."""
    folded, whole = own_traceback(error, run.source_name)
    advice = _advice(error, run)
    return folded + (f"\n{advice}" if advice else ""), whole


def _advice(error: BaseException, run: RunContext) -> str:
    """Return one sentence of help for errors whose own message has no remedy."""
    is_usage = isinstance(error, SystemExit) and error.code == USAGE_STATUS
    if is_usage and run.source_name.startswith("<cell"):
        return NO_ARGUMENTS
    return explain_error(error)


@contextmanager
def _restore_process() -> Iterator[None]:
    """Restore standard streams, timers, limits and signal handlers; for the main thread."""
    streams = sys.stdin, sys.stdout, sys.stderr
    timers = {timer: signal.getitimer(timer) for timer in _TIMERS}
    limits = {limit: resource.getrlimit(limit) for limit in _LIMITS}
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for timer, left in timers.items():  # first: without a handler, an alarm ends the process
            signal.setitimer(timer, *left)
        faulthandler.cancel_dump_traceback_later()
        for limit, pair in limits.items():
            with contextlib.suppress(OSError, ValueError):  # what was lowered for good stays
                resource.setrlimit(limit, pair)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the cell may have put any object there
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = streams


@contextmanager
def _set_variables(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables, or remove those without a value, for as long as a run lasts.

    What libraries and Python read from them once, when they are loaded, is set as well.
    """
    before = {name: os.environ.get(name) for name in variables}
    path = [*sys.path]
    with contextlib.ExitStack() as after:
        if (threads := _threads(variables)) is not None:
            import threadpoolctl  # slow, and seldom needed

            after.enter_context(threadpoolctl.threadpool_limits(threads))
        _write_variables(variables)
        if _GPUS in variables and any(one.has_chosen_devices() for one in frameworks()):
            print(
                f"This rank uses its GPUs already, so {_GPUS} has no effect on it.", file=sys.stderr
            )
        given = variables.get(PYTHON_PATH) or ""
        added = [os.path.abspath(one) for one in given.split(os.pathsep) if one]
        sys.path[:0] = [one for one in added if one not in path]
        try:
            yield
        finally:
            _write_variables(before)
            for one in added:
                if one not in path and one in sys.path:
                    sys.path.remove(one)


def _write_variables(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if "TZ" in variables:
        time.tzset()


def _threads(variables: Mapping[str, str | None]) -> int | None:
    """Return the number of threads that variables ask for; None if they do not."""
    given = (variables.get(name) or "" for name in THREADS)
    found = [int(text) for value in given if (text := value.split(",")[0].strip()).isdecimal()]
    return max(found[0], 1) if found else None


@contextmanager
def cell_events(shell: Any, source: str, transformed: str) -> Iterator[None]:
    """Fire the events before the body and after it, as IPython does for a cell that is shown.

    What a magic runs as a cell within it, as ``%%capture`` does, raises its error: shown by a
    message of the engine, it would be lost, and a stop as well.

    Args:
        source: The cell as it was typed.
        transformed: The cell as Python.
    """
    info = ExecutionInfo(source, False, False, True, None)
    info.transformed_cell = transformed  # older releases of IPython take no argument for it
    result = ExecutionResult(info)
    shell.events.trigger("pre_execute")
    shell.events.trigger("pre_run_cell", info)
    run_cell = shell.run_cell

    def run_inner_cell(*args: Any, **kwargs: Any) -> Any:
        inner = run_cell(*args, **kwargs)
        inner.raise_error()
        return inner

    shell.run_cell = run_inner_cell
    try:
        yield
    except BaseException as error:
        result.error_in_exec = error
        raise
    finally:
        shell.run_cell = run_cell
        shell.events.trigger("post_execute")
        shell.events.trigger("post_run_cell", result)
