"""Ask for a cluster's end on a full disk, and print whether the reserve is there then and later."""

from __future__ import annotations

from pathlib import Path

from tests.store.programs.ballast import fill
from workbench.errors import StoreFull
from workbench.requests.cluster import ask_down
from workbench.store import Store
from workbench.store.disk import keep_reserve

store = Store("store.sqlite3")
store.wish_cluster("lab", up=True, ranks=2)
keep_reserve(store.path)
fill(Path("ballast"))
try:
    for number in range(100):
        store.put_setup("lab", f"cell {number}", "x" * 5000)
except StoreFull:
    print("full")
ask_down(store, cluster="lab")
wish = store.cluster_wish("lab")
print(wish and wish.up, Path("reserve").exists())
Path("ballast").unlink()
keep_reserve(store.path)
print(Path("reserve").exists())
