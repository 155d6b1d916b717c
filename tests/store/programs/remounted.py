"""Write to a store whose disk has become read-only, and print the error."""

from __future__ import annotations

import subprocess

from workbench.errors import StoreError
from workbench.store import Store

with Store("store.sqlite3") as store:
    store.wish_cluster("lab", up=True, ranks=2)
subprocess.run(["mount", "-o", "remount,ro", "."], check=True)
try:
    Store("store.sqlite3").wish_cluster("lab", up=True, ranks=3)
except StoreError as error:
    print(error)
