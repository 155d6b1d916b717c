"""Ask before more is paid, and go on with a yes only."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import ipywidgets as widgets

from workbench.notebook.fields import button, row


class Agreement:
    """Shows what something would cost, with a button for yes and one for no."""

    def __init__(self) -> None:
        self._on_yes: Callable[[], None] | None = None
        self.shown = widgets.HTML()
        self.yes = button("Yes, at that price", "Have as many nodes", "check", "warning")
        self.no = button("No", "Leave all as it is")
        self.yes.on_click(lambda _: self._answer(True))
        self.no.on_click(lambda _: self._answer(False))
        self.widget = widgets.VBox([self.shown, row(self.yes, self.no)])
        self.widget.layout.display = "none"

    def ask(self, sentence: str, on_yes: Callable[[], None]) -> None:
        """Show the sentence; a question before this one counts as answered with no."""
        self._on_yes = on_yes
        self.shown.value = f'<p role="alert">{escape(sentence)}</p>'
        self.widget.layout.display = None

    def _answer(self, is_yes: bool) -> None:
        on_yes, self._on_yes = self._on_yes, None
        self.widget.layout.display = "none"
        if is_yes and on_yes is not None:
            on_yes()
