"""Draw a run's curves by a widget, where the lab extension is not: VS Code, Colab, plain Notebook.

The widget's module is the extension's own run view. What is sent before a page has loaded it is
lost, and a kernel that is busy with the cell hears no page: so the whole is repeated every now and
then as the widget's state, which a page gets whenever it comes.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from workbench.errors import InputError
from workbench.notebook.keeping import NAME_VARIABLE
from workbench.store import Store
from workbench.view.feed import Feed
from workbench.view.record import Record

VARIABLE = "WORKBENCH_LIVE_VIEW"
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"
LAB_EXTENSION = "workbench-lab"
MODULE = Path(__file__).parent / "static" / "run_widget.js"
PUSH_SECONDS = 0.1
WORDS_SECONDS = 0.5
SNAPSHOT_SECONDS = 5.0


class Form(StrEnum):
    """How a page that does not follow a run by itself is to show it."""

    WIDGET = "widget"
    PICTURE = "picture"


def chosen_form(environment: dict[str, str] | None = None) -> Form:
    """Return what will work on the page that this kernel most likely has.

    Raises:
        InputError: The variable that chooses says something else.
    """
    environment = dict(os.environ) if environment is None else environment
    asked = environment.get(VARIABLE, "")
    if asked and asked not in set(Form):
        raise InputError(f"{VARIABLE} is {asked!r}; set it to widget or picture, or to nothing.")
    if not MODULE.is_file():
        return Form.PICTURE
    if asked:
        return Form(asked)
    if "VSCODE_PID" in environment or "google.colab" in sys.modules:
        return Form.WIDGET
    # The lab extension shows the run itself, or else our picture: never a widget.
    draws_by_widget = _shares_the_servers_python(environment) and not _has_lab_extension()
    return Form.WIDGET if draws_by_widget else Form.PICTURE


def _shares_the_servers_python(environment: dict[str, str]) -> bool:
    """Whether a Jupyter server has the packages that this kernel has, anywidget among them."""
    if NAME_VARIABLE not in environment:
        return False
    try:
        server = psutil.Process(int(environment["JPY_PARENT_PID"]))
        return Path(sys.prefix) in Path(server.cwd(), server.cmdline()[0]).parents
    except (KeyError, ValueError, IndexError, psutil.Error):
        return False


def _has_lab_extension() -> bool:
    return Path(sys.prefix, "share", "jupyter", "labextensions", LAB_EXTENSION).exists()


class LiveWidget:
    """One run as a widget.

    Args:
        store: Where the run is read.
        record: What was read of it, which somebody keeps up to date.
    """

    def __init__(self, store: Store, record: Record) -> None:
        self._feed = Feed(store, record.run.id, record=record)
        self._store = store
        self._run = record.run.id
        self._sent = 0
        self._next_push = self._next_words = self._next_snapshot = 0.0
        self._widget = _widget_class()()
        self._widget.on_msg(self._hear)

    @property
    def view(self) -> dict[str, Any]:
        """What has a page show it."""
        return {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}

    def push(self, now: float) -> None:
        """Send what is new and due.

        Args:
            now: Epoch seconds.
        """
        self._feed.refresh(now)
        if now >= self._next_words:
            self._next_words = now + WORDS_SECONDS
            self._widget.run = self._feed.run_message(now)
            self._widget.steps = self._feed.steps_message() or {}
        if now >= self._next_snapshot:
            self._next_snapshot = now + SNAPSHOT_SECONDS
            self._widget.snapshot = self._feed.frame(0) or b""
        if now >= self._next_push:
            self._next_push = now + PUSH_SECONDS
            self._send(self._feed.frame(self._sent))

    def close(self) -> None:
        """Take it off the page."""
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


def _widget_class() -> Any:
    """Return the class, whose parent takes long to import."""
    import anywidget
    import traitlets

    class RunWidget(anywidget.AnyWidget):
        """The run view; ``extension/src/widget.ts`` reads these."""

        _esm = MODULE
        _css = MODULE.with_suffix(".css")
        run = traitlets.Dict().tag(sync=True)
        steps = traitlets.Dict().tag(sync=True)
        snapshot = traitlets.Bytes().tag(sync=True)

    return RunWidget
