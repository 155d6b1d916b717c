"""Check a cell, submit a run from the notebook, and show it below the cell."""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from workbench.analysis.network import network_sentence
from workbench.core.cluster.model import ClusterState, ClusterWish
from workbench.core.option import check_known
from workbench.core.options.table import spellings_of, variables
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.run_options import REPLAY_VARIABLE, REPLAYS, RunOptions
from workbench.errors import (
    ClusterError,
    InputError,
    Interrupted,
    PriceQuestion,
    StateError,
    WorkbenchError,
)
from workbench.notebook.cell_output import CellDisplay, NotebookDisplay, page_for, paragraph, say
from workbench.notebook.handle import RunHandle, watch
from workbench.notebook.kernel import KernelControl, kernel_advice
from workbench.notebook.live_widget import choose_form
from workbench.notebook.run_view import RunView
from workbench.requests.cluster import is_released
from workbench.requests.resume import ask_resume, check_kept
from workbench.requests.run import ask_run, check_source, script_of, stray_sentence
from workbench.store import Store
from workbench.view.attempts import output_before
from workbench.view.cluster_changes import start_sentence
from workbench.view.following import Interrupts, check_success, follow
from workbench.view.run_record import runs_before

LOOK_SECONDS = 1.0
_PLACE = "idle"
_lines: dict[str, IdleLine] = {}


class IdleLine(threading.Thread):
    """Follows a cluster until its nodes are given back.

    Args:
        page_of: Returns a new output area, for each time that it is announced.
    """

    def __init__(self, cluster: str, page_of: Callable[[], CellDisplay] = NotebookDisplay) -> None:
        super().__init__(name=f"workbench idle line of {cluster}", daemon=True)
        self._cluster = cluster
        self._page_of = page_of
        self._page: CellDisplay | None = None
        self._said = ""
        self._over = threading.Event()

    def run(self) -> None:
        """Look at the store, which may be gone by then."""
        with contextlib.suppress(WorkbenchError), Store() as store:
            while self.look(store) and not self._over.wait(LOOK_SECONDS):
                pass

    def close(self) -> None:
        """End it; what it says stays."""
        self._over.set()

    def look(self, store: Store) -> bool:
        """Show the present sentence; return false once there is no other to come."""
        wish, fact = store.cluster_wish(self._cluster), store.cluster_fact(self._cluster)
        if wish is None or not (wish.up and wish.fleet.idle):
            return False
        is_over = is_released(wish, fact) and not store.list_unfinished(self._cluster)
        said = fact.message if fact.releases or is_over else ""
        if said == self._said:
            return not (is_over and not store.fleets.nodes(self._cluster))
        if self._page is None or not self._said:
            self._page = self._page_of()
        self._said = said
        self._page.show(_PLACE, paragraph(said), final=True)
        return True


def begin_line(store: Store, cluster: str) -> None:
    """Announce below the last cell of this kernel that nodes are given back, if they ever are."""
    wish = store.cluster_wish(cluster)
    if wish is None or not (wish.fleet.idle and wish.fleet.place.has_nodes):
        return
    if former := _lines.get(cluster):
        former.close()
    _lines[cluster] = IdleLine(cluster)
    _lines[cluster].start()


T = TypeVar("T")
RUNS_LOOKED_AT = 20  # before a cell, for the last one on its ranks


def train(
    shell: Any,
    options: argparse.Namespace,
    kind: RunKind,
    source: str,
    path: str = "",
    arguments: tuple[str, ...] = (),
    module: str = "",
) -> RunHandle | None:
    """Queue a run and follow it below the cell, or in the background."""
    choose_form()  # reports a wrong setting before anything is started
    with Store() as store, KernelControl(shell).interrupts() as interrupts:
        before, is_up = wish_before(store, options.cluster)
        if replay := options.replay or os.environ.get(REPLAY_VARIABLE):
            options.replay = check_known(replay, REPLAYS, "replay")
        chosen = RunOptions(arguments=arguments, environment=variables(vars(options)))
        ask = partial(
            ask_run,
            store,
            chosen.changed(vars(options)),
            kind=kind,
            source=source,
            path=path,
            cluster=options.cluster,
            name=options.name,
            oversubscribe=options.oversubscribe,
            module=module,
        )
        wish = agree_again(store, options.cluster, ask)
        say_start(store, options.cluster, before, is_up)
        return show(shell, store, wish, interrupts, is_left=options.background)


def resume(
    shell: Any,
    options: argparse.Namespace,
    source: str | None = None,
    path: str | None = None,
    arguments: tuple[str, ...] | None = None,
    module: str | None = None,
) -> RunHandle | None:
    """Let a run that has ended continue, and follow it; what is not given stays as it was."""
    choose_form()  # reports a wrong setting before anything is started
    # Without an option the cluster is the one that was named last, and not one of the run's.
    check_kept({name: value for name, value in vars(options).items() if name != "cluster"})
    with Store() as store, KernelControl(shell).interrupts() as interrupts:
        cluster = store.run(options.resume).wish.cluster
        before, is_up = wish_before(store, cluster)
        wish = ask_resume(
            store,
            options.resume,
            {**vars(options), "arguments": arguments},
            source=source,
            path=path,
            oversubscribe=options.oversubscribe,
            from_here=True,
            module=module,
        )
        say_start(store, cluster, before, is_up)
        return show(shell, store, wish, interrupts, is_left=options.background)


def show(
    shell: Any, store: Store, wish: RunWish, interrupts: Interrupts, *, is_left: bool
) -> RunHandle | None:
    """Follow a run that was queued below the cell, or in the background."""
    for remark in (*wish.origin.remarks, network_sentence(store, wish.cluster)):
        say(remark)
    say(other_notebook(store, wish))
    say_wait(store, wish)
    if is_left:
        if isinstance(page := page_for(shell), NotebookDisplay):
            begin_line(store, wish.cluster)
        watch(wish.id, page)
        if interrupts.count:
            raise Interrupted(f"Run {wish.name!r} continues in the background.")
        return RunHandle(wish.id, wish.name)
    attend(shell, store, wish, interrupts)
    return None


def train_script(shell: Any, options: argparse.Namespace, script: list[str]) -> RunHandle | None:
    """Queue a script with its arguments."""
    if options.resume and not script:
        return resume(shell, options)
    if not script:
        raise InputError("%dist_train needs a script, as in %dist_train train.py --epoch 3.")
    path, source, module = script_of(script, is_module=options.is_module)
    arguments = tuple(script[1:])
    if stray := stray_sentence(script, source, spellings_of("%dist_train")):
        say(stray)
    if options.resume:
        return resume(shell, options, source, path, arguments, module)
    return train(shell, options, RunKind.SCRIPT, source, path, arguments, module)


def set_up(shell: Any, cluster: str, name: str, source: str) -> None:
    """Run a set-up cell on every rank now, and in each new generation."""
    with Store() as store, KernelControl(shell).interrupts() as interrupts:
        before, is_up = wish_before(store, cluster)
        ask = partial(
            ask_run,
            store,
            kind=RunKind.SETUP,
            source=source,
            cluster=cluster,
            name=f"set-up {name}",
            setup=name,
        )
        wish = agree_again(store, cluster, ask)
        say_start(store, cluster, before, is_up)
        say_wait(store, wish)
        if attend(shell, store, wish, interrupts) is RunState.FINISHED:
            replaced = name in dict(store.setups(cluster))
            store.put_setup(cluster, name, source)
            verb = "replaced" if replaced else "kept"
            say(f"Set-up {name!r} is {verb}; it runs again whenever ranks are restarted.")


def agree_again(store: Store, cluster: str, ask: Callable[..., T]) -> T:
    """Queue a run, once the person has agreed to what nodes cost now that were given back.

    Args:
        ask: As for ``agree``.

    Raises:
        StateError: Likewise.
    """
    wish = store.cluster_wish(cluster)
    nodes = wish.fleet.nodes if wish else 0
    first = f"`workbench resize --nodes {nodes} --cluster {cluster} --yes`"
    return agree(ask, f"answer y, or start the nodes first with {first}.")


def agree(ask: Callable[..., T], remedy: str, *, yes: bool = False) -> T:
    """Request what may cost more than was confirmed, once the person has agreed to its price.

    Args:
        ask: Requests it, and takes the price as ``agreed``.
        remedy: What to do where the answer is no.
        yes: Whether the person has agreed to any price.

    Raises:
        StateError: The answer is no, or the notebook's page cannot ask.
    """
    try:
        return ask()
    except PriceQuestion as question:
        say(str(question))
        if not (yes or _answers_yes()):
            raise StateError("Not confirmed, so nothing was started", remedy) from None
        return ask(agreed=question.price)


def _answers_yes() -> bool:
    try:
        return input("Start? [y/N]: ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt, NotImplementedError, OSError):  # or no one can answer
        return False


def attend(shell: Any, store: Store, wish: RunWish, interrupts: Interrupts) -> RunState:
    """Follow a run below the cell until it has ended, with a message if it was stopped.

    Raises:
        ClusterError: The run could not begin.
        Interrupted: The user interrupted; after two interrupts the run may continue.
        RunFailed: A rank failed, or the run was lost.
    """
    control, page = KernelControl(shell), page_for(shell)
    if isinstance(page, NotebookDisplay):
        begin_line(store, wish.cluster)
    view = RunView(store.run(wish.id), page, after=output_before(store, wish.id))
    try:
        run = follow(store, view, interrupts=interrupts, left=control.is_ending)
    except ClusterError as error:
        view.give_up(error)
        raise
    except KeyboardInterrupt:
        store.wish_stop(wish.id)
        raise Interrupted(
            f"Stopping run {wish.name!r} in the background; follow it with %dist_status."
        ) from None
    check_success(run, shown=view.shows_error, advice=kernel_advice(run))
    is_stopped = run.fact.state is RunState.STOPPED
    said = f"{wish.name}: stopped at iteration {run.fact.iteration:,}."
    if interrupts.count and not control.is_ending():
        raise Interrupted(said if is_stopped else f"{wish.name}: {run.fact.state}.")
    if is_stopped:
        say(said)
    return run.fact.state


def wish_before(store: Store, cluster: str) -> tuple[ClusterWish | None, bool]:
    """Return the desired state of ``cluster``, and whether it is up or starting."""
    state = store.cluster_fact(cluster).state
    is_up = state not in (ClusterState.DOWN, ClusterState.FAILED)
    return store.cluster_wish(cluster), is_up


def say_start(store: Store, cluster: str, before: ClusterWish | None, is_up: bool) -> None:
    """Print that the cluster is being started, unless it was up already."""
    wish = store.cluster_wish(cluster)
    if is_up or wish is None:
        return
    say(start_sentence(before, wish))
    for other in store.clusters():
        if other.up and other.name != cluster:
            say(f"Cluster {other.name!r} is up; use it with %dist_cluster --cluster {other.name}.")


def say_wait(store: Store, wish: RunWish) -> None:
    """Print which earlier run is active, perhaps of another kernel, and how to stop it."""
    before = runs_before(store.run(wish.id), store.list_unfinished(wish.cluster))
    # Repeated set-up cells are short, and not the user's present request.
    names = [run.wish.name for run in before if not run.wish.kind.prepares]
    if names:
        say(
            f"Run {names[0]!r} is still active, and this one waits for it. To stop that "
            "one, use its Stop in Training Clusters, or interrupt this cell and type %dist_stop."
        )


def other_notebook(store: Store, wish: RunWish) -> str:
    """Return one sentence if the last cell on these ranks came from another notebook.

    Ranks have one namespace: a cluster is shared on purpose, with a shell as with ``%%px``.
    """
    here, fact = wish.origin.notebook, store.cluster_fact(wish.cluster)
    if wish.kind is not RunKind.CELL or not here or not fact.ranks:
        return ""
    cells = (
        run
        for run in store.runs(wish.cluster, limit=RUNS_LOOKED_AT)
        if run.wish.kind is RunKind.CELL and run.id != wish.id
    )
    last = next(cells, None)
    if last is None or last.fact.generation != fact.generation:
        return ""  # these ranks are newer than its variables
    there = last.wish.origin.notebook
    if there in ("", here):
        return ""
    name = Path(there).name if Path(there).name != Path(here).name else there
    return (
        f"These ranks also hold the variables of {name}, whose cell ran last; for ranks of its own "
        "give this notebook another cluster (%dist_cluster --cluster NAME)."
    )


def check_cell(shell: Any, cell: str, magic: str) -> str:
    """Check a cell and return its text unchanged, as the engines get it.

    Args:
        shell: The IPython shell, which transforms ``!command`` and ``%magic``.
        magic: The name of the cell magic, for the message.

    Raises:
        InputError: The cell is empty or is not Python; nothing was started.
    """
    if not cell.strip():
        raise InputError(f"The cell below {magic} is empty", "nothing was started.")
    try:
        transformed = shell.transform_cell(cell)
    except SyntaxError:
        transformed = cell
    # The magic is the cell's first line, so line numbers count from there.
    check_source("\n" + transformed, "The cell", awaits=True)
    return cell
