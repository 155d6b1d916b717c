"""Ask for ranks on this machine."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from workbench.core.cluster import ClusterWish
from workbench.core.fleet import FleetWish, Place
from workbench.core.world import MAX_RANKS


class LocalForm:
    """How many ranks, and whether they may share cores.

    Args:
        wish: What was asked for before.
        slots: Of this machine.
    """

    place = Place.LOCAL

    def __init__(self, wish: ClusterWish | None, slots: int) -> None:
        here = wish if wish and wish.fleet.place is Place.LOCAL else None
        oversubscribe = bool(here and here.oversubscribe) or slots < 2
        self._slots = slots
        self.ranks = widgets.BoundedIntText(
            value=here.ranks if here else max(2, slots),
            min=1,
            max=MAX_RANKS if oversubscribe else slots,
            description="Ranks",
            tooltip=f"This machine has {slots} slots",
        )
        self.oversubscribe = widgets.Checkbox(
            value=oversubscribe, description=f"More ranks than its {slots} slots", indent=False
        )
        self.oversubscribe.observe(self._on_oversubscribe, "value")
        self.widget = widgets.HBox([self.ranks, self.oversubscribe])

    def wish(self, nodes: int, least: int, most: int, now: float) -> FleetWish:
        """Return this machine, whatever was said of nodes."""
        return FleetWish()

    def show(self, wish: FleetWish, now: float) -> None:
        """Do nothing: the ranks were there from the beginning."""

    def _on_oversubscribe(self, _: Any) -> None:
        self.ranks.max = MAX_RANKS if self.oversubscribe.value else self._slots
