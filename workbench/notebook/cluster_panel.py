"""A cluster's form below a cell: the form of JupyterLab's panel, whose requests the kernel answers.

The widget's module is ``extension/src/clusterwidget.tsx``. What the page shows is pushed from a
thread, so that it is followed while the kernel is busy with a cell; requests wait until then.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import json, to_builtins
from msgspec.structs import replace
from traitlets import Dict, Unicode

from workbench.core.fleet.form import SettingValue
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.provider import Provider
from workbench.errors import InputError, PriceQuestion, WorkbenchError
from workbench.notebook.cell_output import paragraph
from workbench.notebook.live_widget import open_widget
from workbench.notebook.run_listing import cluster_status, status_line
from workbench.store import Store
from workbench.surfaces import in_notebook

MODULE = Path(__file__).parent / "static" / "cluster_widget.js"
REFRESH_SECONDS = 0.5
CLOCK_SECONDS = 10.0
_panels: dict[str, ClusterPanel] = {}

Background = Callable[[Callable[[], None]], None]


def in_background(work: Callable[[], None]) -> None:
    """Run ``work`` in a daemon thread."""
    threading.Thread(target=work, name="workbench request", daemon=True).start()


class ClusterPanel:
    """The form of one cluster, with text and HTML for a page without widgets.

    Args:
        cluster: The cluster's name.
        background: Runs a page's request, which may be slow, in a thread.
    """

    def __init__(self, cluster: str, background: Background = in_background) -> None:
        self.cluster = cluster
        self._background = background
        self._seen, self._followed, self._drawn = -1, -1, 0.0
        self._over, self._drawing = threading.Event(), threading.Lock()
        self._widget = None
        if MODULE.is_file():
            self._widget = open_widget(
                MODULE, cluster=Unicode(cluster), clusters=Dict(), form=Dict()
            )
            self._widget.on_msg(self._hear)
        self.refresh_now()

    def __repr__(self) -> str:
        with Store() as store:
            return f"<ClusterPanel {status_line(store, self.cluster)}>"

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        # Colab finds the widget's code by the metadata.
        shown = self._widget._repr_mimebundle_() if self._widget is not None else None
        data, metadata = shown if isinstance(shown, tuple) else (shown or {}, {})
        with Store() as store:
            wish = store.cluster_wish(self.cluster)
            if wish is None or not wish.fleet.place.has_nodes:
                line = status_line(store, self.cluster)
                return {**data, **paragraph(line, "Provider: this machine.")}, metadata
            return {**data, **cluster_status(store, self.cluster)}, metadata

    def refresh(self, store: Store) -> None:
        """Show the state in the store."""
        from workbench.pages.nodes_form import form_message
        from workbench.pages.operations import clusters

        if self._widget is None:
            return
        with self._drawing:
            wish = store.cluster_wish(self.cluster)
            if (revision := wish.revision if wish else 0) != self._followed:
                self._followed = revision
                self._widget.form = to_builtins(form_message(store, self.cluster))
            self._widget.clusters = to_builtins(clusters(store, self.cluster))

    def begin(self) -> None:
        """Refresh periodically from a thread, until ``close``."""
        threading.Thread(
            target=self._keep_fresh, name=f"workbench panel of {self.cluster}", daemon=True
        ).start()

    def close(self) -> None:
        """Stop refreshing, and remove the widget from the page."""
        self._over.set()
        if self._widget is not None:
            self._widget.close()

    def refresh_now(self) -> None:
        """Show the state in the store; called in any thread."""
        with contextlib.suppress(WorkbenchError), Store() as store:
            self.refresh(store)

    def start_nodes(
        self, place: Provider, nodes: int, settings: Mapping[str, SettingValue] | None = None
    ) -> None:
        """Start this number of nodes that cost nothing, as if asked for in the form.

        Args:
            place: Their provider, which simulates them.
            settings: Of the provider's own; those left out are as in a new form.

        Raises:
            WorkbenchError: The number is not possible.
        """
        from workbench.pages.estimate import find_offers, start_nodes
        from workbench.pages.nodes_form import form_request, show_values

        assert not place.is_paid
        with Store() as store:
            wish = store.cluster_wish(self.cluster)
            # Of a deleted cluster, the values have not been shown to the user.
            fleet = wish.fleet if wish and wish.up and wish.fleet.place is place else None
            before = form_request(fleet or FleetWish(place.name), time.time())
            own = show_values(place.fields, settings or {})
            form = replace(before, nodes=nodes, values={**before.values, **own})
            found = find_offers(store, self.cluster, form)
            start_nodes(store, self.cluster, form, found.price)
        self.refresh_now()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a page's request, which has the form of one to the server.

        Args:
            asked: ``method``, ``path`` and ``body``; the page's own ``id`` is returned.
        """
        from workbench.pages.operations import ROUTES
        from workbench.pages.requests import Request, read_body

        path = "/".join(map(str, asked["path"]))
        try:
            for route in ROUTES:
                found = re.fullmatch(route.path, path)
                if found is None or route.method != asked["method"]:
                    continue
                given: list[Any] = [*found.groups()]
                if route.request is not Request:
                    given.append(read_body(route.request, json.encode(asked.get("body") or {})))
                with Store() as store:
                    answer = to_builtins(route.operation(store, *given))
                return {"id": asked["id"], "answer": answer}
            raise InputError(f"There is no request {asked['method']} {path}.")
        except WorkbenchError as error:
            price = error.price if isinstance(error, PriceQuestion) else None
            refusal = {"message": in_notebook(str(error)), "price": price}
            return {"id": asked["id"], "refusal": refusal}

    def _hear(self, _: Any, content: dict[str, Any], buffers: list[bytes]) -> None:
        assert self._widget is not None
        self._widget.send({"id": content["id"], "is_heard": True})

        def work() -> None:
            answer = self.answer(content)
            self.refresh_now()
            if self._widget is not None and not self._over.is_set():
                self._widget.send(answer)

        self._background(work)

    def _keep_fresh(self) -> None:
        # The store may disappear under an idle panel; the next click reports it.
        with contextlib.suppress(WorkbenchError), Store() as store:
            while not self._over.wait(REFRESH_SECONDS):
                version, now = store.data_version(), time.monotonic()
                if version != self._seen or now - self._drawn > CLOCK_SECONDS:
                    self._seen, self._drawn = version, now
                    self.refresh(store)


def panel_for(cluster: str) -> ClusterPanel:
    """Return a panel of ``cluster``, which replaces the previous one."""
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
