"""Write setup cells on a full disk, and another one when it has room."""

from __future__ import annotations

import contextlib
from pathlib import Path

from workbench.errors import StoreError
from workbench.store import Store

store = Store("store.sqlite3")
ballast = Path("ballast")
with contextlib.suppress(OSError):
    ballast.write_bytes(bytes(10_000_000))
try:
    for number in range(1000):
        store.put_setup("lab", f"cell {number}", "x" * 1000)
except StoreError as error:
    print(error)
ballast.unlink()
store.put_setup("other", "cell", "pass")
print(store.setups("other"))
