"""Have launchers that start processes call their function on the ranks that there are.

A notebook's kernel is one process, so its authors know accelerate's ``notebook_launcher``,
``torch.multiprocessing.spawn`` and Lightning's ``ddp_notebook``. On ranks each of them would start
that many processes on every rank, which would all want one port.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from workbench.engine.output.traceback_format import library
from workbench.engine.run_context import RunContext, current
from workbench.errors import InputError

_BEGIN_A_GROUP = frozenset(
    {"Accelerator", "PartialState", "init_device_mesh", "init_distributed", "init_process_group"}
)


def begins_group(function: Any) -> bool:
    """Return whether a function, or one of the user's own that it uses, begins a process group.

    It is read off their code, so a name that is looked up in another way is not seen.
    """
    return any(not _BEGIN_A_GROUP.isdisjoint(code.co_names) for code in _codes(function))


class LaunchedProcesses:
    """What ``mp.spawn`` returns with ``join=False``: here its function has ended already."""

    processes: tuple[()] = ()

    def pids(self) -> list[int]:
        """Return none."""
        return []

    def join(self, *_: object, **__: object) -> bool:
        """Return that all have ended."""
        return True


def wrap_spawn(package: Any) -> None:
    """Have ``mp.spawn`` call its function on the ranks."""
    module: Any = sys.modules.get("torch.multiprocessing.spawn")  # its name in there is a function
    start = getattr(module, "start_processes", None)
    if start is None or hasattr(start, "__wrapped__"):
        return

    @functools.wraps(start)
    def start_processes(
        fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, *more: Any, **options: Any
    ) -> Any:
        run = run_with_ranks()
        if run is None or nprocs < 1 or not begins_group(fn):
            return start(fn, args, nprocs, join, *more, **options)
        size = int(run.world["WORLD_SIZE"])
        if size == 1 < nprocs:
            say(
                run,
                f"mp.spawn starts {nprocs} processes of {_name(fn)} beside this rank, without a "
                f"curve; with --ranks {nprocs} the ranks call it.",
            )
            return start(fn, args, nprocs, join, *more, **options)
        check_size("mp.spawn", "nprocs", nprocs, size)
        if kind := next(filter(None, map(_channel, args)), ""):
            raise InputError(
                f"mp.spawn gives {_name(fn)} a {kind}, which ranks do not share",
                "use all_gather_object in its place, or run it on one rank.",
            )
        say(run, describe_call("mp.spawn", fn, size))
        call_on_rank(run, fn, int(run.world["RANK"]), *args)
        return None if join else LaunchedProcesses()

    module.start_processes = package.start_processes = start_processes


def run_with_ranks() -> RunContext | None:
    """Return the present run, if it has ranks."""
    run = current()
    return run if run is not None and run.world else None


def call_on_rank(run: RunContext, function: Callable[..., Any], *args: Any) -> None:
    """Call a function as in a process of its own, which may leave by ``sys.exit()``."""
    before, run.is_launched = run.is_launched, True
    try:
        function(*args)
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    finally:
        run.is_launched = before


def check_size(launcher: str, option: str, wanted: int, size: int) -> None:
    """Refuse another number of processes than there are ranks.

    Raises:
        InputError: It is another.
    """
    if wanted != size:
        one = "1 rank is" if size == 1 else f"{size} ranks are"
        raise InputError(
            f"{launcher} is to train by {wanted} {'process' if wanted == 1 else 'processes'}, and "
            f"{one} there",
            f"give {option}={size}, or run it on --ranks {wanted}.",
        )


def describe_call(launcher: str, function: Any, size: int) -> str:
    """Return the sentence about where a launcher's function is called."""
    ranks = "the rank" if size == 1 else f"the {size} ranks"
    return f"{launcher} calls {_name(function)} on {ranks} of this run, in place of new processes."


def say(run: RunContext, sentence: str) -> None:
    """Write a sentence for the user, once for all ranks."""
    if run.world["RANK"] == "0":
        print(f"workbench: {sentence}", file=sys.stderr)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _channel(value: Any) -> str:
    """Return the name of a value's kind if it is a queue or a pipe between processes; else none."""
    kind = type(value)
    names = ("Queue", "JoinableQueue", "SimpleQueue", "Connection")
    is_one = "multiprocessing" in kind.__module__ and kind.__name__ in names
    return kind.__name__ if is_one else ""


def _codes(function: Any) -> Iterator[CodeType]:
    """Yield the code of a function, and of what it uses, as far as that is the user's own."""
    todo, seen = [function], set[int]()
    while todo:
        one = _plain(todo.pop())
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, MethodType):
            todo += [one.__func__, type(one.__self__)]
        elif isinstance(one, type):
            todo += [value for value in vars(one).values() if inspect.isroutine(value)]
        elif isinstance(one, FunctionType) and not library(one.__code__.co_filename):
            for code in _walk_code(one.__code__):
                yield code
                todo += _find_used(code, one.__globals__)
        elif not inspect.isroutine(one):
            todo.append(type(one))  # an object that is called as a function


def _plain(function: Any) -> Any:
    """Return what is inside of decorators and partial functions."""
    while isinstance(function, functools.partial | staticmethod | classmethod):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    return inspect.unwrap(function) if isinstance(function, FunctionType) else function


def _walk_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _walk_code(one)


def _find_used(code: CodeType, space: dict[str, Any]) -> Iterable[Any]:
    """Yield the functions and classes that a code's names lead to, also in modules."""
    for name in code.co_names:
        value = space.get(name, sys.modules.get(name))
        if isinstance(value, ModuleType):
            inside = (vars(value).get(other) for other in code.co_names)
            yield from (one for one in inside if inspect.isroutine(one) or isinstance(one, type))
        elif inspect.isroutine(value) or isinstance(value, type):
            yield value
