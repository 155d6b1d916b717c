"""Write setup cells until the disk is full, and print the error and what was kept: ``… [LIMIT]``.

With LIMIT no file may have more bytes than that.
"""

from __future__ import annotations

import resource
import sys

from workbench.errors import StoreError
from workbench.store import Store

if sys.argv[1:]:
    # Python 3.11 keeps bytecode that was written in part (python/cpython#126606).
    sys.dont_write_bytecode = True
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
store = None
try:
    store = Store("store.sqlite3")
    for number in range(1, 1000):
        store.put_setup("lab", f"cell {number}", "x" * 1000)
except StoreError as error:
    print(error)
kept = store.setups("lab") if store else []
print(len(kept), all(len(source) == 1000 for _, source in kept))
