"""Say below the last cell that the nodes of its cluster are given back soon."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from workbench.errors import WorkbenchError
from workbench.notebook.cell_output import CellDisplay, NotebookDisplay, paragraph
from workbench.requests.cluster import is_released
from workbench.store import Store

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
