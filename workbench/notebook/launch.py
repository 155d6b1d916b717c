"""Ask for a run from the notebook, and show it as the cell wants it shown."""

from __future__ import annotations

import argparse
from typing import Any

from workbench.core.cluster import ClusterState
from workbench.core.exchangewish import exchange_environment
from workbench.core.run import RunKind, RunState, RunWish
from workbench.errors import ClusterError, InputError, StateError
from workbench.notebook.handle import RunHandle, watch
from workbench.notebook.live_widget import chosen_form
from workbench.notebook.page import page_for
from workbench.notebook.run_view import RunView
from workbench.store import Store
from workbench.store.wishes import ask_run, script_source
from workbench.view.following import check_success, follow
from workbench.view.interrupts import Interrupts
from workbench.view.nodes import PLACES


def train(
    shell: Any,
    options: argparse.Namespace,
    kind: RunKind,
    source: str,
    path: str = "",
    arguments: tuple[str, ...] = (),
) -> RunHandle | None:
    """Queue a run and follow it below the cell, or in the background."""
    chosen_form()  # refuses a wrong setting before anything is started
    with Store() as store, Interrupts() as interrupts:
        is_up = cluster_is_up(store, options.cluster)
        wish = ask_run(
            store,
            kind=kind,
            source=source,
            path=path,
            arguments=arguments,
            cluster=options.cluster,
            name=options.name,
            parameters=tuple(dict(options.parameters).items()),
            ranks=options.ranks,
            oversubscribe=options.oversubscribe,
            grace=options.grace,
            environment=exchange_environment(
                options.communicator, options.compress, double_buffering=options.double_buffering
            ),
        )
        say_start(store, options.cluster, is_up)
        if options.background:
            watch(wish.id, page_for(shell))
            return RunHandle(wish.id, wish.name)
        attend(shell, store, wish, interrupts)
    return None


def train_script(shell: Any, options: argparse.Namespace, script: list[str]) -> RunHandle | None:
    """Queue a script with its arguments."""
    if not script:
        raise InputError("%dist_train needs a script, as in %dist_train train.py --epoch 3.")
    path, source = script_source(script[0])
    return train(shell, options, RunKind.SCRIPT, source, path, tuple(script[1:]))


def set_up(shell: Any, cluster: str, name: str, source: str) -> None:
    """Run a set-up cell on every rank now, and keep it for each new generation."""
    with Store() as store, Interrupts() as interrupts:
        is_up = cluster_is_up(store, cluster)
        wish = ask_run(
            store, kind=RunKind.SETUP, source=source, cluster=cluster, name=f"set-up {name}"
        )
        say_start(store, cluster, is_up)
        if attend(shell, store, wish, interrupts) is RunState.FINISHED:
            replaced = name in dict(store.setups(cluster))
            store.put_setup(cluster, name, source)
            verb = "replaced" if replaced else "kept"
            print(f"Set-up {name!r} is {verb}; it is repeated whenever ranks start anew.")


def attend(shell: Any, store: Store, wish: RunWish, interrupts: Interrupts) -> RunState:
    """Follow a run below the cell until it has ended, and say so if it was stopped.

    Raises:
        ClusterError: The run could not begin.
        RunFailed: A rank failed, or the run was lost.
        StateError: The person interrupted twice; the run is left to itself.
    """
    view = RunView(store.run(wish.id), page_for(shell))
    try:
        run = follow(store, view, interrupts=interrupts, left=lambda: _is_ending(shell))
    except ClusterError as error:
        view.give_up(error)
        raise
    except KeyboardInterrupt:
        raise StateError(
            f"No longer following run {wish.name!r}, which is being stopped; %dist_status shows it."
        ) from None
    check_success(run)
    if run.fact.state is RunState.STOPPED:
        print(f"{wish.name}: stopped at iteration {run.fact.iteration:,}.")
    return run.fact.state


def _is_ending(shell: Any) -> bool:
    """Whether the Jupyter server has this kernel end for good, which the run is to outlive."""
    # ipykernel notes it in its control thread, and has no other word for it.
    said: Any = getattr(getattr(shell, "kernel", None), "_shutdown_message", None)
    return bool(said) and not said["content"].get("restart")


def cluster_is_up(store: Store, cluster: str) -> bool:
    """Whether there is a cluster to run on, or soon will be."""
    state = store.cluster_fact(cluster).state
    return state not in (ClusterState.DOWN, ClusterState.FAILED)


def say_start(store: Store, cluster: str, is_up: bool) -> None:
    """Say that the cluster is being started, unless it was up already."""
    wish = store.cluster_wish(cluster)
    if not is_up and wish is not None:
        print(f"Starting cluster {cluster!r} on {PLACES[wish.fleet.place]}.")
