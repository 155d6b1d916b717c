"""Keep the reserve on a disk that may be too small for it, and print whether it is there."""

from __future__ import annotations

from pathlib import Path

from workbench.store import Store
from workbench.store.disk import keep_reserve

keep_reserve(Store("store.sqlite3").path)
print(Path("reserve").exists())
