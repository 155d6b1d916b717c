"""The boxes of a provider's form, made of the fields that it declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from workbench.core.fleet.form import HOUR, FieldKind, FormField, Value, form_values, option_values
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.provider import Provider
from workbench.core.fleet.request import FleetRequest, Spelling, fleet_wish
from workbench.core.world.world import Host
from workbench.notebook.forms.form_fields import amount, page, read_at_least, row, show, text, whole

_BOXES: dict[FieldKind, Callable[[FormField], Any]] = {
    FieldKind.WHOLE: lambda one: whole(one.label, int(one.usual), one.hint),
    FieldKind.NUMBER: lambda one: amount(one.label, one.usual, one.hint),
    FieldKind.TEXT: lambda one: text(one.label, one.example, one.hint),
    FieldKind.WORDS: lambda one: text(one.label, one.example, one.hint),
    FieldKind.PAGE: lambda one: page(one.label, one.example, one.hint),
    FieldKind.SWITCH: lambda one: widgets.Checkbox(
        value=False, description=one.label, tooltip=one.hint, indent=False
    ),
}


class ProviderForm:
    """The boxes of what a provider asks; some are folded at first.

    Args:
        place: The provider.
    """

    def __init__(self, place: Provider) -> None:
        self.place = place
        self.boxes = {one.name: _BOXES[one.kind](one) for one in place.form}
        self.main = [self.boxes[one.name] for one in place.form if not one.is_folded]
        self._folded = row(*(self.boxes[one.name] for one in place.form if one.is_folded))
        show(self._folded, False)
        labels = ", ".join(one.label for one in place.form if one.is_folded)
        self.more = widgets.ToggleButton(
            value=False,
            layout=widgets.Layout(width="auto"),
            description="More settings",
            tooltip=labels,
        )
        self.more.observe(lambda change: show(self._folded, change["new"]), "value")
        self.extras = widgets.VBox([row(self.more), self._folded])

    def wish_for(
        self,
        nodes: int,
        min_nodes: int,
        max_nodes: int,
        now: float,
        *,
        hosts: tuple[Host, ...] = (),
        types: tuple[str, ...] = (),
    ) -> FleetWish:
        """Return what the boxes ask for.

        Raises:
            InputError: They ask for what cannot be.
        """
        request = FleetRequest(
            provider=self.place.name,
            hosts=hosts,
            nodes=nodes,
            min_nodes=min_nodes,
            max_nodes=max_nodes or None,
            types=types or None,
            **option_values(self.place.form, self.values(), FleetRequest.__dataclass_fields__),
        )
        wish = fleet_wish(request, Spelling(self._label, str), now=now)
        assert wish is not None
        return replace(wish, starts_early=False)

    def values(self) -> dict[str, Value]:
        """Return what was entered.

        Raises:
            InputError: A number is negative.
        """
        return {
            one.name: read_at_least(self.boxes[one.name])
            if one.kind in (FieldKind.WHOLE, FieldKind.NUMBER)
            else self.boxes[one.name].value
            for one in self.place.form
        }

    def show(self, wish: FleetWish, now: float) -> None:
        """Write what was asked for into the boxes."""
        lives = round(max(0.0, wish.expires - now) / HOUR, 2) * HOUR
        wished = {**vars(wish.needs), **vars(wish), **dict(wish.settings), "ttl": lives}
        self.write(self.place.form, wished)

    def write(self, fields: tuple[FormField, ...], wished: Mapping[str, Any]) -> None:
        """Write options and settings into the boxes of some fields."""
        for name, value in form_values(fields, wished).items():
            self.boxes[name].value = value

    def observe(self, changed: Any, boxes: Iterable[Any] = ()) -> None:
        """Call ``changed`` when one of the unfolded boxes, or of these, changes."""
        for box in (*self.main, *boxes):
            box.observe(changed, "value")

    def _label(self, name: str) -> str:
        labels = {one.name: one.label for one in self.place.form}
        return labels.get(name, name.replace("_", " "))
