"""The form for ranks on this machine."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish
from workbench.core.world.world import MAX_RANKS
from workbench.notebook.forms.form_fields import STYLE, row


class LocalForm:
    """The number of ranks, and whether they may share cores.

    Args:
        wish: What was asked for before.
        slots: Of this machine.
        usual: Ranks that a new cluster has.
    """

    def __init__(self, wish: ClusterWish | None, slots: int, usual: int) -> None:
        here = wish if wish and not wish.fleet.place.has_nodes else None
        oversubscribe = bool(here and here.oversubscribe) or slots < usual
        self._slots = slots
        self.ranks = widgets.BoundedIntText(
            value=here.ranks if here else usual,
            min=1,
            max=MAX_RANKS if oversubscribe else slots,
            description="Ranks",
            tooltip=f"This machine has {slots} slots",
            continuous_update=True,
            style=STYLE,
        )
        self.oversubscribe = widgets.Checkbox(
            value=oversubscribe,
            description=f"Allow more ranks than the {slots} slots",
            indent=False,
        )
        self.oversubscribe.observe(self._on_oversubscribe, "value")
        self.widget = row(self.ranks, self.oversubscribe)

    def wish(self, nodes: int, min_nodes: int, max_nodes: int, now: float) -> FleetWish:
        """Return None: this machine has no other nodes."""
        return FleetWish()

    def show(self, wish: FleetWish, now: float) -> None:
        """Do nothing: the number of ranks is set at the start."""

    def _on_oversubscribe(self, _: Any) -> None:
        self.ranks.max = MAX_RANKS if self.oversubscribe.value else self._slots
