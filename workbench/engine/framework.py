"""The door for libraries that train: what a framework tells workbench, and which ones there are.

A framework is a subclass of ``Framework`` in a folder or a package of its own, which registers it
as an entry point of the group ``workbench.frameworks``. Nothing else names a framework: ranks,
snapshots, elastic loops and the exchange ask each one that is installed, and all answers have a
default. ``docs/contributing.md`` says how to add one.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.engine.import_hook import when_imported
from workbench.errors import MachineError

if TYPE_CHECKING:
    from workbench.engine.snapshot.entries import LoopData, StateEntry

GROUP = "workbench.frameworks"
_OWN = ("numpy", "mpi4py", "ipyparallel", "dist-workbench")
_NONE: Mapping[str, str] = MappingProxyType({})
# Of what is no framework, and has another name there than in an import.
_REQUIREMENTS = {"sklearn": "scikit-learn"}


class Framework:
    """What workbench asks of a library that trains; each answer has a default."""

    hooks: ClassVar[Mapping[str, str]] = _NONE
    """``module:function`` of ours by module of the framework's.

    The function is called with the module, now or as soon as a program has imported it. Ours is
    imported no earlier.
    """
    packages: tuple[str, ...] = ()
    """Top-level packages with its code: their frames are none of the user's program."""
    distributions: tuple[str, ...] = ()
    """What is installed of it; a snapshot notes their versions, and ranks have to agree on them."""
    preloaded: tuple[str, ...] = ()
    """Modules that each rank needs, which a fork server imports at its start.

    They start no thread and open no device, since ranks are forked from it.
    """
    preloaded_later: tuple[str, ...] = ()
    """Modules that most runs need, which a fork server imports when it is idle."""
    followed: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """By part of the path of a library of the framework's: modules that a fork server imports once
    a rank has loaded that library."""
    harmless: tuple[str, ...] = ()
    """Modules that keep caches, fetch data sets once, or start workers that only read: what they
    do outside of the process is none of a cell's deeds."""
    caches: tuple[str, ...] = ()
    """Environment variables that name folders of such caches."""
    calls: tuple[str, ...] = ()
    """Ends of paths of files whose functions wait for other ranks; each is shown by its name."""
    requirements: ClassVar[Mapping[str, str]] = _NONE
    """What pip installs for a package that a program imports, by the package's name."""
    waits_elsewhere: str = ""
    """Regular expression of paths in which a rank waits for its disk or processes of its own."""
    wrappers: ClassVar[Mapping[str, str]] = _NONE
    """What to call the wrapper of a model that exchanges by itself, by part of its file's path."""
    data = ""
    """What ``loop_data`` takes, for a reader, such as "a DataLoader"."""

    def install(self) -> None:
        """Watch the framework in this process, which has become a rank."""
        for module, function in self.hooks.items():
            when_imported(module, _LateCall(function))

    def begin_world(self, *, alone: bool) -> None:
        """Prepare for the ranks of a world, before any run.

        Args:
            alone: Whether all of them are on this machine.
        """

    def begin_run(self, size: int, *, is_script: bool) -> None:
        """Leave the ranks that an earlier run has joined, unless they are of use to this one.

        All ranks decide alike.

        Args:
            size: Number of ranks of the run.
            is_script: Whether a script begins, which expects a process of its own.
        """

    def during_run(self) -> AbstractContextManager[object]:
        """Return what is in effect while the run's code is executed."""
        return nullcontext()

    def free(self, run: str) -> None:
        """Free the main thread where it waits for other ranks; called in any thread.

        Args:
            run: The name of the run that failed or is stopped.
        """

    def leave(self) -> None:
        """Leave the ranks that were joined, if any; collective over them."""

    def owns(self, error: BaseException) -> bool:
        """Return whether ``error`` only follows from another rank's failure."""
        return False

    def stale(self, error: BaseException) -> str:
        """Return the message for an error that is due to ranks which were left; else nothing."""
        return ""

    def explain(self, error: BaseException) -> str:
        """Return a sentence of help for an error; empty without one."""
        return ""

    def membership(self) -> tuple[int, int] | None:
        """Return rank and world size where no run of workbench has them; None if unknown."""
        return None

    def uses_device(self) -> bool:
        """Return whether this process may be computing on a GPU; asked in any thread."""
        return False

    def has_chosen_devices(self) -> bool:
        """Return whether it has read already which GPUs it may use."""
        return False

    def random_states(self) -> dict[str, Any]:
        """Return the states of the framework's random generators, by names of its own."""
        return {}

    def restore_random(self, states: Mapping[str, Any], seed: int) -> None:
        """Continue its random generators.

        Args:
            states: Those of ``random_states`` that this rank continues with.
            seed: Of generators whose states cannot be saved: another one on each rank, and after
                each snapshot.
        """

    def state_entry(self, name: str, value: Any) -> type[StateEntry] | None:
        """Return how an object in the state of an elastic loop is saved; None if it is not its own.

        Raises:
            InputError: It cannot be saved.
        """
        return None

    def loop_data(self, data: Any) -> LoopData | None:
        """Return what gives an elastic loop the batches of ``data``; None if it is not its own."""
        return None


@dataclass(frozen=True)
class _LateCall:
    """Calls a function that is imported when it is needed.

    Args:
        target: ``module:function``.
    """

    target: str

    def __call__(self, module: Any) -> None:
        place, _, function = self.target.partition(":")
        getattr(import_module(place), function)(module)


@functools.cache
def frameworks() -> tuple[Framework, ...]:
    """Return the frameworks that are installed, by name; one that cannot be loaded is left out.

    Raises:
        MachineError: None of ours is there: a checkout that was installed before it had them.
    """
    # A set: metadata that an older name of a checkout left behind has the same ones.
    points = sorted({*importlib.metadata.entry_points(group=GROUP)}, key=lambda one: one.name)
    if not any(one.value.startswith("workbench.") for one in points):
        raise MachineError(
            f"workbench {importlib.metadata.version('dist-workbench')} is installed without its "
            "frameworks",
            "install it again: pip install -e . in a checkout.",
        )
    return tuple(one for point in points if (one := _load(point)) is not None)


def _load(point: importlib.metadata.EntryPoint) -> Framework | None:
    try:
        framework = point.load()()
    except Exception as error:  # noqa: BLE001  # of a package that is not ours
        _complain(f"framework {point.name!r} ({point.value}) is not watched", error)
        return None
    return framework if isinstance(framework, Framework) else None


def install_frameworks() -> None:
    """Watch all frameworks in this process; a defect of one leaves the others watched."""
    for one in frameworks():
        try:
            one.install()
        except Exception as error:  # noqa: BLE001  # likewise
            _complain(f"{type(one).__name__} is not watched", error)


def _complain(what: str, error: Exception) -> None:
    print(
        f"workbench: {what} ({error!r:.300}); update or remove its package.",
        file=sys.stderr,
        flush=True,
    )


@contextmanager
def enter_frameworks() -> Iterator[None]:
    """Have all frameworks in effect while a run's code is executed."""
    with ExitStack() as stack:
        for one in frameworks():
            stack.enter_context(one.during_run())
        yield


def explain_error(error: BaseException) -> str:
    """Return a sentence of help by one of the frameworks; empty without one."""
    found = next(filter(None, (one.explain(error) for one in frameworks())), "")
    return found or _explain_missing(error)


def _explain_missing(error: BaseException) -> str:
    """Return what installs the package that an import did not find."""
    if not isinstance(error, ModuleNotFoundError) or not error.name or "." in error.name:
        return ""
    tables = (_REQUIREMENTS, *(one.requirements for one in frameworks()))
    needed = next((table[error.name] for table in tables if error.name in table), "")
    return f"{error.name} is not installed here: `pip install {needed}` adds it." if needed else ""


@functools.cache
def library_versions() -> tuple[tuple[str, str], ...]:
    """Return name and version of what is installed of frameworks, and of what ranks share."""
    names = {one: None for framework in frameworks() for one in framework.distributions}
    found = []
    for name in (*names, *_OWN):
        with suppress(importlib.metadata.PackageNotFoundError):
            found.append((name, importlib.metadata.version(name)))
    return tuple(found)


def preload() -> None:
    """Import what each rank needs of the frameworks."""
    for one in frameworks():
        _import_present(one.preloaded)


def preload_later() -> dict[str, tuple[str, ...]]:
    """Import what most runs need of the frameworks.

    Returns:
        By part of a library's path what to import once a rank has loaded it.
    """
    followed: dict[str, tuple[str, ...]] = {}
    for one in frameworks():
        _import_present(one.preloaded_later)
        followed |= one.followed
    return followed


def _import_present(names: tuple[str, ...]) -> None:
    for name in names:
        if find_spec(name.partition(".")[0]):
            import_module(name)
