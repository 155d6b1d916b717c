"""Capture a rank's displays during a run."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.core.run.display import PLAIN, bundle_from, sizes_from
from workbench.engine.run_context import current, find_overlaid

INLINE = "module://matplotlib_inline.backend_inline"
_BACKEND = "matplotlib_inline.backend_inline"


class RoutedDisplays:
    """A display publisher that adds to the current run's log.

    Like ``OutputStream`` it stays installed for as long as the process lives: threads of a cell,
    and libraries that keep the publisher, continue to use it.
    """

    def __init__(self, original: Any) -> None:
        self._original = original

    def publish(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        transient: Mapping[str, Any] | None = None,
        update: bool = False,
        **options: Any,
    ) -> None:
        """Show ``data`` in the current run, or by the original publisher."""
        run = current()
        if find_overlaid() is not None:
            return  # of a thread that an earlier run began
        if run is None:
            self._original.publish(data, metadata, transient=transient, update=update, **options)
            return
        if run.sinks:
            run.sinks[-1].display(bundle_from(data))
            return
        identity = str((transient or {}).get("display_id", ""))
        run.log.display(bundle_from(data), sizes_from(metadata), identity, update=update)

    def clear_output(self, wait: bool = False) -> None:
        """Remove what is displayed: now, or with ``wait`` when the next output comes."""
        run = current()
        if run is None:
            if find_overlaid() is None:
                self._original.clear_output(wait)
        elif run.sinks:
            run.sinks[-1].clear(wait=wait)
        else:
            run.log.clear(wait=wait)

    def __getattr__(self, name: str) -> Any:
        # ipykernel's publisher has more methods, which the engine calls.
        return getattr(self._original, name)


def route_displays(shell: Any) -> None:
    """Install a routed publisher in the shell, once; figures are displayed through it."""
    if not isinstance(shell.display_pub, RoutedDisplays):
        shell.display_pub = RoutedDisplays(shell.display_pub)
    # Read by matplotlib when it is imported; the same as in a notebook's kernel.
    os.environ.setdefault("MPLBACKEND", INLINE)
    # For figures that are made without pyplot, which has its own formatter.
    images = shell.display_formatter.formatters["image/png"]
    images.for_type_by_name("matplotlib.figure", "Figure", _as_png)


def _as_png(figure: Any) -> Any:
    from IPython.core.pylabtools import print_figure

    return print_figure(figure, "png", base64=True)


def show_value(shell: Any, value: object) -> None:
    """Display the last value of a cell: in its rich form like a notebook, else as text."""
    formatter = shell.display_formatter
    if formatter.ipython_display_formatter(value):
        return
    data, metadata = formatter.format(value, exclude=(PLAIN,))
    if bundle_from(data):
        data[PLAIN] = formatter.formatters[PLAIN](value) or repr(value)
        shell.display_pub.publish(data, metadata)
    else:
        print(repr(value))


@contextlib.contextmanager
def show_figures() -> Iterator[None]:
    """Display the figures that are open at the end of the body, as after a notebook's cell."""
    try:
        yield
    finally:
        inline = sys.modules.get(_BACKEND)
        if inline is not None:
            inline.flush_figures()
