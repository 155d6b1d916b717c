"""A run whose snapshots are copied, and nodes that wait for its snapshots."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.core.recovery.snapshots import SnapshotManifest


@dataclass
class RunCopies:
    """A run whose snapshots are copied.

    Args:
        folder: Of its snapshots on each node.
        hosts: Addresses of the nodes that had ranks of it, those of the present attempt first.
        durable: A folder or ``s3://bucket/prefix``; empty for the run's folder on this machine.
        is_metered: Whether the traffic to this machine costs money.
        is_rented: Whether the provider says which nodes are gone for good.
        copied: What the durable place has; None while unknown.
        due: When the next copy may begin, by the monotonic clock.
        seconds: How long the last copy took; 0 before the first.
        over: Whether the run has ended.
        failures: Attempts in a row that failed.
    """

    run: str
    folder: str
    hosts: tuple[str, ...]
    durable: str
    is_metered: bool
    is_rented: bool = False
    copied: set[SnapshotManifest] | None = None
    due: float = 0.0
    seconds: float = 0.0
    looked: float = 0.0
    over: bool = False
    failures: int = 0
    trouble: str = ""


@dataclass
class Wanted:
    """Nodes that are to have a run's snapshots before it resumes there."""

    copies: RunCopies
    attempt: int
    hosts: tuple[str, ...]
    failures: int = 0
    due: float = 0.0
    damaged: set[tuple[str, str]] = field(default_factory=set)
    trouble: str = ""
