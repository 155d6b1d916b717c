"""A job: what a job file asks for.

The fields are those of a batch service's job file. Fields that have no effect are errors.
``shrink`` says where a run that loses a node continues from its newest snapshot: on the remaining
nodes, or once others have replaced it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from workbench.core.cluster.model import DEFAULT_CLUSTER
from workbench.core.fleet.provider import listing_provider, provider_choices
from workbench.core.fleet.request import (
    DEFAULT_LIMIT,
    START_SECONDS,
    FleetRequest,
    Spelling,
)
from workbench.core.options.option import NEEDS
from workbench.core.options.table import WAIT, options_of
from workbench.core.world.hostfile import parse_hosts

_AFTERWARDS = {
    "continue": "on the nodes that are left",
    WAIT: "when the node is replaced",
}
OF_NEEDS = {one.name for one in options_of(NEEDS)}
SPELLING = Spelling(
    lambda name: f"needs.{name}" if name in OF_NEEDS else name,
    lambda: provider_choices(
        lambda place: place.has_nodes,
        lambda place: (
            'hosts = ["172.31.41.13 slots=1"]'
            if place.lists_hosts
            else f'provider = "{place.name}"'
        ),
    ),
)


@dataclass(frozen=True)
class Job:
    """What a job file asks for.

    Args:
        script: The script's path.
        values: Every field that the file has, by name, also those of ``needs``.
    """

    script: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The script's arguments."""
        arguments: tuple[str, ...] = self.values.get("arguments", ())
        return arguments

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return f"{self.values.get('cluster', DEFAULT_CLUSTER)}"

    @property
    def limit(self) -> float:
        """Seconds after which the run is stopped; 0 for none, 7 days on nodes that cost."""
        default = DEFAULT_LIMIT if self.request().costs else 0.0
        return float(self.values.get("wall_clock_limit", default))

    @property
    def time_to_live(self) -> float:
        """Default seconds until paid nodes are deleted."""
        return (self.limit or DEFAULT_LIMIT) + START_SECONDS

    @property
    def remark(self) -> str:
        """A note for the user on the effect of lost nodes; empty for none."""
        if not (shrink := self.values.get("shrink")):
            return ""
        where = _AFTERWARDS[shrink]
        if self.values.get("restart"):
            return f"The script starts again {where} if it loses a node."
        return (
            f"A run that loses a node continues from its newest snapshot {where}, or ends if it "
            "has none."
        )

    def changed(self, **values: object) -> Job:
        """Return the job with other values."""
        merged = {**self.values, **values}
        return replace(self, script=merged.get("script", self.script), values=merged)

    def request(self) -> FleetRequest:
        """Return what it asks of nodes, before the files that it names are read.

        Raises:
            InputError: A host is invalid.
        """
        asked: dict[str, Any] = {
            one.name: self.values.get(one.name) for one in fields(FleetRequest)
        }
        asked["provider"] = self.values.get("provider", "")
        asked["settings"] = tuple(self.values.get("settings", {}).items())
        asked["hosts"] = parse_hosts("\n".join(self.values.get("hosts", ())))
        return self.completed(FleetRequest(**asked))

    def completed(self, request: FleetRequest) -> FleetRequest:
        """Return a request for its nodes with what ``host_file`` and ``shrink`` imply."""
        if not request.provider and self.values.get("host_file"):
            request = replace(request, provider=listing_provider())
        if self.values.get("shrink") == WAIT and request.place.has_nodes:
            # With fewer nodes than all, no world is started.
            return replace(request, min_nodes=request.size or None)
        return request
