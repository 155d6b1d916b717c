"""The confirmation of a higher price."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as widgets

from workbench.notebook.form_fields import HtmlBox, button, row, warned


class Agreement:
    """A question with the price, and buttons to confirm or cancel."""

    def __init__(self) -> None:
        self._on_yes: Callable[[], None] | None = None
        self.shown = HtmlBox()
        self.yes = button("Start at that price", "Start these nodes", "primary")
        self.no = button("Cancel", "Keep the number of nodes")
        self.yes.on_click(lambda _: self._answer(True))
        self.no.on_click(lambda _: self._answer(False))
        self.widget = widgets.VBox([self.shown, row(self.yes, self.no)])
        self.widget.layout.display = "none"

    def ask(self, sentence: str, on_yes: Callable[[], None]) -> None:
        """Show the question; an earlier question is cancelled."""
        self._on_yes = on_yes
        self.shown.value = warned(sentence)
        self.widget.layout.display = None

    def _answer(self, is_yes: bool) -> None:
        on_yes, self._on_yes = self._on_yes, None
        self.widget.layout.display = "none"
        if is_yes and on_yes is not None:
            on_yes()
