"""Remove all that workbench keeps of one user on this machine."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import click
from IPython.paths import get_ipython_dir

from workbench.cli.consent import confirm
from workbench.cli.terminal import show_wait
from workbench.core.cluster.model import ClusterState
from workbench.core.units import count, size_text
from workbench.errors import MachineError
from workbench.requests.cluster import ask_down, store_to_leave
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store
from workbench.store.paths import home_path
from workbench.view.cluster_changes import gone_sentence, wait_down

MOST_TRIES = 10
PROFILE = "profile_workbench"  # what `cluster/profile.py` writes for plain ipyparallel


def uninstall(yes: bool) -> None:
    """Delete every cluster, then the data directory and the profile of ipyparallel.

    A cluster that cannot be deleted keeps the data directory, which has the keys of its nodes.
    """
    home, profile = home_path(), Path(get_ipython_dir()) / PROFILE
    if home.exists():
        with store_to_leave() as store:
            names = _list_clusters(store)
            click.echo(_what_goes(store, home, names))
            confirm("Delete all of it?", "nothing was deleted", yes=yes)
            for name in names:
                _delete_cluster(store, name)
    for folder in (home, profile):
        if folder.exists():
            _remove(folder)
    click.echo(
        "Nothing of workbench is left here but the package: `python -m pip uninstall "
        "dist-workbench` removes it with its page for JupyterLab."
    )


def _list_clusters(store: Store) -> list[str]:
    """Return the clusters that are up, or are not fully deleted yet."""
    wishes = store.clusters()
    return [
        one.name
        for one in wishes
        if one.up
        or store.cluster_fact(one.name).state is not ClusterState.DOWN
        or supervisor_is_awake(one.name)
    ]


def _what_goes(store: Store, home: Path, names: list[str]) -> str:
    clusters = f"{count(len(names), 'cluster')} ({', '.join(names)})" if names else "no cluster"
    size = size_text(store.removal.usage().nbytes)
    return (
        f"This deletes {clusters}, and {home} with all runs and their snapshots there, {size}. "
        "What workbench has put into folders and buckets that you named, on your own hosts and as "
        "images of nodes is kept."
    )


def _delete_cluster(store: Store, name: str) -> None:
    ask_down(store, cluster=name)
    wish = store.cluster_wish(name)
    assert wish is not None
    with show_wait(f"Deleting cluster {name!r}", lines=wish.fleet.place.has_nodes) as say:
        spent = wait_down(store, name, say)
    click.echo(gone_sentence(wish, spent))


def _remove(folder: Path) -> None:
    """Remove a folder in which processes that end may still remove files, such as the store's."""
    tries = 0
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            tries += 1
            if error.errno in (errno.ENOENT, errno.ENOTEMPTY) and tries < MOST_TRIES:
                continue
            raise MachineError(
                f"{error.filename or folder} cannot be removed ({error.strerror})",
                "correct its permissions, and repeat the command.",
            ) from error
