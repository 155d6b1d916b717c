"""What pages ask for: the operations, called in threads with a store, and their routes.

The server answers them over REST, and a kernel those of a widget.

Modules that read curves or draw are loaded at first use, so that Jupyter's server starts quickly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from workbench import __version__
from workbench.core.cluster.model import ClusterWish, ResizeAt, check_cluster_name
from workbench.core.cluster.size import Size
from workbench.core.run.model import Run, RunFact, RunKind
from workbench.core.world.world import MAX_RANKS
from workbench.errors import StateError, Unknown
from workbench.pages.estimate import estimate_form, find_offers, start_nodes
from workbench.pages.nodes_form import ask_keys, form_message, prove_gone, read_hosts
from workbench.pages.protocol import (
    AboutMessage,
    ClusterMessage,
    ClustersMessage,
    ListedSweepMessage,
    RemovedMessage,
    RunMessage,
    RunsMessage,
    StoppedMessage,
    SurveyMessage,
    SweepMessage,
    SweepsMessage,
)
from workbench.pages.requests import (
    CurvesQuery,
    ExtensionRequest,
    FormRequest,
    HostFileRequest,
    KeysRequest,
    ProofRequest,
    Request,
    RunsQuery,
    SizeRequest,
    check_run_id,
)
from workbench.requests.cluster import (
    ask_cluster,
    ask_down,
    ask_extension,
    ask_keep,
    ask_size,
    known_wish,
    local_slots,
    remove_cluster,
    usual_ranks,
)
from workbench.store import Store

if TYPE_CHECKING:
    from workbench.view.sweep_record import SweepRecord

CLUSTER = "clusters/([^/]+)"
RUN = "runs/([^/]+)"
SWEEP = "sweeps/([^/]+)"
_MOST_SWEEPS = 20
_BUNDLES = 8  # of some 100 kB each


def clusters(store: Store, only: str = "") -> ClustersMessage:
    """Return all clusters, and how many ranks this machine carries and usually gets.

    Args:
        only: The name of the one to return; empty for all.
    """
    names = [wish.name for wish in store.clusters() if only in ("", wish.name)]
    return ClustersMessage(
        clusters=tuple(_cluster(store, name) for name in names),
        slots=local_slots(),
        usual_ranks=usual_ranks(),
        max_ranks=MAX_RANKS,
        version=__version__,
    )


def bring_up(store: Store, name: str, asked: SizeRequest) -> ClusterMessage:
    """Request that a cluster is up, and return it."""
    if asked.form is not None:
        start_nodes(store, name, asked.form, asked.agreed)
    elif asked.ranks is None and asked.nodes is None:
        ask_cluster(store, cluster=name, oversubscribe=asked.oversubscribe)
    else:
        _ask_size(store, name, asked)
    return _cluster(store, name)


def resize(store: Store, name: str, asked: SizeRequest) -> ClusterMessage:
    """Request another size of a cluster that is up, and return it."""
    if not _wish(store, name).up:
        raise Unknown(f"Cluster {name!r} is not up", "start it first.")
    _ask_size(store, name, asked)
    return _cluster(store, name)


def extend(store: Store, name: str, asked: ExtensionRequest) -> ClusterMessage:
    """Request that the time to live of a cluster is extended, and return the cluster."""
    ask_extension(store, asked.seconds, cluster=name, now=time.time())
    return _cluster(store, name)


def keep(store: Store, name: str) -> ClusterMessage:
    """Keep the nodes of a cluster that has nothing to do, and return the cluster."""
    ask_keep(store, cluster=name, now=time.time())
    return _cluster(store, name)


def take_down(store: Store, name: str) -> ClusterMessage:
    """Request that a cluster is deleted, and return it."""
    check_cluster_name(name)
    ask_down(store, cluster=name)
    return _cluster(store, name)


def remove(store: Store, name: str) -> RemovedMessage:
    """Remove a deleted cluster from all lists, and return its name."""
    remove_cluster(store, cluster=name)
    return RemovedMessage(removed=name)


def stop_all(store: Store, name: str) -> StoppedMessage:
    """Request that all runs of a cluster stop."""
    from workbench.requests.supervisor import keep_awake

    _wish(store, name)
    stopped = store.list_unfinished(name)
    for run in stopped:
        store.wish_stop(run.id)
    if stopped:
        keep_awake(store, name)
    return StoppedMessage(stopped=tuple(run.wish.name for run in stopped))


def measure(store: Store, name: str) -> RunMessage:
    """Request a measurement of a cluster's links, and return its run or the active one.

    Raises:
        StateError: The cluster is not up (starting it may cost money), or the active measurement is
            being cancelled.
        Unknown: There is no such cluster.
    """
    from workbench.pages.messages import full_run_message

    if not _wish(store, name).up:
        raise StateError(f"Cluster {name!r} is not up, so it cannot be measured", "start it first.")
    return full_run_message(store, _begin_measurement(store, name), time.time())


def _begin_measurement(store: Store, cluster: str) -> Run:
    from workbench.requests.run import ask_measurement
    from workbench.requests.supervisor import keep_awake

    on = [run for run in store.list_unfinished(cluster) if run.wish.kind is RunKind.MEASUREMENT]
    if on and on[0].wish.stop:
        raise StateError(
            f"The last measurement of {cluster!r} is being cancelled", "try again soon."
        )
    if on:
        return on[0]
    asked = ask_measurement(store, cluster=cluster)
    keep_awake(store, cluster)
    return store.run(asked.id)


def runs(store: Store, asked: RunsQuery) -> RunsMessage:
    """Return the newest runs."""
    from workbench.pages.messages import listed_runs

    if asked.cluster is not None:
        check_cluster_name(asked.cluster)
    return RunsMessage(runs=listed_runs(store, asked.cluster, asked.limit, time.time()))


def sweeps(store: Store) -> SweepsMessage:
    """Return the newest sweeps."""
    from workbench.view.sweep_record import read_sweep

    found = (read_sweep(store, name) for name in store.sweeps.names()[:_MOST_SWEEPS])
    return SweepsMessage(sweeps=tuple(ListedSweepMessage(**_list_sweep(one)) for one in found))


def sweep(store: Store, identity: str) -> SweepMessage:
    """Return one sweep, with its trials and their picture."""
    from workbench.view.pictures.sweep_picture import draw_record
    from workbench.view.sweep_record import read_ended, read_sweep, trials_table

    record = read_ended(store, read_sweep(store, identity))
    picture, says = draw_record(store, record)
    table = trials_table(record)
    return SweepMessage(
        **_list_sweep(record),
        lines=tuple(record.lines),
        headers=table.headers,
        rows=table.rows,
        picture=picture,
        says=says,
    )


def _list_sweep(record: SweepRecord) -> dict[str, Any]:
    return {
        "id": record.sweep.id,
        "name": record.sweep.name,
        "progress": record.fact.over or record.progress,
        "is_over": bool(record.fact.over),
    }


def run(store: Store, identity: str) -> RunMessage:
    """Return one run."""
    from workbench.analysis.step_breakdown import read_breakdown
    from workbench.pages.messages import full_run_message

    found = _run(store, identity)
    now = time.time()
    return full_run_message(store, found, now, read_breakdown(store, found, now=now))


def about(store: Store, identity: str) -> AboutMessage:
    """Return what a run is made of, with its source."""
    from workbench.view.about_run import about_rows

    found = _run(store, identity)
    parts = {part: text for part, text in about_rows(found).items() if text}
    return AboutMessage(parts=parts, source=found.wish.source)


def survey(store: Store, identity: str) -> SurveyMessage:
    """Return the results of a run that measured its cluster.

    Raises:
        Unknown: The run has no results, or none yet.
    """
    from workbench.view.tables.survey import survey_message

    found = _run(store, identity)
    measured = store.surveys.of_run(found.id)
    if measured is None:
        raise Unknown(
            f"Run {found.wish.name!r} has measured nothing", "ask again once it has ended."
        )
    return survey_message(store, found, measured, time.time())


def stop(store: Store, identity: str) -> RunMessage:
    """Request that a run stops, and return it."""
    from workbench.requests.run import ask_stop

    found = _run(store, identity)
    ask_stop(store, found.id, found.wish.cluster)
    return run(store, identity)


def resume(store: Store, identity: str) -> RunMessage:
    """Request that a run which has ended continues from its newest snapshot, and return it.

    Raises:
        StateError: It has not ended, or has no snapshot.
    """
    from workbench.requests.resume import ask_resume

    found = _run(store, identity)
    ask_resume(store, found.id)
    return run(store, identity)


def bundle(store: Store, identity: str) -> msgspec.Raw:
    """Return the part of a run that a saved notebook keeps, as JSON."""
    found = _run(store, identity)
    if not found.fact.state.ended:
        raise StateError(
            f"Run {found.wish.name!r} is {found.fact.state}", "try again after it has ended."
        )
    return _build_bundle(store.path, found.fact)


def curves(store: Store, identity: str, asked: CurvesQuery) -> bytes:
    """Return a frame of the curves between two iterations."""
    from workbench.pages.feed import Feed

    feed = Feed(store, _run(store, identity).id)
    return feed.detail(asked.first, asked.last, asked.buckets)


@lru_cache(maxsize=_BUNDLES)
def _build_bundle(path: Path, fact: RunFact) -> msgspec.Raw:
    """Read and draw once for all pages, which ask at the same time when a run ends."""
    from workbench.view.run_output import kept_bundle

    with Store(path) as store:
        kept = kept_bundle(store, store.run(fact.id), time.time())
    return msgspec.Raw(msgspec.json.encode(kept, enc_hook=str))  # of HTML, which is text


def _ask_size(store: Store, name: str, asked: SizeRequest) -> None:
    ask_size(
        store,
        Size(asked.ranks, asked.nodes),
        cluster=name,
        oversubscribe=asked.oversubscribe,
        across_zones=asked.across_zones,
        at=ResizeAt(asked.at),
        agreed=asked.agreed,
    )


def _cluster(store: Store, name: str) -> ClusterMessage:
    from workbench.pages.messages import cluster_message

    return cluster_message(store, name, time.time())


def _wish(store: Store, name: str) -> ClusterWish:
    return known_wish(store, check_cluster_name(name))


def _run(store: Store, identity: str) -> Run:
    """Return a run by its id only, since names can be reused."""
    found = store.run(check_run_id(identity))
    if found.id != identity:
        raise Unknown(f"No run has the id {identity!r} in {store.path}.")
    return found


class Route(NamedTuple):
    """What is done for one method of one path.

    Args:
        path: A regular expression; its group is passed to the operation.
        operation: Called in a thread with a store, the group, and the request unless that is empty.
            Bytes are sent as they are, all else as JSON.
        request: What the page sends: of GET the query, else the body.
        draws: Whether it draws a picture.
    """

    method: str
    path: str
    operation: Callable[..., Any]
    request: type[Request] = Request
    draws: bool = False


ROUTES = (
    Route("GET", "clusters", clusters),
    Route("PUT", CLUSTER, bring_up, SizeRequest),
    Route("PATCH", CLUSTER, resize, SizeRequest),
    Route("DELETE", CLUSTER, take_down),
    Route("POST", f"{CLUSTER}/stop", stop_all),
    Route("POST", f"{CLUSTER}/remove", remove),
    Route("POST", f"{CLUSTER}/extend", extend, ExtensionRequest),
    Route("POST", f"{CLUSTER}/keep", keep),
    Route("POST", f"{CLUSTER}/measure", measure),
    Route("GET", f"{CLUSTER}/form", form_message),
    Route("POST", f"{CLUSTER}/offers", find_offers, FormRequest),
    Route("POST", f"{CLUSTER}/estimate", estimate_form, FormRequest),
    Route("POST", f"{CLUSTER}/keys", ask_keys, KeysRequest),
    Route("POST", f"{CLUSTER}/proof", prove_gone, ProofRequest),
    Route("POST", "hosts", read_hosts, HostFileRequest),
    Route("GET", "runs", runs, RunsQuery),
    Route("GET", "sweeps", sweeps),
    Route("GET", SWEEP, sweep, draws=True),
    Route("GET", RUN, run),
    Route("POST", f"{RUN}/stop", stop),
    Route("POST", f"{RUN}/resume", resume),
    Route("GET", f"{RUN}/about", about),
    Route("GET", f"{RUN}/survey", survey, draws=True),
    Route("GET", f"{RUN}/bundle", bundle, draws=True),
    Route("GET", f"{RUN}/curves", curves, CurvesQuery),
)
