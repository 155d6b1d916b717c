"""Reject instances that a cluster placement group does not support."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.rehearsal.ec2.answers import Refusal, type_facts


def refuse_type(type_: str) -> Refusal | None:
    """Refuse a type whose ``PlacementGroupInfo.SupportedStrategies`` lacks "cluster".

    The words are those of dstackai/dstack#2872.
    """
    strategies = type_facts(type_).get("PlacementGroupInfo", {}).get("SupportedStrategies", ())
    if "cluster" in strategies:
        return None
    return (
        "InvalidParameterCombination",
        f"Cluster placement groups are not supported by the '{type_}' instance type. Specify a "
        "supported instance type or change the placement group strategy, and try again.",
    )


def refuse_zone(group: str, zone: str, instances: Iterable[Any]) -> Refusal | None:
    """Refuse another zone while a machine is in the group, also one that is shutting down.

    The words are those of bcbio/bcbio-nextgen-vm#45.
    """
    taken = {
        one.availability_zone
        for one in instances
        if one.placement.group_name == group and one.state != "terminated"
    }
    if not taken - {zone}:
        return None
    return (
        "InvalidPlacementGroup.InUse",
        f"The placement group '{group}' is in use in another availability zone: {min(taken)}",
    )
