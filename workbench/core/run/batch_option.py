"""What stays when a training moves to another number of ranks: the batch of all, or of each."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core.fleet.model import FleetWish

WANTED_VARIABLE = "WORKBENCH_RANKS_WANTED"
"""The ranks that a run is to have which begins on fewer."""


def early_environment(
    fleet: FleetWish, hosts: Sequence[str], before: int = 0
) -> tuple[tuple[str, str], ...]:
    """Return the environment variable of a run that begins on fewer ranks than it is to have.

    Other nodes still boot, or were lost before its first snapshot, so that it begins again.

    Args:
        hosts: The address of each rank's host.
        before: The most ranks on which it has begun before, if it begins again; 0 if it does not.
    """
    nodes, wanted = len({*hosts}), before
    if fleet.starts_early and nodes < fleet.nodes:
        wanted = max(wanted, len(hosts) * fleet.nodes // nodes)
    return ((WANTED_VARIABLE, str(wanted)),) if wanted > len(hosts) else ()


def grows(most: int, ranks: int, wanted: int) -> bool:
    """Return whether a training that began early comes to more of the ranks that it is to have.

    Then each rank keeps its batch, and that of all ranks grows. The code does not say what it would
    give all ranks: on one, a script that divides its batch looks as one that does not. Once the
    training has had all of them, the batch of all ranks stays.

    Args:
        most: The most ranks that it had so far.
        wanted: The ranks on all nodes that were asked for; 0 if it began on all of them.
    """
    return most < min(ranks, wanted)
