"""Resize or measure a cluster, check its hosts, and wait for it, from a magic."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from workbench.core.cluster.size import Size
from workbench.core.fleet.model import NodeState
from workbench.core.node.findings import Finding
from workbench.errors import Interrupted
from workbench.notebook.cell_output import CellDisplay, paragraph
from workbench.notebook.kernel import KernelControl
from workbench.notebook.run_request import agree, attend, say_start, say_wait, wish_before
from workbench.requests.cloud_queries import ask_host_doctor
from workbench.requests.cluster import ask_size
from workbench.requests.run import ask_measurement
from workbench.store import Store
from workbench.view.cluster_changes import (
    gone_sentence,
    ready_sentence,
    resize_effect,
    wait_down,
    wait_ready,
)

_PLACE = "standing"


def resize(chosen: Namespace) -> str:
    """Request the given size, and show the present one.

    Raises:
        InputError: No size was typed, or two.
        StateError: It costs more, and is not confirmed.
    """
    size, cluster = Size(chosen.ranks, chosen.nodes), chosen.cluster
    with Store() as store:
        has = store.cluster_fact(cluster).ranks
        effect = resize_effect(store, cluster, chosen.at, size.nodes)
        ask = partial(
            ask_size,
            store,
            size,
            cluster=cluster,
            oversubscribe=chosen.oversubscribe,
            across_zones=chosen.across_zones,
            at=chosen.at,
        )
        agree(ask, "answer y, or add --yes.", yes=chosen.yes)
        if size.nodes is not None:
            has = sum(node.state is NodeState.JOINED for node in store.fleets.nodes(cluster))
    said = f"Resizing cluster {cluster!r} to {size}; it has {has} now."
    return f"{said} {effect}" if effect else said


def hosts_findings(cluster: str) -> Sequence[Finding]:
    """Return the problems of the user's own hosts as one cluster; none for other providers."""
    with Store() as store:
        wish = store.cluster_wish(cluster)
    if wish is None or not wish.fleet.place.lists_hosts:
        return ()
    return ask_host_doctor(wish.fleet.hosts, cluster)


def measure(shell: Any, cluster: str, rating: float | None) -> None:
    """Measure, and show the results; an interrupt stops between two steps."""
    with Store() as store, KernelControl(shell).interrupts() as interrupts:
        before, is_up = wish_before(store, cluster)
        wish = ask_measurement(store, cluster=cluster, rating=rating)
        say_start(store, cluster, before, is_up)
        say_wait(store, wish)
        attend(shell, store, wish, interrupts)


def await_ready(cluster: str, page: CellDisplay) -> None:
    """Wait until ``cluster`` is ready; its state is shown meanwhile.

    Raises:
        ClusterError: It failed.
        Interrupted: The user interrupted.
        StateError: It was deleted meanwhile.
    """
    began = time.monotonic()
    with Store() as store:
        _leave_at_interrupt(cluster, lambda: wait_ready(store, cluster, _show_changes(page)))
        sentence = ready_sentence(store, cluster, time.monotonic() - began)
    page.show(_PLACE, paragraph(sentence), final=True)


def await_gone(cluster: str, page: CellDisplay) -> None:
    """Wait until ``cluster`` is gone, and show the provider's confirmation.

    Raises:
        ClusterError: Something is left.
        Interrupted: The user interrupted.
        StateError: It was started again meanwhile.
    """
    with Store() as store:
        wish = store.cluster_wish(cluster)
        assert wish is not None
        spent = [0.0]
        _leave_at_interrupt(
            cluster, lambda: spent.append(wait_down(store, cluster, _show_changes(page)))
        )
    page.show(_PLACE, paragraph(gone_sentence(wish, spent[-1])), final=True)


def _show_changes(page: CellDisplay) -> Callable[[str], None]:
    said = ""

    def show(state: str) -> None:
        nonlocal said
        if state != said:
            said = state
            page.show(_PLACE, paragraph(f"{state[:1].upper()}{state[1:]}."))

    return show


def _leave_at_interrupt(cluster: str, wait: Callable[[], object]) -> None:
    try:
        wait()
    except KeyboardInterrupt:
        raise Interrupted(
            f"Cluster {cluster!r} continues in the background; %dist_status shows its state."
        ) from None
