"""Make labelled boxes for numbers and words, and read them with a sentence for what will not do."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from workbench.errors import InputError

STYLE = {"description_width": "11em"}


def whole(label: str, value: int, tip: str) -> Any:
    """Return a box for a whole number."""
    return widgets.IntText(value=value, description=label, tooltip=tip, style=STYLE)


def amount(label: str, value: float, tip: str) -> Any:
    """Return a box for a number."""
    return widgets.FloatText(value=value, description=label, tooltip=tip, style=STYLE)


def text(label: str, hint: str, tip: str) -> Any:
    """Return a box for words."""
    return widgets.Text(description=label, placeholder=hint, tooltip=tip, style=STYLE)


def page(label: str, hint: str, tip: str) -> Any:
    """Return a box for lines."""
    return widgets.Textarea(
        description=label,
        placeholder=hint,
        tooltip=tip,
        rows=4,
        style=STYLE,
        layout=widgets.Layout(width="32em"),
    )


def button(label: str, tip: str, icon: str = "", style: str = "") -> Any:
    """Return a button."""
    return widgets.Button(
        description=label,
        tooltip=tip,
        icon=icon,
        button_style=style,
        layout=widgets.Layout(width="auto"),
    )


def row(*children: Any) -> Any:
    """Return widgets side by side, in as many lines as the page is narrow."""
    return widgets.HBox(children, layout=widgets.Layout(flex_flow="row wrap"))


def show(widget: Any, is_shown: bool) -> None:
    """Show a widget or take it, and what it holds, out of sight and of the tab order."""
    widget.layout.display = None if is_shown else "none"


def said(sentence: str) -> str:
    """Return a sentence as HTML that is read out when it changes."""
    return f'<span role="status">{escape(sentence)}</span>'


def at_least(box: Any, least: float = 0) -> Any:
    """Return the number in ``box``.

    Raises:
        InputError: It is less than ``least``.
    """
    if not box.value >= least:
        raise InputError(f"{box.description} must be at least {least:g}, not {box.value:g}.")
    return box.value


def listed(box: Any) -> tuple[str, ...]:
    """Return the words of ``box``, which commas or spaces part."""
    return tuple(box.value.replace(",", " ").split())


def fill(boxes: Sequence[tuple[Any, Any]]) -> None:
    """Write values into boxes."""
    for box, value in boxes:
        box.value = value
