"""Delete runs on a disk that a snapshot has filled."""

from __future__ import annotations

from tests.store.programs.ballast import fill
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.requests.run_deletion import delete_runs
from workbench.store import Store

store = Store("store.sqlite3")
store.wish_run(RunWish("260101-000000-aaaa", "fit", RunKind.CELL, ""))
store.put_run_fact("260101-000000-aaaa", state=RunState.FINISHED, ended=1.0)
folder = store.path.parent / "runs" / "260101-000000-aaaa"
folder.mkdir(parents=True)
fill(folder / "snapshot")
print("full")
print(delete_runs(store, store.removal.list_kept()))
print(len(store.runs()))
