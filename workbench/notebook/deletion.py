"""Ask before everything of a cluster is deleted, and say afterwards what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import ipywidgets as widgets

from workbench.core.fleet import Leftover, Place
from workbench.notebook.fields import button, row
from workbench.view.nodes import Fleet
from workbench.view.phrases import count, dollars, hourly, moment


class DeleteQuestion:
    """Says what goes, and does it on a yes only.

    Args:
        on_yes: Called with nothing.
    """

    def __init__(self, on_yes: Callable[[], None]) -> None:
        self._on_yes = on_yes
        self.shown = widgets.HTML()
        self.yes = button("Yes, delete everything", "It cannot be undone", "trash", "danger")
        self.no = button("No", "Leave all as it is")
        self.yes.on_click(lambda _: self._answer(True))
        self.no.on_click(lambda _: self._answer(False))
        self.widget = widgets.VBox([self.shown, row(self.yes, self.no)])
        self.widget.layout.display = "none"

    def ask(self, fleet: Fleet, runs: Sequence[str]) -> None:
        """Show what would go."""
        self.shown.value = f'<p role="alert">{escape(what_goes(fleet, runs))}</p>'
        self.widget.layout.display = None

    def _answer(self, is_yes: bool) -> None:
        self.widget.layout.display = "none"
        if is_yes:
            self._on_yes()


def what_goes(fleet: Fleet, runs: Sequence[str]) -> str:
    """Return what is deleted, and what it cost.

    Args:
        runs: Names of those that are unfinished.
    """
    nodes = len(fleet.nodes)
    if fleet.wish.fleet.place is Place.HOSTS:
        what = f"The ranks on {count(nodes, 'host')} end; the hosts themselves stay on."
    else:
        what = f"{count(nodes, 'node')} and all that belongs to them are deleted."
    if fleet.bill:
        what += f" They cost {hourly(fleet.bill.price)} now, {dollars(fleet.bill.spent)} so far."
    stopped = f" Unfinished runs are stopped: {', '.join(runs)}." if runs else ""
    return f"{what}{stopped} What runs have reported is kept."


def proof(cluster: str, place: Place, left: Sequence[Leftover], now: float) -> str:
    """Return what was found when the place was asked for what bears the cluster's tags."""
    where = "the rehearsal" if place is Place.FAKE else "EC2"
    if not left:
        return (
            f"Nothing that bears the tags of cluster {cluster!r} is left; "
            f"{where} was asked at {moment(now)}."
        )
    things = ", ".join(f"{one.kind} {one.id}" for one in left)
    price = sum(one.price for one in left)
    return (
        f"Still there of cluster {cluster!r}{f', at {hourly(price)}' if price else ''}: {things}. "
        f"It goes as soon as {where} lets it; `workbench sweep-leaks` deletes what stays."
    )
