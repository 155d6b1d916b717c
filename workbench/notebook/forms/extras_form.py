"""The form for a node's software and data: data source, prepare script, image."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from workbench.core.fleet.charges import zones_price
from workbench.core.fleet.cost import DISK_GIB
from workbench.core.fleet.model import LEASE_SECONDS, FleetWish, Provider
from workbench.core.fleet.request import (
    COSTLY,
    LARGEST_DISK,
    LONGEST_LEASE,
    SHORTEST_LEASE,
    SMALLEST_DISK,
    check_subnet,
)
from workbench.core.fleet.ssh_ingress import check_ssh_source
from workbench.notebook.forms.form_fields import (
    amount,
    at_least,
    between,
    fill,
    listed,
    page,
    row,
    show,
    text,
    whole,
)


class ExtrasForm:
    """The settings that all providers of nodes share, folded by default.

    Args:
        place: The provider.
    """

    def __init__(self, place: Provider) -> None:
        self.slots = whole("Ranks per node", 0, "0 = one per GPU, or one per core without GPUs")
        self.data = text("Data", "folder or s3://bucket/prefix", "Copied to every node")
        self.output = text(
            "Output", "folder or s3://bucket/prefix", "Where files of runs are copied to"
        )
        self.snapshots = text(
            "Snapshots",
            "this computer, s3://bucket/prefix, or a shared folder",
            "Where snapshots are copied to, for when all nodes are lost",
        )
        self.image = text(
            "Image", "debian-12 (default), ubuntu-24.04, ami-…", "Image that each node boots"
        )
        self.disk = whole("Disk, GiB", DISK_GIB, "Per node; more where the image needs it")
        self.prepare = page("Prepare script", "pip install …", "Runs on each node before it joins")
        self.ssh_from = text("ssh from", "your address", "Who may connect by ssh")
        self.subnets = text("Subnets", "default", "One per zone, separated by commas")
        self.lease = amount(
            "Lease, min",
            LEASE_SECONDS / 60,
            "Nodes shut down if they do not hear from this computer for this long",
        )
        self.link = amount("Link, Gbit/s", 0.0, "Simulated link speed; 0 = unlimited")
        self.across_zones = widgets.Checkbox(
            value=False,
            indent=False,
            description="Add nodes in other zones too",
            tooltip=f"Only one zone otherwise: {zones_price()}",
        )
        for box in (self.image, self.disk, self.ssh_from, self.subnets, self.lease):
            show(box, place is Provider.EC2)
        show(self.across_zones, place in COSTLY)
        show(self.link, place is Provider.REHEARSAL)
        self._boxes = row(
            self.slots, self.data, self.output, self.snapshots, self.image, self.disk,
            self.ssh_from, self.subnets, self.lease, self.link, self.across_zones, self.prepare,
        )  # fmt: skip
        show(self._boxes, False)
        self.more = widgets.ToggleButton(
            value=False,
            layout=widgets.Layout(width="auto"),
            description="More settings",
            tooltip="Ranks per node, data, output, image, disk, ssh, subnets and a prepare script",
        )
        self.more.observe(self._on_more, "value")
        self.widget = widgets.VBox([row(self.more), self._boxes])

    def added_to(self, wish: FleetWish) -> FleetWish:
        """Return ``wish`` with the values of this form.

        Raises:
            InputError: A number or a network is not valid.
        """
        return replace(
            wish,
            slots=at_least(self.slots),
            data=self.data.value.strip(),
            output=self.output.value.strip(),
            snapshots=self.snapshots.value.strip(),
            image=self.image.value.strip(),
            disk=self.wished_disk(),
            ssh_from=str(check_ssh_source(door)) if (door := self.ssh_from.value.strip()) else "",
            lease=60 * between(self.lease, SHORTEST_LEASE / 60, LONGEST_LEASE / 60),
            link=at_least(self.link),
            across_zones=self.across_zones.value,
            prepare=self.prepare.value,
        )

    def wished_disk(self) -> int:
        """Return the GiB of each node's root volume; 0 for the default.

        Raises:
            InputError: The size is not possible.
        """
        gib = int(between(self.disk, SMALLEST_DISK, LARGEST_DISK))
        return 0 if gib == DISK_GIB else gib

    def wished_subnets(self) -> tuple[str, ...]:
        """Return the ids of the subnets; empty for the default ones.

        Raises:
            InputError: One is not a subnet's id.
        """
        return tuple(map(check_subnet, listed(self.subnets)))

    def show(self, wish: FleetWish) -> None:
        """Write the present desired state into the boxes."""
        fill(
            [
                (self.slots, wish.slots),
                (self.data, wish.data),
                (self.output, wish.output),
                (self.snapshots, wish.snapshots),
                (self.image, wish.image),
                (self.disk, wish.disk or DISK_GIB),
                (self.ssh_from, wish.ssh_from),
                (self.subnets, ", ".join(wish.needs.subnets)),
                (self.lease, wish.lease / 60),
                (self.link, wish.link),
                (self.across_zones, wish.across_zones),
                (self.prepare, wish.prepare),
            ]
        )

    def _on_more(self, change: Any) -> None:
        show(self._boxes, change["new"])
