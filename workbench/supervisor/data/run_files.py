"""What a cluster's runs leave on its nodes: output, and snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from workbench.cloud.hosts.local_session import LocalSession
from workbench.core.fleet.model import FleetWish
from workbench.core.run.model import Run, RunKind
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.supervisor.data.outputs import Outputs
from workbench.supervisor.data.snapshot_client import Reach
from workbench.supervisor.data.snapshots import Snapshots, snapshot_place


class RunFiles:
    """The output and the snapshots of a cluster's runs.

    Args:
        reach: Returns the session with a host; None for this machine.
        folder: The folder of the cluster, for a successor.
    """

    def __init__(self, cluster: str, reach: Reach, folder: Path | None = None) -> None:
        # This machine has one agent, as every node.
        self._here = LocalSession(Host("localhost", 1), Path.home())
        self._outputs = Outputs(cluster, reach, folder, here=self._here)
        self._snapshots = Snapshots(cluster, reach, self._here)

    def __repr__(self) -> str:
        return f"<RunFiles: {self._outputs!r}, {self._snapshots!r}>"

    @property
    def message(self) -> str:
        """One sentence for the user; empty if there is nothing to report."""
        return self._outputs.message or self._snapshots.message

    def open(self) -> None:
        """Start, once all runs of a predecessor have been passed to ``begin``."""
        self._outputs.open()

    def begin(self, run: Run, hosts: Sequence[str], fleet: FleetWish) -> None:
        """Collect what a run leaves on some hosts."""
        if not run.wish.kind.prepares:
            self._outputs.begin(run.id, hosts, fleet.output)
            self._snapshots.begin(run, hosts, fleet)

    def end(self, run: str) -> None:
        """Collect the rest of what a run has left."""
        self._outputs.end(run)
        self._snapshots.end(run)

    def output_folder(self, run: Run, hosts: Sequence[str]) -> str:
        """Return the folder that the ranks of a run write to; empty for none.

        A run that is repeated writes to the same one again.
        """
        owner = run.wish.replays or run.id
        return "" if run.wish.kind is RunKind.SETUP else self._outputs.place(owner, hosts)

    def snapshot_folder(
        self, run: Run, fleet: FleetWish, has_snapshot: Callable[[str], bool]
    ) -> str:
        """Return the folder that the ranks of a run save snapshots in; empty for none.

        Args:
            has_snapshot: Returns whether a run has saved any.
        """
        return snapshot_place(run, fleet.place, has_snapshot)

    def keep(self, fleet: FleetWish) -> None:
        """Remove from the nodes of a fleet what deleted runs have left there."""
        self._snapshots.keep(fleet)

    def can_begin(self, run: Run, hosts: Sequence[str], fleet: FleetWish) -> bool:
        """Return whether hosts have what a run needs; if not, it is brought there."""
        return self._snapshots.are_placed(run, hosts, fleet)

    def has_lost_all(self, run: Run) -> bool:
        """Return whether no copy is left of the snapshots from which a run was to continue."""
        return self._snapshots.has_lost_all(run)

    def has_copy(self, run: str) -> bool:
        """Return whether a run can resume on hosts that it has never had."""
        return self._snapshots.has_copy(run)

    def copy_seconds(self, run: str) -> float:
        """Return about how long the copy of a run's last snapshot takes; 0 if none is made."""
        return self._snapshots.copy_seconds(run)

    def flush(self, session: Session) -> None:
        """Wait until a node has sent everything, at most for a while; from any thread."""
        self._snapshots.flush(session)
        self._outputs.flush(session)

    def take_received(self) -> dict[str, int]:
        """Return the bytes received from each other node since the last call, by address."""
        return dict(
            Counter(self._outputs.take_received()) + Counter(self._snapshots.take_received())
        )

    def close(self) -> None:
        """End when everything has been collected, or after a while."""
        self._snapshots.close()
        self._outputs.close()
        self._here.close()
