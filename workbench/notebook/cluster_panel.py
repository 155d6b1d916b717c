"""Size a cluster with the mouse: the same wish as the magics', and the facts beside it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import ipywidgets as widgets

from workbench.core.cluster import ClusterFact, ClusterState, ClusterWish
from workbench.core.world import MAX_RANKS
from workbench.errors import WorkbenchError
from workbench.notebook.page import paragraph
from workbench.notebook.status import status_line
from workbench.store import Store
from workbench.store.wishes import ask_cluster, ask_down, local_slots

REFRESH_SECONDS = 0.5

_panels: dict[str, ClusterPanel] = {}


@dataclass(frozen=True)
class Buttons:
    """Which buttons make sense."""

    start: bool
    resize: bool
    stop: bool


def sensible(wish: ClusterWish | None, fact: ClusterFact, ranks: int) -> Buttons:
    """Return the buttons that make sense.

    Args:
        ranks: The number that stands in the box.
    """
    wanted = wish is not None and wish.up
    there = fact.state is not ClusterState.DOWN
    resizable = wanted and fact.state in (ClusterState.READY, ClusterState.RESIZING)
    return Buttons(
        start=not wanted or fact.state in (ClusterState.DOWN, ClusterState.FAILED),
        resize=resizable and wish is not None and ranks != wish.ranks,
        stop=wanted or (there and fact.state is not ClusterState.STOPPING),
    )


class ClusterPanel:
    """One cluster as widgets, with text and HTML for a page that cannot show them.

    Args:
        cluster: The cluster's name.
    """

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._seen = -1
        self._said = ""
        self._over = threading.Event()
        self._build()

    def __repr__(self) -> str:
        return f"<ClusterPanel {self._line()}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        shown = self.widget._repr_mimebundle_() or {}
        return {**shown, **paragraph(self._line(), "Where: this machine. Price: free.")}

    def refresh(self, store: Store) -> None:
        """Show what the store says."""
        wish, fact = store.cluster_wish(self.cluster), store.cluster_fact(self.cluster)
        buttons = sensible(wish, fact, self.ranks.value)
        self.start.disabled = not buttons.start
        self.resize.disabled = not buttons.resize
        self.stop.disabled = not buttons.stop
        asked = wish.ranks if wish and wish.up else 0
        self.state.value = f"<b>{escape(str(fact.state))}</b>, {fact.ranks} of {asked} ranks"
        if fact.message != self._said:
            self._said = fact.message
            self.message.value = escape(fact.message)

    def begin(self) -> None:
        """Refresh by and by, from a thread, until ``close``."""
        threading.Thread(
            target=self._keep_fresh, name=f"workbench panel of {self.cluster}", daemon=True
        ).start()

    def close(self) -> None:
        """Refresh no longer, and take the widgets off the page."""
        self._over.set()
        self.widget.close()

    def _build(self) -> None:
        with Store() as store:
            wish = store.cluster_wish(self.cluster)
        slots = local_slots()
        oversubscribe = bool(wish and wish.oversubscribe) or slots < 2
        self.where = widgets.Dropdown(options=["This machine"], description="Where")
        self.ranks = widgets.BoundedIntText(
            value=wish.ranks if wish else max(2, slots),
            min=1,
            max=MAX_RANKS if oversubscribe else slots,
            description="Ranks",
            tooltip=f"This machine has {slots} slots",
        )
        self.oversubscribe = widgets.Checkbox(
            value=oversubscribe, description=f"More ranks than its {slots} slots", indent=False
        )
        self.state = widgets.HTML(description="State")
        self.price = widgets.HTML(value="free", description="Price")
        self.message = widgets.HTML()
        self.start = self._button("Start", "play", "success", self._on_start)
        self.resize = self._button("Resize", "arrows-h", "", self._on_start)
        self.stop = self._button("Stop", "stop", "danger", self._on_stop)
        self.ranks.observe(self._on_edit, "value")
        self.oversubscribe.observe(self._on_oversubscribe, "value")
        self.widget = widgets.VBox(
            [
                widgets.HBox([self.where, self.price]),
                widgets.HBox([self.ranks, self.oversubscribe]),
                self.state,
                widgets.HBox([self.start, self.resize, self.stop]),
                self.message,
            ]
        )
        with Store() as store:
            self.refresh(store)

    def _button(self, text: str, icon: str, style: str, act: Callable[[Any], None]) -> Any:
        button = widgets.Button(description=text, icon=icon, button_style=style)
        button.on_click(act)
        return button

    def _on_start(self, _: Any) -> None:
        asked = f"Asked for {self.ranks.value} ranks."
        self._ask(
            lambda store: ask_cluster(
                store,
                self.ranks.value,
                cluster=self.cluster,
                oversubscribe=self.oversubscribe.value,
            ),
            asked,
        )

    def _on_stop(self, _: Any) -> None:
        self._ask(lambda store: ask_down(store, cluster=self.cluster), "Asked the cluster to stop.")

    def _ask(self, act: Callable[[Store], object], said: str) -> None:
        try:
            with Store() as store:
                act(store)
                self.message.value = said
                self.refresh(store)
        except WorkbenchError as error:
            self.message.value = escape(str(error))

    def _on_edit(self, _: Any) -> None:
        with Store() as store:
            self.refresh(store)

    def _on_oversubscribe(self, _: Any) -> None:
        self.ranks.max = MAX_RANKS if self.oversubscribe.value else local_slots()

    def _keep_fresh(self) -> None:
        # The store may go away under an idle panel; the next click says so, this thread need not.
        with contextlib.suppress(WorkbenchError), Store() as store:
            while not self._over.wait(REFRESH_SECONDS):
                version = store.data_version()
                if version != self._seen:
                    self._seen = version
                    self.refresh(store)

    def _line(self) -> str:
        with Store() as store:
            return status_line(store, self.cluster)


def panel_for(cluster: str) -> ClusterPanel:
    """Return a panel of ``cluster``, which takes the place of the one shown before."""
    former = _panels.pop(cluster, None)
    if former:
        former.close()
    panel = _panels[cluster] = ClusterPanel(cluster)
    panel.begin()
    return panel


def close_all() -> None:
    """Close every panel of this process."""
    while _panels:
        _panels.popitem()[1].close()
