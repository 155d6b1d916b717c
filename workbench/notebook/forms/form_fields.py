"""Labelled boxes for numbers and text, whose errors are sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets
import traitlets

from workbench.errors import InputError
from workbench.surfaces import in_notebook
from workbench.view.html import Html, element, sentence, words

STYLE = {"description_width": "11em"}


def whole(label: str, value: int, tip: str) -> Any:
    """Return a box for a whole number."""
    return widgets.IntText(value=value, description=label, tooltip=tip, style=STYLE)


def size(label: str, value: int, tip: str) -> Any:
    """Return a box for a whole number that reports changes while typing."""
    box = whole(label, value, tip)
    box.continuous_update = True  # so that typed text is not overwritten
    return box


def amount(label: str, value: float, tip: str) -> Any:
    """Return a box for a number."""
    return widgets.FloatText(value=value, description=label, tooltip=tip, style=STYLE)


def text(label: str, hint: str, tip: str) -> Any:
    """Return a box for text."""
    return widgets.Text(description=label, placeholder=hint, tooltip=tip, style=STYLE)


def page(label: str, hint: str, tip: str) -> Any:
    """Return a box for several lines."""
    return widgets.Textarea(
        description=label,
        placeholder=hint,
        tooltip=tip,
        rows=4,
        style=STYLE,
        layout=widgets.Layout(width="32em"),
    )


def button(label: str, tip: str, style: str = "") -> Any:
    """Return a button."""
    return widgets.Button(
        description=label,
        tooltip=tip,
        button_style=style,
        layout=widgets.Layout(width="auto"),
    )


def row(*children: Any) -> Any:
    """Return widgets side by side, wrapped to the page's width."""
    return widgets.HBox(children, layout=widgets.Layout(flex_flow="row wrap"))


def enable(button: Any, refusal: str, tip: str, is_main: bool = False) -> None:
    """Enable a button, or disable it with the reason as tooltip.

    Args:
        refusal: Why it is disabled; empty to enable it.
        tip: What it does.
        is_main: Whether it is the primary button while it is enabled.
    """
    button.disabled = bool(refusal)
    button.tooltip = refusal or tip
    if is_main:
        button.button_style = "" if refusal else "primary"


def show(widget: Any, is_shown: bool) -> None:
    """Show a widget, or hide it with its content, also from the tab order."""
    widget.layout.display = None if is_shown else "none"


class HtmlField(widgets.HTML):
    """A box for HTML, which escapes ordinary text."""

    @traitlets.validate("value")
    def _as_html(self, proposal: Any) -> Html:
        return words(proposal["value"])


def status_html(text: str) -> Html:
    """Return a sentence as HTML that screen readers announce when it changes."""
    return element("span", sentence(in_notebook(text)), role="status") if text else words("")


def alert_html(text: str) -> Html:
    """Return a sentence as HTML that screen readers announce at once."""
    return element("p", sentence(in_notebook(text)), role="alert")


def read_at_least(box: Any, least: float = 0) -> Any:
    """Return the number in ``box``.

    Raises:
        InputError: It is less than ``least``.
    """
    if not box.value >= least:
        raise InputError(f"{box.description} must be at least {least:g}, not {box.value:g}.")
    return box.value


def fill(boxes: Sequence[tuple[Any, Any]]) -> None:
    """Write values into boxes."""
    for box, value in boxes:
        box.value = value
