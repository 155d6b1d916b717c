"""Make tqdm draw its bars as text on a rank."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType


class TextBars(MetaPathFinder, Loader):
    """Gives ``tqdm.notebook`` the bars of ``tqdm``; ``tqdm.auto`` then chooses them as well."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find ``tqdm.notebook`` alone."""
        return spec_from_loader(fullname, self) if fullname == "tqdm.notebook" else None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module, without ``IProgress``, which would mean that widgets are available."""
        bars = import_module("tqdm.std")
        module.__dict__.update(
            tqdm=bars.tqdm, trange=bars.trange, tqdm_notebook=bars.tqdm, tnrange=bars.trange
        )


def draw_bars_as_text() -> None:
    """Make ``tqdm.auto`` and ``tqdm.notebook`` draw text from now on, once."""
    if not any(isinstance(finder, TextBars) for finder in sys.meta_path):
        sys.meta_path.insert(0, TextBars())
