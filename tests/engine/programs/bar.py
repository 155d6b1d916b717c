"""Draw a bar of tqdm as a rank of a kernel does: ``bar.py MODULE``, where it is imported from."""

from __future__ import annotations

import importlib
import sys

import ipykernel.zmqshell  # noqa: F401  # by which tqdm knows that it is in a notebook

from workbench.engine.entrypoints import draw_bars_as_text

draw_bars_as_text()
draw_bars_as_text()
tqdm = importlib.import_module(sys.argv[1]).tqdm
for _ in tqdm(range(3), file=sys.stdout):
    pass
