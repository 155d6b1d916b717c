"""Request a run, a measurement, or that a run stops, after what is asked is checked."""

from __future__ import annotations

import ast
import contextlib
import os
import secrets
import subprocess
import sys
import time
import tokenize
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path

from workbench.core.cluster.model import (
    DEFAULT_CLUSTER,
    THIS_MACHINE,
    ClusterWish,
    check_cluster_name,
)
from workbench.core.cluster.spending import check_time_left
from workbench.core.cluster.target_world import wished_world
from workbench.core.fleet.fallbacks import dearest
from workbench.core.fleet.model import FleetWish
from workbench.core.run.model import (
    Run,
    RunKind,
    RunWish,
    check_restart,
    check_run_name,
    usual_name,
)
from workbench.core.run.origin import Origin, Variables
from workbench.core.run.other_launchers import is_launcher, same_here
from workbench.core.run.run_options import NO_OPTIONS, RunOptions
from workbench.core.units import hourly
from workbench.core.world.world import WORLD_VARIABLE, World
from workbench.errors import InputError, PriceQuestion, StateError
from workbench.requests.cloud_queries import CloudMarket, query_market
from workbench.requests.cluster import (
    check_allowed,
    check_place,
    check_price,
    is_news,
    is_released,
    local_hosts,
    planned_world,
    present_wish,
)
from workbench.requests.supervisor import keep_awake, supervisor_pid, wake_supervisor
from workbench.store import Store
from workbench.store.run_names import notebook_here

GIT_SECONDS = 2.0
COMMIT_CHARACTERS = 12


MEASUREMENT = "bandwidth"


def ask_run(
    store: Store,
    options: RunOptions = NO_OPTIONS,
    *,
    kind: RunKind,
    source: str,
    cluster: str = DEFAULT_CLUSTER,
    name: str | None = None,
    setup: str = "",
    path: str = "",
    folder: str = "",
    oversubscribe: bool = False,
    module: str = "",
    agreed: float | None = None,
    market: Callable[[FleetWish], CloudMarket] = query_market,
) -> RunWish:
    """Queue a run on ``cluster``, which is started or grown if necessary.

    Nodes that were given back are started again for it, if they cost no more than was agreed to.

    Args:
        options: What its user chose. More ranks than the cluster has make it grow.
        name: None for the script's, or ``cell``.
        setup: The set-up cell's own name; empty for every other run.
        oversubscribe: Whether the cluster's hosts may get more ranks than they have slots.
        module: The dotted name of a script that is run as ``python -m`` does.
        agreed: Confirmed $/h of all nodes, where the question was asked again.
        market: Returns the offers for a fleet.

    Raises:
        InputError: An option is not valid; nothing was started.
        PriceQuestion: Nodes that were given back cost more now than was agreed to.
        StateError: The name is in use, the cluster has expired, or its nodes are still being
            deleted.
    """
    wish, world, fleet = prepare_run(
        store,
        options,
        kind=kind,
        source=source,
        cluster=cluster,
        name=name,
        setup=setup,
        path=path,
        folder=folder,
        oversubscribe=oversubscribe,
        module=module,
        agreed=agreed,
        market=market,
    )
    wish = store.wish_run(wish, world, fleet, numbered=not name)
    wake_supervisor(cluster)
    return wish


def prepare_run(
    store: Store,
    options: RunOptions,
    *,
    kind: RunKind,
    source: str,
    cluster: str,
    name: str | None,
    setup: str = "",
    path: str = "",
    folder: str = "",
    oversubscribe: bool = False,
    module: str = "",
    agreed: float | None = None,
    market: Callable[[FleetWish], CloudMarket] = query_market,
) -> tuple[RunWish, World | None, FleetWish]:
    """Check what ``ask_run`` is asked for, and return the run, its cluster's world and nodes.

    Nothing is written. The world is None where the cluster has it.

    Raises:
        InputError: As for ``ask_run``.
        PriceQuestion: Likewise.
        StateError: Likewise.
    """
    check_cluster_name(cluster)
    now = time.time()
    called = check_run_name(name) if name else module or usual_name(path)
    options.check()
    check_restart(kind, restart=options.restart)
    world, fleet = world_for(store, cluster, options.ranks, oversubscribe, now)
    if agreed := _agree_again(store, cluster, agreed, market):
        if agreed > fleet.agreed:
            fleet = dearest(fleet, agreed / max(1, fleet.nodes))
        fleet = replace(fleet, agreed=agreed)
        world = world or planned_world(
            present_wish(store.cluster_wish(cluster)), None, False, fleet
        )
    folder = folder or os.getcwd()
    wish = RunWish(
        id=new_run_id(now),
        name=called,
        kind=kind,
        source=source,
        cluster=cluster,
        path=path,
        folder=folder,
        options=options,
        created=now,
        setup=setup,
        origin=origin_here(store, cluster, folder, module),
    )
    return wish, world, fleet


def _agree_again(
    store: Store,
    cluster: str,
    agreed: float | None,
    market: Callable[[FleetWish], CloudMarket],
) -> float:
    """Return the new $/h that nodes may cost which were given back; 0 where nothing changes.

    Raises:
        PriceQuestion: They cost more now, and that is not confirmed.
    """
    wish = store.cluster_wish(cluster)
    if wish is None or not (wish.fleet.place.asks_first and wish.fleet.nodes):
        return 0.0
    if not is_released(wish, store.cluster_fact(cluster)):
        return 0.0
    try:
        return check_price(store, wish, max(wish.fleet.agreed, agreed or 0.0), market)
    except PriceQuestion as question:
        agreed_to = hourly(wish.fleet.agreed, wish.fleet.place.unit)
        before = f", {agreed_to} were agreed to" if wish.fleet.agreed else ""
        raise PriceQuestion(
            f"The nodes of cluster {cluster!r} were given back, and this starts them again: "
            f"{f'{question}'.removesuffix('.')}{before}.",
            question.price,
        ) from None


def world_for(
    store: Store, cluster: str, ranks: int | None, oversubscribe: bool, now: float
) -> tuple[World | None, FleetWish]:
    """Return the world that a run needs, or None if ``cluster`` has it; and its nodes.

    Args:
        ranks: The requested number; None for all.
        now: Epoch seconds.

    Raises:
        InputError: The hosts carry fewer ranks.
        StateError: The cluster has expired, its nodes are still being deleted, or an
            administrator's limit forbids it.
    """
    before = store.cluster_wish(cluster)
    has = present_wish(before)
    if before is not None:
        check_time_left(before, store.cluster_fact(cluster), now)
    fleet = has.fleet if has else THIS_MACHINE
    check_place(store, before, fleet)
    if ranks is not None:
        oversubscribe = oversubscribe or bool(has and has.oversubscribe and ranks <= has.ranks)
        wished_world(fleet, local_hosts(), ranks, oversubscribe)
    grows = ranks is not None and (has is None or not has.up or ranks > has.ranks)
    grows = grows and fleet.place.knows_slots
    world = planned_world(has, ranks if grows else None, oversubscribe, fleet)
    if before is not None and not is_news(store, before, world.size):
        return None, fleet
    check_allowed(store, ClusterWish(cluster, True, world.size, world.oversubscribe, fleet=fleet))
    return world, fleet


def ask_stop(store: Store, name: str | None, cluster: str) -> Run:
    """Request that a run stops, unless it has ended; return it as it was before.

    Args:
        name: Its name or id; None for the current run of ``cluster``.

    Raises:
        StateError: There is no such run.
    """
    unfinished = store.list_unfinished(cluster)
    if not name and not unfinished:
        raise StateError(
            f"No run of cluster {cluster!r} is active", "list earlier runs with `workbench runs`."
        )
    run = store.run(name, active=True) if name else unfinished[0]
    if not run.fact.state.ended:
        store.wish_stop(run.id)
        keep_awake(store, run.wish.cluster)
    return run


def stop_line(run: Run) -> str:
    """Return the result of a stop request, for the run that ``ask_stop`` returned."""
    name, state = run.wish.name, run.fact.state
    if state.ended:
        return f"Run {name!r} had ended already ({state})."
    return f"Asked run {name!r} to stop."


def script_source(path: str) -> tuple[str, str]:
    """Return a script's absolute path and text.

    Raises:
        InputError: It cannot be read, or does not compile.
    """
    absolute = Path(path).expanduser().absolute()
    try:
        with tokenize.open(absolute) as file:  # respects a byte order mark and a coding line
            source = file.read()
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8 or as its first line says"
        raise InputError(f"The script {absolute} cannot be read ({reason}).") from error
    check_source(source, str(absolute))
    return str(absolute), source


def module_source(name: str) -> tuple[str, str, str]:
    """Return the path, the text and the full name of a module, as ``python -m`` finds it.

    Nothing is imported: a package is run as its ``__main__``.

    Raises:
        InputError: There is none, or it is no Python.
    """
    places: list[str] | None = [os.getcwd(), *sys.path]
    spec, known = None, ""
    for part in name.split("."):
        known = f"{known}.{part}" if known else part
        # By its last name: a folder without __init__ would ask for its parent among the imported.
        spec = PathFinder.find_spec(part, places) if places is not None else None
        if spec is None:
            raise InputError(f"There is no module {known!r} in {os.getcwd()} or in this Python.")
        found = spec.submodule_search_locations
        places = None if found is None else [*found]
    if places is not None:
        return module_source(f"{name}.__main__")
    if spec is None or not (spec.origin or "").endswith(".py"):
        raise InputError(f"The module {name!r} is not written in Python", "name another one.")
    return (*script_source(spec.origin or ""), name)


def script_of(words: Sequence[str], *, is_module: bool = False) -> tuple[str, str, str]:
    """Return the path and the text of what was named, and its full name if it is a module.

    Args:
        words: The script or module, and its arguments.

    Raises:
        InputError: It cannot be run; or it is another launcher, whose line is said in our words.
    """
    if is_module:
        return module_source(words[0])
    if is_launcher(words[0]):
        raise InputError(same_here(words))
    return (*script_source(words[0]), "")


def stray_sentence(words: Sequence[str], source: str, ours: Collection[str]) -> str:
    """Return one sentence on an option of ours after the script, which gets it; usually empty.

    Args:
        words: The script, and its arguments.
        source: The script's text; an option that it names is its own.
        ours: The names of our options.
    """
    for word in words[1:]:
        option = word.partition("=")[0]
        if option.startswith("--") and option in ours and option not in source:
            return (
                f"{option} is after {words[0]}, so the script gets it; workbench's own options are "
                "before the script."
            )
    return ""


def check_source(source: str, where: str, *, awaits: bool = False) -> None:
    """Raise an error for Python that does not compile, before anything is started.

    Args:
        awaits: Whether ``await`` is allowed outside of functions, as in a cell.

    Raises:
        InputError: With the line and Python's message.
    """
    try:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if awaits else 0
        compile(source, where, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        text = "".join(source.split("\n")[line - 1 : line]).strip() if line else ""
        place = f"{where}, line {line}: " if line else f"{where}: "
        reason = getattr(error, "msg", None) or str(error)
        shown = f": {text!r}" if text else ""
        raise InputError(f"{place}{reason}{shown}", "nothing was started.") from error


def new_run_id(now: float) -> str:
    """Return an id that sorts by time and is unique over machines."""
    moment = time.strftime("%y%m%d-%H%M%S", time.gmtime(now))
    return (
        f"{moment}-{''.join(secrets.choice('abcdefghijklmnopqrstuvwxyz234567') for _ in range(4))}"
    )


def ask_measurement(
    store: Store, *, cluster: str = DEFAULT_CLUSTER, rating: float | None = None
) -> RunWish:
    """Queue a measurement on all ranks of ``cluster``, which is started if necessary.

    Args:
        rating: Rated Gbit/s of a node's network; None for what its type sustains, or else what was
            requested.

    Raises:
        InputError: The rating is not valid.
    """
    if rating is not None and not rating > 0:
        raise InputError(f"The rating must be more than 0 Gbit/s, not {rating:g}", "try 10.")
    wish = store.cluster_wish(cluster)
    nodes = store.fleets.nodes(cluster)
    if rating is None:
        known = [node.network for node in nodes if node.network]
        rating = min(known, default=wish.fleet.needs.network if wish else 0.0)
    flow = min((node.flow for node in nodes if node.flow), default=0.0)
    source = wish.fleet.data if wish else ""
    return ask_run(
        store,
        RunOptions(parameters=(("rating", rating), ("flow", flow), ("source", source))),
        kind=RunKind.MEASUREMENT,
        source="",
        cluster=cluster,
        name=MEASUREMENT,
    )


def origin_here(store: Store, cluster: str, folder: str, module: str = "") -> Origin:
    """Return where this process requests a run.

    Args:
        folder: The run's folder.
        module: The module that the script is.
    """
    environment, remarks = _variables(store, cluster).travelling()
    return Origin(notebook_here(), commit_of(folder), environment, remarks, module)


def commit_of(folder: str) -> str:
    """Return the commit that a folder is at; empty without git, or where it does not answer."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        found = subprocess.run(
            ["git", "-C", folder, "rev-parse", "--verify", "--quiet", "HEAD"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, **quiet},
            timeout=GIT_SECONDS,
            check=True,
            text=True,
        )
        return found.stdout.strip()[:COMMIT_CHARACTERS]
    return ""


def _variables(store: Store, cluster: str) -> Variables:
    wish, fact = store.cluster_wish(cluster), store.cluster_fact(cluster)
    is_elsewhere = wish is not None and wish.fleet.place.has_nodes
    pid = supervisor_pid(cluster)
    started = _read_environment(pid) if pid else {}
    ranks: Mapping[str, str] = {}
    if fact.ranks and not is_elsewhere:
        for rank in store.ranks(cluster, fact.generation)[:1]:
            ranks = _read_environment(rank.pid)
    if WORLD_VARIABLE not in ranks:  # another process has that id now
        ranks = {}
    return Variables({**os.environ}, started or None, ranks, is_elsewhere)


def _read_environment(pid: int) -> dict[str, str]:
    """Return the variables that a process was started with; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        text = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes())
        pairs = (entry.partition("=") for entry in text.split("\0") if "=" in entry)
        return {name: value for name, _, value in pairs}
    return {}
