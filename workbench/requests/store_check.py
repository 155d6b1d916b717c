"""Check the store and its disk, for the doctor."""

from __future__ import annotations

from workbench.core.node.findings import Finding, judge_kept, judge_place
from workbench.store.disk import disk_under
from workbench.store.reserve import RESERVE_NAME
from workbench.store.store import Store


def examine_store(store: Store) -> list[Finding]:
    """Return the findings on the store's disk and contents."""
    disk, usage = disk_under(store.path), store.usage()
    reserve = store.path.with_name(RESERVE_NAME).exists()
    return [
        judge_place(disk),
        judge_kept(disk, usage.number, usage.store, usage.runs, str(store.retention()), reserve),
    ]
