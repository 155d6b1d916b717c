"""Wait below a cell until a cluster is ready or deleted."""

from __future__ import annotations

import time
from collections.abc import Callable

from workbench.errors import StateError
from workbench.notebook.cell_output import CellDisplay, paragraph
from workbench.store import Store
from workbench.view.readiness import gone_sentence, ready_sentence, wait_down, wait_ready

_PLACE = "standing"


def await_ready(cluster: str, page: CellDisplay) -> None:
    """Wait until ``cluster`` is ready; its state is shown meanwhile.

    Raises:
        ClusterError: It failed.
        StateError: It was deleted meanwhile, or the user interrupted.
    """
    began = time.monotonic()
    with Store() as store:
        _leave_at_interrupt(cluster, lambda: wait_ready(store, cluster, _shown(page)))
        sentence = ready_sentence(store, cluster, time.monotonic() - began)
    page.show(_PLACE, paragraph(sentence), final=True)


def await_gone(cluster: str, page: CellDisplay) -> None:
    """Wait until ``cluster`` is gone, and show the provider's confirmation.

    Raises:
        ClusterError: Something is left.
        StateError: It was started again meanwhile, or the user interrupted.
    """
    with Store() as store:
        wish = store.cluster_wish(cluster)
        assert wish is not None
        spent = [0.0]
        _leave_at_interrupt(cluster, lambda: spent.append(wait_down(store, cluster, _shown(page))))
    page.show(_PLACE, paragraph(gone_sentence(wish, spent[-1])), final=True)


def _shown(page: CellDisplay) -> Callable[[str], None]:
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
            f"Cluster {cluster!r} continues in the background; %dist_status shows its state."
        ) from None
