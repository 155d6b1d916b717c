"""Wait below a cell until a cluster is as it was asked to be, or gone."""

from __future__ import annotations

import time
from collections.abc import Callable

from workbench.errors import StateError
from workbench.notebook.page import Page, paragraph
from workbench.store import Store
from workbench.view.readiness import gone_sentence, ready_sentence, wait_down, wait_ready

_PLACE = "standing"


def await_ready(cluster: str, page: Page) -> None:
    """Wait until ``cluster`` has what was asked for; where it stands is shown meanwhile.

    Raises:
        ClusterError: It failed.
        StateError: Somebody took it down meanwhile, or the person interrupted.
    """
    began = time.monotonic()
    with Store() as store:
        _leave_at_interrupt(cluster, lambda: wait_ready(store, cluster, _shown(page)))
        sentence = ready_sentence(store, cluster, time.monotonic() - began)
    page.show(_PLACE, paragraph(sentence), final=True)


def await_gone(cluster: str, page: Page) -> None:
    """Wait until nothing of ``cluster`` is left, and show that its place says so too.

    Raises:
        ClusterError: Something is left.
        StateError: Somebody started it meanwhile, or the person interrupted.
    """
    with Store() as store:
        wish = store.cluster_wish(cluster)
        assert wish is not None
        spent = [0.0]
        _leave_at_interrupt(cluster, lambda: spent.append(wait_down(store, cluster, _shown(page))))
    page.show(_PLACE, paragraph(gone_sentence(wish, spent[-1])), final=True)


def _shown(page: Page) -> Callable[[str], None]:
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
        raise StateError(
            f"Cluster {cluster!r} goes on without you; %dist_status shows where it stands."
        ) from None
