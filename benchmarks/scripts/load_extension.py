"""Print the seconds that ``%load_ext workbench`` takes in a kernel."""

from __future__ import annotations

import time

import ipykernel.ipkernel  # noqa: F401  # what a kernel has imported by then
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
begun = time.perf_counter()
shell.run_line_magic("load_ext", "workbench")
print(time.perf_counter() - begun)
