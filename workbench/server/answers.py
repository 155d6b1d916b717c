"""What each REST call answers, and what it wishes for; called in threads, with a store.

What reads curves or draws is loaded when it is first asked for, so that a Jupyter server whose
reader never trains does not wait for it.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import __version__
from workbench.core.cluster import ClusterWish, check_cluster_name
from workbench.core.run import Run, RunFact
from workbench.core.world import MAX_RANKS
from workbench.errors import InputError, StateError, Unknown
from workbench.server.checks import run_id
from workbench.server.told import as_json
from workbench.store import Store
from workbench.store.asking import ask_longer, ask_more
from workbench.store.wishes import ask_cluster, ask_down, local_slots

if TYPE_CHECKING:
    from workbench.server.bodies import Size

Message = dict[str, Any]

_BUNDLES = 8  # of some 100 kB each


def clusters(store: Store) -> Message:
    """Return all clusters, and what this machine can carry."""
    return {
        "clusters": [_cluster(store, wish.name) for wish in store.clusters()],
        "slots": local_slots(),
        "max_ranks": MAX_RANKS,
        "version": __version__,
    }


def bring_up(store: Store, name: str, body: bytes) -> Message:
    """Wish for a cluster to be up, and return it."""
    from workbench.server.bodies import Size, body_as

    size = body_as(Size, body)
    _ask_size(store, name, size)
    return _cluster(store, name)


def resize(store: Store, name: str, body: bytes) -> Message:
    """Wish for a cluster that is up to have another size, and return it."""
    from workbench.server.bodies import Size, body_as

    size = body_as(Size, body)
    if size.ranks is None and size.nodes is None:
        raise InputError("No size was sent; say how many 'ranks' or 'nodes' there are to be.")
    if not _wish(store, name).up:
        raise Unknown(f"Cluster {name!r} is not wanted up any longer; start it first.")
    _ask_size(store, name, size)
    return _cluster(store, name)


def extend(store: Store, name: str, body: bytes) -> Message:
    """Wish for a cluster to live longer, and return it."""
    from workbench.server.bodies import Longer, body_as

    seconds = body_as(Longer, body).seconds
    ask_longer(store, seconds, cluster=name, now=time.time())
    return _cluster(store, name)


def take_down(store: Store, name: str, body: bytes) -> Message:
    """Wish for a cluster to be gone, and return it."""
    _check_empty(body)
    check_cluster_name(name)
    ask_down(store, cluster=name)
    return _cluster(store, name)


def stop_all(store: Store, name: str, body: bytes) -> Message:
    """Wish for all runs of a cluster to stop."""
    from workbench.view.care import keep_awake

    _check_empty(body)
    _wish(store, name)
    stopped = store.unfinished(name)
    for run in stopped:
        store.wish_stop(run.id)
    if stopped:
        keep_awake(store, name)
    return {"stopped": [run.wish.name for run in stopped]}


def measure(store: Store, name: str, body: bytes) -> Message:
    """Wish for the links of a cluster to be measured, and return the run that does."""
    from workbench.server import measured
    from workbench.view.messages import run_now

    _check_empty(body)
    return run_now(store, measured.ask(store, check_cluster_name(name)), time.time())


def runs(store: Store, cluster: str | None, limit: int) -> Message:
    """Return the newest runs."""
    from workbench.view.messages import listed_runs

    if cluster is not None:
        check_cluster_name(cluster)
    return {"runs": listed_runs(store, cluster, limit, time.time())}


def run(store: Store, identity: str) -> Message:
    """Return one run."""
    from workbench.view.messages import run_now

    return run_now(store, _run(store, identity), time.time())


def survey(store: Store, identity: str) -> Message:
    """Return what one run measured of its cluster."""
    from workbench.server import measured

    return measured.survey(store, _run(store, identity))


def stop(store: Store, identity: str, body: bytes) -> Message:
    """Wish for a run to stop, and return it."""
    from workbench.view.stop import ask_stop

    _check_empty(body)
    found = _run(store, identity)
    ask_stop(store, found.id, found.wish.cluster)
    return run(store, identity)


def bundle(store: Store, identity: str) -> str:
    """Return what stays of a run in a saved notebook, in JSON."""
    found = _run(store, identity)
    if not found.fact.state.ended:
        raise StateError(
            f"Run {found.wish.name!r} is {found.fact.state}; ask again once it has ended."
        )
    return _kept(store.path, found.fact)


def curves(store: Store, identity: str, first: int, last: int, buckets: int) -> bytes:
    """Return a frame of the curves between two iterations."""
    from workbench.view.feed import Feed

    return Feed(store, _run(store, identity).id).detail(first, last, buckets)


@lru_cache(maxsize=_BUNDLES)
def _kept(path: Path, fact: RunFact) -> str:
    """Read and draw once for all pages, which ask for it at the same time: when the run ends."""
    from workbench.view.kept import kept_bundle

    with Store(path) as store:
        return as_json(kept_bundle(store, store.run(fact.id), time.time()))


def notebook(body: bytes) -> str:
    """Return the path of the notebook that a page is to save."""
    from workbench.server.bodies import Notebook, body_as

    return body_as(Notebook, body).path


def _check_empty(body: bytes) -> None:
    from workbench.server.bodies import Body, body_as

    body_as(Body, body)


def _ask_size(store: Store, name: str, size: Size) -> None:
    if size.nodes is None:
        ask_cluster(store, size.ranks, cluster=name, oversubscribe=size.oversubscribe)
    elif size.ranks is not None:
        raise InputError(
            f"{size.ranks} ranks and {size.nodes} nodes were asked for; say one of them."
        )
    else:
        ask_more(store, size.nodes, cluster=name, now=time.time(), agreed=size.agreed)


def _cluster(store: Store, name: str) -> Message:
    from workbench.server.measured import last
    from workbench.view.messages import cluster_message

    return {**cluster_message(store, name, time.time()), "measured": last(store, name)}


def _wish(store: Store, name: str) -> ClusterWish:
    wish = store.cluster_wish(check_cluster_name(name))
    if wish is None:
        raise Unknown(f"There is no cluster called {name!r}; start it first.")
    return wish


def _run(store: Store, identity: str) -> Run:
    """Return a run by its id alone: names change hands, ids do not."""
    found = store.run(run_id(identity))
    if found.id != identity:
        raise Unknown(f"No run has the id {identity!r} in {store.path}.")
    return found
