"""Compile the C of the tree in which this process runs, as an installation does."""

import importlib.util
from pathlib import Path

root = Path.cwd()
spec = importlib.util.spec_from_file_location("native_hatch", root / "native" / "hatch.py")
assert spec is not None
assert spec.loader is not None
hatch = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hatch)
hatch.compile_modules(root)
