"""Say which snapshot of a run is the newest, and where it is."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from workbench.core.fleet.model import FleetWish
from workbench.core.recovery.resumption import NONE
from workbench.core.recovery.snapshots import MANIFEST, SnapshotManifest, decode_manifest
from workbench.core.run.model import Run
from workbench.core.units import size_text
from workbench.store import Store
from workbench.store.paths import snapshot_directory


def newest_snapshot_text(store: Store, run: Run) -> str:
    """Return iteration, size and place of a run's newest snapshot; empty if it has none."""
    wish = store.cluster_wish(run.wish.cluster)
    fleet = wish.fleet if wish is not None else FleetWish()
    return described(store.attempts.newest_snapshot(run.id), _here(run.id), fleet)


def described(reported: int, here: Sequence[SnapshotManifest], fleet: FleetWish) -> str:
    """Return the text for the snapshots of a run.

    Args:
        reported: The iteration of the newest one that the ranks have reported; -1 for none.
        here: Those in the run's folder on this machine.
        fleet: The nodes of its cluster.
    """
    newest = max(here, key=lambda one: one.age, default=None)
    if newest is None and reported == NONE:
        return ""
    at = max(reported, newest.iteration if newest else NONE)
    is_here = newest is not None and newest.iteration == at
    nbytes = sum(file.nbytes for file in newest.files) if newest else 0
    size = f", {size_text(nbytes)}" if is_here else ""
    if not fleet.place.is_remote:
        where = " on this machine" if is_here else ""
    elif fleet.snapshots:
        where = f" on its nodes; copies in {fleet.snapshots}"
    elif newest is None:
        where = " on its nodes alone"
    else:
        where = "; copied to this machine" + ("" if is_here else f": {newest.iteration:,}")
    return f"iteration {at:,}{size}{where}"


def _here(run: str) -> list[SnapshotManifest]:
    found = []
    for path in snapshot_directory(run).glob(f"[!.]*/{MANIFEST}"):
        with contextlib.suppress(OSError, ValueError):
            found.append(decode_manifest(path.read_text(encoding="utf-8")))
    return found
