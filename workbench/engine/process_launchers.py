"""Have launchers that start processes call their function on the ranks that there are.

A notebook's kernel is one process, so its authors know accelerate's ``notebook_launcher``,
``torch.multiprocessing.spawn`` and Lightning's ``ddp_notebook``. On ranks each of them would start
that many processes on every rank, which would all want one port.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from workbench.engine.output.traceback_format import library
from workbench.engine.run_context import Current, current
from workbench.errors import InputError

_BEGIN_A_GROUP = frozenset(
    {"Accelerator", "PartialState", "init_device_mesh", "init_distributed", "init_process_group"}
)
_PRECISION = "ACCELERATE_MIXED_PRECISION"


def begins_group(function: Any) -> bool:
    """Return whether a function, or one of the user's own that it uses, begins a process group.

    It is read off their code, so a name that is looked up in another way is not seen.
    """
    return any(not _BEGIN_A_GROUP.isdisjoint(code.co_names) for code in _codes(function))


class EndedProcesses:
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
        run = _run_with_ranks()
        if run is None or nprocs < 1 or not begins_group(fn):
            return start(fn, args, nprocs, join, *more, **options)
        size = int(run.world["WORLD_SIZE"])
        if size == 1 < nprocs:
            _say(
                run,
                f"mp.spawn starts {nprocs} processes of {_name(fn)} beside this rank, without a "
                f"curve; with --ranks {nprocs} the ranks call it.",
            )
            return start(fn, args, nprocs, join, *more, **options)
        _check_size("mp.spawn", "nprocs", nprocs, size)
        if kind := next(filter(None, map(_channel, args)), ""):
            raise InputError(
                f"mp.spawn gives {_name(fn)} a {kind}, which ranks do not share",
                "use all_gather_object in its place, or run it on one rank.",
            )
        _say(run, _where("mp.spawn", fn, size))
        _call(run, fn, int(run.world["RANK"]), *args)
        return None if join else EndedProcesses()

    module.start_processes = package.start_processes = start_processes


def wrap_accelerate(module: Any) -> None:
    """Have accelerate's launchers call their function on the ranks."""
    for name in ("notebook_launcher", "debug_launcher"):
        launch = getattr(module, name, None)
        if launch is not None and not hasattr(launch, "__wrapped__"):
            setattr(module, name, _calling(launch))


def _calling(launch: Callable[..., Any]) -> Callable[..., Any]:
    """Return one of accelerate's launchers, which calls its function where ranks are."""
    signature = inspect.signature(launch)

    @functools.wraps(launch)
    def launched(*args: Any, **kwargs: Any) -> Any:
        run = _run_with_ranks()
        if run is None:
            return launch(*args, **kwargs)
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        function = given.arguments["function"]
        precision = str(given.arguments.get("mixed_precision", "no")).lower()
        _say(run, _where(launch.__name__, function, int(run.world["WORLD_SIZE"])))
        with _variable(_PRECISION, "" if precision == "no" else precision):
            _call(run, function, *given.arguments["args"])

    return launched


def wrap_lightning(module: Any) -> None:
    """Have Lightning's launchers use the ranks."""
    kind = module.DDPStrategy
    configure = getattr(kind, "_configure_launcher", None)
    if configure is None or hasattr(configure, "__wrapped__"):
        return

    @functools.wraps(configure)
    def configure_launcher(strategy: Any) -> None:
        run = _run_with_ranks()
        if run is not None and strategy._start_method != "popen":
            wanted = strategy.num_nodes * strategy.num_processes
            _check_size("Lightning", "devices", wanted, int(run.world["WORLD_SIZE"]))
            _say(run, "Lightning trains on the ranks of this run, in place of new processes.")
            strategy._start_method = "popen"  # the way of a launcher outside, which the ranks are
        configure(strategy)

    kind._configure_launcher = configure_launcher


def _run_with_ranks() -> Current | None:
    run = current()
    return run if run is not None and run.world else None


def _call(run: Current, function: Callable[..., Any], *args: Any) -> None:
    """Call a function as in a process of its own, which may leave by ``sys.exit()``."""
    before, run.is_launched = run.is_launched, True
    try:
        function(*args)
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    finally:
        run.is_launched = before


def _check_size(launcher: str, option: str, wanted: int, size: int) -> None:
    if wanted != size:
        one = "1 rank is" if size == 1 else f"{size} ranks are"
        raise InputError(
            f"{launcher} is to train by {wanted} {'process' if wanted == 1 else 'processes'}, and "
            f"{one} there",
            f"give {option}={size}, or run it on --ranks {wanted}.",
        )


def _where(launcher: str, function: Any, size: int) -> str:
    ranks = "the rank" if size == 1 else f"the {size} ranks"
    return f"{launcher} calls {_name(function)} on {ranks} of this run, in place of new processes."


def _say(run: Current, sentence: str) -> None:
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


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while, if ``value`` is not empty."""
    before = os.environ.get(name)
    if value:
        os.environ[name] = value
    try:
        yield
    finally:
        if value and before is None:
            os.environ.pop(name, None)
        elif value and before is not None:
            os.environ[name] = before


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
            for code in _nested(one.__code__):
                yield code
                todo += _used(code, one.__globals__)
        elif not inspect.isroutine(one):
            todo.append(type(one))  # an object that is called as a function


def _plain(function: Any) -> Any:
    """Return what is inside of decorators and partial functions."""
    while isinstance(function, functools.partial | staticmethod | classmethod):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    return inspect.unwrap(function) if isinstance(function, FunctionType) else function


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _nested(one)


def _used(code: CodeType, space: dict[str, Any]) -> Iterable[Any]:
    """Yield the functions and classes that a code's names lead to, also in modules."""
    for name in code.co_names:
        value = space.get(name, sys.modules.get(name))
        if isinstance(value, ModuleType):
            inside = (vars(value).get(other) for other in code.co_names)
            yield from (one for one in inside if inspect.isroutine(one) or isinstance(one, type))
        elif inspect.isroutine(value) or isinstance(value, type):
            yield value
