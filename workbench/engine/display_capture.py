"""Capture what a rank displays during a run."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.core.run.display import PLAIN, bundle_from, sizes_from
from workbench.engine.run_context import current

INLINE = "module://matplotlib_inline.backend_inline"
_BACKEND = "matplotlib_inline.backend_inline"


class RoutedDisplays:
    """A display publisher that adds to the current run's log.

    Like ``RoutedStream`` it stands there for as long as the process lives: threads that a cell
    started, and libraries that have asked for the publisher once, go on using it.
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
        """Show ``data`` where it belongs at this moment."""
        run = current()
        if run is None:
            self._original.publish(data, metadata, transient=transient, update=update, **options)
            return
        identity = str((transient or {}).get("display_id", ""))
        run.log.display(bundle_from(data), sizes_from(metadata), identity, update=update)

    def clear_output(self, wait: bool = False) -> None:
        """Take away what was shown: now, or ``wait`` for what is shown next."""
        run = current()
        if run is None:
            self._original.clear_output(wait)
        else:
            run.log.clear(wait=wait)

    def __getattr__(self, name: str) -> Any:
        # ipykernel's publisher has methods of its own, which the engine goes on calling.
        return getattr(self._original, name)


def route_displays(shell: Any) -> None:
    """Put a routed publisher in the place of the shell's, once; figures are shown through it."""
    if not isinstance(shell.display_pub, RoutedDisplays):
        shell.display_pub = RoutedDisplays(shell.display_pub)
    # What matplotlib asks when it is imported, by whomever; as in a notebook's kernel.
    os.environ.setdefault("MPLBACKEND", INLINE)
    # Until pyplot is imported, which has its own: a figure may be made without it.
    images = shell.display_formatter.formatters["image/png"]
    images.for_type_by_name("matplotlib.figure", "Figure", _as_png)


def _as_png(figure: Any) -> Any:
    from IPython.core.pylabtools import print_figure

    return print_figure(figure, "png", base64=True)


def show_value(shell: Any, value: object) -> None:
    """Show the last value of a cell: as a notebook does if it has a rich form, else as text."""
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
def figures_shown() -> Iterator[None]:
    """Show the figures that are open at the end of the body, as a notebook does after a cell."""
    try:
        yield
    finally:
        inline = sys.modules.get(_BACKEND)
        if inline is not None:
            inline.flush_figures()
