"""The tags by which a cluster's resources are found again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CLUSTER = "workbench:cluster"
OWNER = "workbench:owner"
"""Who keeps it: two people may have clusters of one name in one account."""
TOKEN = "workbench:token"
EXPIRES = "workbench:expires"
"""Epoch seconds at which everything is deleted, as a whole number; not there for never."""
IMAGE = "workbench:image"


@dataclass(frozen=True)
class Whose:
    """Whose things are meant.

    Args:
        cluster: Empty for those of every cluster.
        owner: Empty for those of everybody.
    """

    cluster: str = ""
    owner: str = ""

    @property
    def name(self) -> str:
        """What is called of which a cluster has one: security group, key pair."""
        return "-".join(filter(None, ("workbench", self.owner, self.cluster)))

    def name_in(self, zone: str) -> str:
        """Return what is called of which a cluster has one in each zone: placement group.

        A placement group belongs to the zone of the nodes in it: a launch in another one is
        refused with ``InvalidPlacementGroup.InUse``.
        """
        return "-".join(filter(None, (self.name, zone)))

    def filters(self, key: str = CLUSTER) -> list[dict[str, Any]]:
        """Return what EC2 is asked for, to list these things alone.

        Args:
            key: The tag that says of which cluster it is.
        """
        named = {f"tag:{key}": self.cluster, f"tag:{OWNER}": self.owner}
        asked = [{"Name": name, "Values": [value]} for name, value in named.items() if value]
        return asked if self.cluster else [{"Name": "tag-key", "Values": [key]}, *asked]


def borne(
    whose: Whose, token: str = "", tags: Iterable[tuple[str, str]] = ()
) -> tuple[tuple[str, str], ...]:
    """Return the tags that something has: ours, and those that were asked for, by name."""
    ours = {CLUSTER: whose.cluster, OWNER: whose.owner, TOKEN: token}
    return tuple(
        sorted({**dict(tags), **{key: value for key, value in ours.items() if value}}.items())
    )


def asked(tags: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return tags as EC2 takes them."""
    return [{"Key": key, "Value": value} for key, value in tags]


def read(answer: Sequence[Mapping[str, str]] | None) -> tuple[tuple[str, str], ...]:
    """Return the tags that EC2 tells."""
    return tuple((tag["Key"], tag["Value"]) for tag in answer or ())
