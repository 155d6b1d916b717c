"""Ask for a run from the notebook, and show it as the cell wants it shown."""

from __future__ import annotations

import argparse
from typing import Any

from workbench.core.cluster import ClusterState, check_cluster_name
from workbench.core.run import Run, RunKind, RunWish
from workbench.errors import InputError, StateError
from workbench.notebook.following import conclude, follow
from workbench.notebook.handle import RunHandle, watch
from workbench.notebook.interrupts import Interrupts
from workbench.notebook.page import page_for
from workbench.notebook.run_view import RunView
from workbench.store import Store
from workbench.store.wishes import ask_run, script_source


def train(
    shell: Any,
    options: argparse.Namespace,
    kind: RunKind,
    source: str,
    path: str = "",
    arguments: tuple[str, ...] = (),
) -> RunHandle | None:
    """Queue a run and follow it below the cell, or in the background."""
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
        )
        say_start(options.cluster, is_up)
        if options.background:
            watch(wish.id, page_for(shell))
            return RunHandle(wish.id, wish.name)
        conclude(attend(shell, store, wish, interrupts))
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
        say_start(cluster, is_up)
        run = attend(shell, store, wish, interrupts)
        conclude(run)
        if run.fact.state == "finished":
            replaced = name in dict(store.setups(cluster))
            store.put_setup(cluster, name, source)
            verb = "replaced" if replaced else "kept"
            print(f"Set-up {name!r} is {verb}; it is repeated whenever ranks start anew.")


def attend(shell: Any, store: Store, wish: RunWish, interrupts: Interrupts) -> Run:
    """Follow a run below the cell until it has ended.

    Raises:
        StateError: The person interrupted twice; the run is left to itself.
    """
    view = RunView(store.run(wish.id), page_for(shell))
    try:
        return follow(store, view, interrupts=interrupts)
    except KeyboardInterrupt:
        raise StateError(
            f"No longer following run {wish.name!r}, which is being stopped; %dist_status shows it."
        ) from None


def cluster_is_up(store: Store, cluster: str) -> bool:
    """Whether there is a cluster to run on, or soon will be."""
    state = store.cluster_fact(check_cluster_name(cluster)).state
    return state not in (ClusterState.DOWN, ClusterState.FAILED)


def say_start(cluster: str, is_up: bool) -> None:
    """Say that the cluster is being started, unless it was up already."""
    if not is_up:
        print(f"Starting cluster {cluster!r} on this machine.")
