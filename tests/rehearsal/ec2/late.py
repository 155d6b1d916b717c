"""Delay the visibility of new resources, like EC2's eventual consistency.

A group, key pair, launch template, placement group or instance profile that was just made may be
unknown to the next call ("Eventual consistency in the Amazon EC2 API", EC2 API guide).
"""

from __future__ import annotations

from typing import Any

from tests.rehearsal.ec2.market import MARKET

GROUP, KEY, TEMPLATE = "security group", "key pair", "launch template"
PLACEMENT, PROFILE, IMAGE = "placement group", "instance profile", "image"
# The call that makes a thing, and the parameter that names it.
MADE_BY = {
    "CreateSecurityGroup": (GROUP, "GroupName"),
    "ImportKeyPair": (KEY, "KeyName"),
    "CreateKeyPair": (KEY, "KeyName"),
    "CreateLaunchTemplate": (TEMPLATE, "LaunchTemplateName"),
    "CreatePlacementGroup": (PLACEMENT, "GroupName"),
}
EVERYWHERE = "aws-global"  # IAM has no regions


def note(action: str, region: str, params: dict[str, Any]) -> None:
    """Remember when a call made what it names."""
    if action in MADE_BY:
        kind, parameter = MADE_BY[action]
        MARKET.made[region, kind, str(params.get(parameter))] = MARKET.now


def is_late(region: str, kind: str, name: str, share: float = 1.0) -> bool:
    """Return whether a thing was made and is not known yet.

    Args:
        share: Part of the whole lateness; what asks first knows of it first.
    """
    made = MARKET.made.get((region, kind, name), 0.0)
    return MARKET.now - made < MARKET.late * share
