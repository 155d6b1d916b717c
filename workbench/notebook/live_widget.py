"""A widget for a run's curves without the lab extension: VS Code, Colab, plain Notebook.

The widget's module is the extension's own run view. Messages sent before a page has loaded it are
lost, and a kernel that is busy with the cell receives none from the page: so the whole state is
repeated periodically as the widget's state, which a page gets when it opens.
"""

from __future__ import annotations

import math
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil
from msgspec import to_builtins
from traitlets import Bytes, Dict, TraitType

from workbench.core.moment import is_due
from workbench.errors import InputError
from workbench.pages.feed import Feed
from workbench.store import Store
from workbench.store.run_names import NOTEBOOK_VARIABLE
from workbench.view.run_output import Bundle
from workbench.view.run_record import RunRecord

VARIABLE = "WORKBENCH_LIVE_VIEW"
# VS Code's Jupyter extension defines it in each kernel that it starts, here or on another machine.
VSCODE_NAME = "__vsc_ipynb_file__"
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"
LAB_EXTENSION = "workbench-lab"
MODULE = Path(__file__).parent / "static" / "run_widget.js"
PUSH_SECONDS = 0.1
WORDS_SECONDS = 0.5
SNAPSHOT_SECONDS = 5.0


class Form(StrEnum):
    """How to show a run on a page without the extension."""

    WIDGET = "widget"
    PICTURE = "picture"


def choose_form(environment: dict[str, str] | None = None) -> Form:
    """Return the form that works on the page that this kernel most likely has.

    Raises:
        InputError: The environment variable has another value.
    """
    environment = dict(os.environ) if environment is None else environment
    asked = environment.get(VARIABLE, "")
    if asked and asked not in set(Form):
        raise InputError(f"{VARIABLE} is {asked!r}", "set it to widget or picture, or unset it.")
    if not MODULE.is_file():
        return Form.PICTURE
    if asked:
        return Form(asked)
    is_vscode = "VSCODE_PID" in environment or hasattr(sys.modules["__main__"], VSCODE_NAME)
    if is_vscode or "google.colab" in sys.modules:
        return Form.WIDGET
    # The lab extension shows the run itself, otherwise the picture: never a widget.
    draws_by_widget = _shares_the_servers_python(environment) and not _has_lab_extension()
    return Form.WIDGET if draws_by_widget else Form.PICTURE


def _shares_the_servers_python(environment: dict[str, str]) -> bool:
    """Whether a Jupyter server has this kernel's packages, including anywidget."""
    if NOTEBOOK_VARIABLE not in environment:
        return False
    try:
        server = psutil.Process(int(environment["JPY_PARENT_PID"]))
        return Path(sys.prefix) in Path(server.cwd(), server.cmdline()[0]).parents
    except (KeyError, ValueError, IndexError, psutil.Error):
        return False


def _has_lab_extension() -> bool:
    return Path(sys.prefix, "share", "jupyter", "labextensions", LAB_EXTENSION).exists()


class LiveWidget:
    """One run as a widget, which ``extension/src/widget.ts`` draws.

    Args:
        store: Where the run is read.
        record: Its record, which the caller keeps up to date.
    """

    def __init__(self, store: Store, record: RunRecord) -> None:
        self._feed = Feed(store, record.run.id, record=record)
        self._store = store
        self._run = record.run.id
        self._sent = 0
        self._pushed = self._worded = self._snapped = -math.inf
        self._widget = open_widget(MODULE, run=Dict(), steps=Dict(), snapshot=Bytes())
        self._widget.on_msg(self._hear)

    @property
    def bundle(self) -> tuple[Bundle, Bundle]:
        """The MIME bundle that shows it, and its metadata, which Colab draws no widget without."""
        data, metadata = self._widget._repr_mimebundle_()
        return {WIDGET_TYPE: data[WIDGET_TYPE]}, metadata

    def push(self, now: float) -> None:
        """Send updates that are due.

        Args:
            now: Epoch seconds.
        """
        self._feed.refresh(now)
        if is_due(self._worded, now, WORDS_SECONDS):
            self._worded = now
            self._widget.run = to_builtins(self._feed.run_message(now))
            steps = self._feed.steps_message()
            self._widget.steps = to_builtins(steps) if steps else {}
        if is_due(self._snapped, now, SNAPSHOT_SECONDS):
            self._snapped = now
            self._widget.snapshot = self._feed.frame(0) or b""
        if is_due(self._pushed, now, PUSH_SECONDS):
            self._pushed = now
            self._send(self._feed.frame(self._sent))

    def close(self) -> None:
        """Remove it from the page."""
        self._widget.close()

    def _send(self, frame: bytes | None) -> None:
        if frame is not None:
            self._sent = self._feed.version
            self._widget.send({"type": "frame"}, buffers=[frame])

    def _hear(self, _: Any, content: dict[str, Any], buffers: list[bytes]) -> None:
        if content.get("type") == "hello":
            self._send(self._feed.frame(0))
        elif content.get("type") == "stop":
            with Store() as store:
                store.wish_stop(self._run)


def open_widget(module: Path, **traits: TraitType[Any, Any]) -> Any:
    """Return a new widget, whose parent class is slow to import.

    Args:
        module: What draws it on the page.
        traits: What the page reads, by name.
    """
    import anywidget

    values = {name: trait.tag(sync=True) for name, trait in traits.items()}
    code = {"_esm": module, "_css": module.with_suffix(".css")}
    # A page keeps one style for each class, which it finds by the name.
    return type(module.stem, (anywidget.AnyWidget,), {**code, **values})()
