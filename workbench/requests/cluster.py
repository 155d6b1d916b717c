"""Request that a cluster is started, resized, extended or deleted.

The shell, magics, the widget and the page all use these functions, so that a command, a cell and a
button do the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path

from workbench.core.cluster.limits import Holding, check_limits, read_limits
from workbench.core.cluster.model import (
    DEFAULT_CLUSTER,
    THIS_MACHINE,
    ClusterFact,
    ClusterState,
    ClusterWish,
    ResizeAt,
    check_cluster_name,
    shown_state,
)
from workbench.core.cluster.size import Size, resize_wish
from workbench.core.cluster.spending import (
    AddedSpending,
    check_time_left,
    growth,
    needs_confirmation,
)
from workbench.core.cluster.target_world import wished_world
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.cost import ring_price
from workbench.core.fleet.fallbacks import dearest, purchase
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.request import check_fleet
from workbench.core.node.staging import check_folder_name, is_bucket, parse_bucket
from workbench.core.recovery.departure import check_epochs
from workbench.core.run.metrics import EXCHANGE_PREFIX
from workbench.core.run.model import Run, RunState
from workbench.core.world.world import Host, World
from workbench.errors import (
    CloudError,
    InputError,
    MachineError,
    PriceQuestion,
    StateError,
    Unknown,
)
from workbench.requests.cloud_queries import CloudMarket, ask_permissions, query_market
from workbench.requests.supervisor import wake_supervisor
from workbench.store.disk import with_reserve
from workbench.store.paths import FILE_NAME, account_name, home_directory
from workbench.store.store import Store

LIMITS_VARIABLE = "WORKBENCH_LIMITS"
_BUSY = (RunState.SUBMITTED, RunState.RUNNING)
MOST_RUNS = 5  # looked at for one that was measured


def local_slots() -> int:
    """Return how many ranks this machine runs without oversubscription."""
    return len(os.sched_getaffinity(0))


def local_gpus() -> int:
    """Return the number of this machine's GPUs that CUDA may use, without asking the driver."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    named = [name for name in os.listdir("/dev") if name.startswith("nvidia")]
    there = sum(name.removeprefix("nvidia").isdecimal() for name in named)
    if visible is None:
        return there
    wanted = [one.strip() for one in visible.split(",")]
    return min(there, len([*takewhile(lambda one: one not in ("", "-1"), wanted)]))


def usual_ranks() -> int:
    """Return how many ranks a cluster of this machine begins with.

    One per GPU, where CuPy or PyTorch for CUDA is installed; otherwise one per slot, and at least
    two.
    """
    if gpus := local_gpus():
        from workbench.requests.environment import has_cuda_here  # which reads all packages

        if has_cuda_here():
            return gpus
    return max(2, local_slots())


def local_hosts() -> tuple[Host, ...]:
    """Return this machine as the only host."""
    return (Host("localhost", local_slots()),)


def ask_cluster(
    store: Store,
    ranks: int | None = None,
    *,
    cluster: str = DEFAULT_CLUSTER,
    oversubscribe: bool = False,
    fleet: FleetWish | None = None,
) -> ClusterWish:
    """Request that ``cluster`` is up with ``ranks`` ranks (default: unchanged, else usual).

    Args:
        fleet: Its nodes; None for the present ones, else this machine.

    Raises:
        InputError: The size, the nodes or the name is not valid.
        StateError: Its nodes are of another provider, or it has expired.
        MachineError: No supervisor could be started.
    """
    check_cluster_name(cluster)
    before = store.cluster_wish(cluster)
    has = present_wish(before)
    if fleet is not None:
        fleet = check_fleet(check_places(fleet, has))
    elif before is not None:
        check_time_left(before, store.cluster_fact(cluster), time.time())
    fleet = fleet or (has.fleet if has else THIS_MACHINE)
    check_place(store, before, fleet)
    is_same = has is not None and has.fleet == replace(fleet, asked=has.fleet.asked)
    if ranks is None and fleet.place.has_nodes and not is_same:
        ranks = 0
    world = planned_world(has, ranks, oversubscribe, fleet)
    wish = ClusterWish(cluster, True, world.size, world.oversubscribe, fleet=fleet)
    return _request(store, before, wish)


def ask_size(
    store: Store,
    size: Size,
    *,
    cluster: str = DEFAULT_CLUSTER,
    oversubscribe: bool = False,
    across_zones: bool = False,
    at: ResizeAt = ResizeAt.STEP,
    agreed: float | None = None,
    market: Callable[[FleetWish], CloudMarket] = query_market,
) -> ClusterWish:
    """Request another size; a higher price needs a confirmation.

    Args:
        oversubscribe: Whether ranks may share cores.
        across_zones: Whether nodes may be added in other zones from now on.
        at: When a run that trains moves there; a later request replaces it.
        agreed: Confirmed $/h of all nodes; None without a question.
        market: Returns the offers for a fleet.

    Raises:
        InputError: The number is not possible, no offer fits, or the run has no epochs.
        Unknown: There is no such cluster, so it has no nodes.
        PriceQuestion: It costs more than was confirmed.
        StateError: It exceeds the max price or the budget, the nodes are not up, or the time to
            live is over.
        CloudError: The provider does not answer, or not to us.
    """
    before = store.cluster_wish(check_cluster_name(cluster))
    if before is not None:
        check_time_left(before, store.cluster_fact(cluster), time.time())
    if before is None or not before.up:
        return _start_with(store, size, cluster, oversubscribe)
    wish = resize_wish(
        before, size, local_hosts(), oversubscribe=oversubscribe, across_zones=across_zones
    )
    wish = replace(wish, resize_at=at)
    if run := training_run(store, cluster):
        check_epochs(at, run.wish.name, run.fact)
    check_allowed(store, wish)
    is_back = is_released(before, store.cluster_fact(cluster)) and size.nodes is not None
    if needs_confirmation(before, wish.fleet.nodes) or (is_back and wish.fleet.place.asks_first):
        price = check_price(store, wish, agreed, market)
        fleet = dearest(replace(wish.fleet, agreed=price), price / max(1, wish.fleet.nodes))
        wish = replace(wish, fleet=fleet)
    if is_back:
        wish = replace(wish, fleet=replace(wish.fleet, asked=time.time()))
    return _request(store, before, wish)


def training_run(store: Store, cluster: str) -> Run | None:
    """Return the run that is on the ranks of a cluster, and is not asked to stop; None if none."""
    runs = (one for one in store.list_unfinished(cluster) if not one.wish.kind.prepares)
    return next((one for one in runs if one.fact.state in _BUSY and not one.wish.stop), None)


def ask_extension(
    store: Store, seconds: float, *, cluster: str = DEFAULT_CLUSTER, now: float
) -> ClusterWish:
    """Extend a cluster's time to live.

    Raises:
        InputError: The time is not valid.
        Unknown: There is no such cluster.
        StateError: It is not up, or never expires.
    """
    wish = known_wish(store, check_cluster_name(cluster))
    if seconds <= 0:
        raise InputError(f"The extension must be more than 0 seconds, not {seconds:g}", "try 4h.")
    if not wish.up:
        raise StateError(
            f"Cluster {cluster!r} is not up, so its time to live cannot be extended", "start it."
        )
    if not wish.fleet.expires:
        raise StateError(f"Cluster {cluster!r} never expires", "there is nothing to extend.")
    fleet = replace(wish.fleet, expires=max(wish.fleet.expires, now) + seconds)
    return ask_cluster(
        store, wish.ranks, cluster=cluster, oversubscribe=wish.oversubscribe, fleet=fleet
    )


def ask_keep(store: Store, *, cluster: str = DEFAULT_CLUSTER, now: float) -> ClusterWish:
    """Keep the nodes of a cluster that has nothing to do, for its idle time from now on.

    Raises:
        Unknown: There is no such cluster.
        StateError: It has no nodes that would be given back.
    """
    wish, fact = known_wish(store, check_cluster_name(cluster)), store.cluster_fact(cluster)
    if not (wish.up and wish.fleet.idle and wish.fleet.nodes):
        raise StateError(f"Cluster {cluster!r} has no nodes that are given back", "leave it so.")
    if fact.released > wish.fleet.asked:
        raise StateError(
            f"The nodes of cluster {cluster!r} are given back already",
            "the next run starts them again, or "
            f"`workbench resize --nodes {wish.fleet.nodes} --cluster {cluster}`.",
        )
    return _request(store, wish, replace(wish, fleet=replace(wish.fleet, asked=now)))


def is_released(wish: ClusterWish, fact: ClusterFact) -> bool:
    """Return whether a cluster has given its nodes back, for the next run to start them again."""
    return wish.up and fact.released > wish.fleet.asked


def ask_down(store: Store, *, cluster: str = DEFAULT_CLUSTER) -> None:
    """Request that ``cluster`` is deleted; its unfinished runs are stopped.

    This works on a full disk too.

    Raises:
        Unknown: There is no such cluster.
    """
    wish = known_wish(store, cluster, "nothing was deleted.")
    gone = partial(
        store.wish_cluster,
        cluster,
        up=False,
        ranks=wish.ranks,
        oversubscribe=wish.oversubscribe,
    )
    with_reserve(store.path, gone)
    if store.cluster_fact(cluster).state != "down":
        wake_supervisor(cluster)


def remove_cluster(store: Store, *, cluster: str = DEFAULT_CLUSTER) -> None:
    """Remove a deleted cluster from all lists; its runs are kept.

    Raises:
        Unknown: There is no such cluster.
        StateError: It is not deleted.
    """
    wish = known_wish(store, check_cluster_name(cluster), "nothing was deleted.")
    if not with_reserve(store.path, partial(store.forget_cluster, cluster)):
        state = shown_state(wish, store.cluster_fact(cluster))
        raise StateError(f"Cluster {cluster!r} is {state}, not deleted", "delete it first.")


def is_deleted(store: Store, cluster: str) -> bool:
    """Whether ``cluster`` is listed but deleted, with nothing left."""
    wish = store.cluster_wish(cluster)
    is_down = store.cluster_fact(cluster).state is ClusterState.DOWN
    return wish is not None and not wish.up and is_down


def store_to_leave() -> Store:
    """Open the store for a deletion, on a full disk too.

    Raises:
        MachineError: It cannot be opened.
    """
    return with_reserve(home_directory() / FILE_NAME, Store)


def check_place(store: Store, before: ClusterWish | None, fleet: FleetWish) -> None:
    """Refuse a change of provider that would leave nodes unmanaged.

    Raises:
        StateError: The cluster has another provider or region.
    """
    if before is None:
        return
    there, place = before.fleet.region, f"{before.fleet.place.located}"
    moves = before.fleet.provider != fleet.provider
    if before.up and (moves or (there and fleet.region not in ("", there))):
        where = place if moves else f"in {there}"
        raise StateError(
            f"Cluster {before.name!r} is {where}",
            "delete it first (`workbench delete`), or choose another name with --cluster.",
        )
    is_down = store.cluster_fact(before.name).state is ClusterState.DOWN
    if moves and not (is_down and not store.fleets.nodes(before.name)):
        raise StateError(
            f"Cluster {before.name!r} {place} is still being deleted",
            "try again when it is gone, or choose another name with --cluster.",
        )


def check_allowed(store: Store, wanted: ClusterWish) -> None:
    """Refuse what is over the limits in the file that ``WORKBENCH_LIMITS`` names, if any.

    Raises:
        StateError: A limit is exceeded.
        MachineError: The file cannot be used.
    """
    if not (path := os.environ.get(LIMITS_VARIABLE)):
        return
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not text in UTF-8"
        raise MachineError(
            f"The limits file {path} ({LIMITS_VARIABLE}) cannot be read ({why})",
            "nothing was started; ask your administrator to correct it.",
        ) from error
    # A hub may give all its users one account each in a container of its own, of the same name.
    user = os.environ.get("JUPYTERHUB_USER") or account_name(os.geteuid())
    held = {wish.name: Holding(wish, store.fleets.spent(wish.name)) for wish in store.clusters()}
    present = held.pop(wanted.name, Holding(replace(wanted, up=False)))
    others = [one for one in held.values() if one.wish.up]
    check_limits(
        read_limits(text, path, user), wanted, present, others, store.fleets.spent_in_all()
    )


def known_wish(store: Store, cluster: str, remedy: str = "start it first.") -> ClusterWish:
    """Return the desired state of a cluster.

    Raises:
        Unknown: There is none.
    """
    if (wish := store.cluster_wish(cluster)) is None:
        raise Unknown(f"There is no cluster {cluster!r}", remedy)
    return wish


def present_wish(before: ClusterWish | None) -> ClusterWish | None:
    """Return the desired state; of a deleted cluster only its size on this machine."""
    here = before is not None and not before.fleet.place.has_nodes
    return before if before and (before.up or here) else None


def planned_world(
    before: ClusterWish | None, ranks: int | None, oversubscribe: bool, fleet: FleetWish
) -> World:
    """Lay out ``ranks`` ranks (default: as before, else the usual number)."""
    if ranks is None:
        ranks = before.ranks if before else usual_ranks()
        shares = before.oversubscribe if before else local_slots() < ranks
        oversubscribe = oversubscribe or shares
    return wished_world(fleet, local_hosts(), ranks, oversubscribe)


def is_news(store: Store, before: ClusterWish, ranks: int) -> bool:
    """Whether ``ranks`` differs from the present number, or the cluster is deleted or failed."""
    gave_up = store.cluster_fact(before.name).state is ClusterState.FAILED
    return not before.up or before.ranks != ranks or gave_up


def _start_with(store: Store, size: Size, cluster: str, oversubscribe: bool) -> ClusterWish:
    """Start a cluster with a number of ranks; nodes are only started with their price confirmed."""
    if size.nodes is None:
        return ask_cluster(store, size.ranks, cluster=cluster, oversubscribe=oversubscribe)
    known_wish(store, cluster)
    raise StateError(f"Cluster {cluster!r} is deleted", "start a new one (`workbench up`).")


def _request(store: Store, before: ClusterWish | None, wish: ClusterWish) -> ClusterWish:
    """Write a desired state that differs from the present one, and wake the supervisor.

    Raises:
        StateError: An administrator's limit forbids it.
    """
    check_allowed(store, wish)
    is_same = before is not None and before.fleet == wish.fleet
    is_then = before is not None and before.resize_at is wish.resize_at
    if before is None or not (is_same and is_then) or is_news(store, before, wish.ranks):
        before = store.wish_cluster(
            wish.name,
            up=True,
            ranks=wish.ranks,
            oversubscribe=wish.oversubscribe,
            fleet=wish.fleet,
            resize_at=wish.resize_at,
        )
    wake_supervisor(wish.name)
    return before


def check_price(
    store: Store,
    wish: ClusterWish,
    agreed: float | None,
    market: Callable[[FleetWish], CloudMarket],
) -> float:
    """Return what the nodes of ``wish`` cost now, in $/h, if that was confirmed.

    Raises:
        CloudError: A dry run of their purchase failed.
        PriceQuestion: It was not.
    """
    offers, there = market(wish.fleet).offers, store.fleets.nodes(wish.name)
    spent, training = store.fleets.spent(wish.name), _crossing(store, wish)
    found = growth(wish, wish.fleet.nodes, offers, there, spent, training)
    if agreed is None or not found.is_within(agreed):
        raise PriceQuestion(" ".join((f"{found}.", *_find_start(wish, found))), found.price)
    return max(found.price, agreed)


def _find_start(wish: ClusterWish, added: AddedSpending) -> Iterator[str]:
    """Yield when more nodes would start, as sentences, where they are waited for in a queue."""
    if added.candidate is None or not wish.fleet.place.queues:
        return
    trial = ask_permissions(wish.fleet, purchase(wish.name, "trial", 0, added.candidate))
    for fault in (one for one in trial if one.ok is False):
        raise CloudError(fault.found, ErrorKind.CONFIGURATION, remedy=fault.remedy)
    yield from (one.found for one in trial if one.ok)


def _crossing(store: Store, wish: ClusterWish) -> float:
    """Return the $/h of traffic between zones, by the latest measured training; 0 without any."""
    for run in store.runs(wish.name, limit=MOST_RUNS):
        report = next(iter(store.reports.read_measured(run.id, EXCHANGE_PREFIX).values()), {})
        steps = store.reports.steps(run.id)
        if steps and (nbytes := report.get("nbytes", 0.0)):
            seconds = sum(sum(parts.values()) for parts in steps.values()) / len(steps)
            return ring_price(wish.fleet.place.zone_price, nbytes, seconds, len(steps) + 1)
    return 0.0


def check_data(place: str) -> str:
    """Return the checked data source: an absolute path, or ``s3://bucket/prefix`` unchanged.

    Raises:
        InputError: The folder is missing or empty, or the S3 prefix is not valid.
    """
    if is_bucket(place):
        parse_bucket(place)
        return place
    folder = _absolute(place)
    if not folder.is_dir():
        raise InputError(
            f"There is no data folder {folder}", "give an existing one, or s3://bucket/prefix."
        )
    if not any(names for _, _, names in os.walk(folder, followlinks=True)):
        raise InputError(f"The data folder {folder} is empty", "give the folder that has the data.")
    return str(folder)


def check_output(place: str) -> str:
    """Return the checked output folder: an absolute path, or ``s3://bucket/prefix`` unchanged.

    Raises:
        InputError: The folder could not be created, or the S3 prefix is not valid.
    """
    if is_bucket(place):
        parse_bucket(place)
        return place
    folder = _absolute(place)
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise InputError(
            f"The output folder {folder} cannot be written", "give another, or s3://bucket/prefix."
        )
    return str(folder)


def check_places(fleet: FleetWish, before: ClusterWish | None) -> FleetWish:
    """Return ``fleet`` with its data source and output folder checked, if they are new.

    Raises:
        InputError: One is not valid.
        StateError: The cluster's nodes have other data.
    """
    known = before.fleet if before else FleetWish()
    data, output = fleet.data, fleet.output
    if data and known.data != data:
        data = check_data(data)
    if output and known.output != output:
        output = check_output(output)
    has_nodes = before is not None and before.up and known.place.has_nodes and known.nodes
    if has_nodes and data and known.data != data:
        raise StateError(
            f"The nodes have {f'the data of {known.data}' if known.data else 'no data'}, not that "
            f"of {data}, and data is only copied when nodes start",
            "delete the cluster first.",
        )
    return replace(fleet, data=data, output=output)


def _absolute(place: str) -> Path:
    return Path(check_folder_name(place)).expanduser().absolute()
