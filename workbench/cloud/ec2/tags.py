"""The tags that mark a cluster's resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.fleet.node_provider import CLUSTER, OWNER

TOKEN = "workbench:token"
IMAGE = "workbench:image"


@dataclass(frozen=True)
class OwnerTags:
    """The cluster and the owner of resources.

    Args:
        cluster: Empty for all clusters.
        owner: Empty for all owners.
    """

    cluster: str = ""
    owner: str = ""

    @property
    def name(self) -> str:
        """The name of a resource that a cluster has once: security group, key pair."""
        return "-".join(filter(None, ("workbench", self.owner, self.cluster)))

    def name_in(self, zone: str) -> str:
        """Return the name of a resource that a cluster has once per zone: placement group.

        A placement group belongs to the zone of the nodes in it: a launch in another one is
        refused with ``InvalidPlacementGroup.InUse``.
        """
        return "-".join(filter(None, (self.name, zone)))

    def filters(self, key: str = CLUSTER) -> list[dict[str, Any]]:
        """Return EC2's filters that list these resources alone.

        Args:
            key: The tag that has the cluster's name.
        """
        named = {f"tag:{key}": self.cluster, f"tag:{OWNER}": self.owner}
        asked = [{"Name": name, "Values": [value]} for name, value in named.items() if value]
        return asked if self.cluster else [{"Name": "tag-key", "Values": [key]}, *asked]


def resource_tags(
    whose: OwnerTags, token: str = "", tags: Iterable[tuple[str, str]] = ()
) -> tuple[tuple[str, str], ...]:
    """Return the tags of a resource: ours and the requested ones, sorted by name."""
    ours = {CLUSTER: whose.cluster, OWNER: whose.owner, TOKEN: token}
    return tuple(
        sorted({**dict(tags), **{key: value for key, value in ours.items() if value}}.items())
    )


def encode_tags(tags: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return tags in EC2's format."""
    return [{"Key": key, "Value": value} for key, value in tags]


def decode_tags(answer: Sequence[Mapping[str, str]] | None) -> tuple[tuple[str, str], ...]:
    """Return the tags in an answer of EC2."""
    return tuple((tag["Key"], tag["Value"]) for tag in answer or ())
