"""Ask for what a node gets before it may join: data, a prepare script, an image."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from workbench.core.doors import check_door
from workbench.core.fleet import FleetWish, Place
from workbench.notebook.fields import amount, at_least, fill, page, row, show, text, whole


class ExtrasForm:
    """What is the same for every place with nodes; folded until it is asked for.

    Args:
        place: Where the nodes come from.
    """

    def __init__(self, place: Place) -> None:
        self.slots = whole("Ranks a node", 0, "0 for one a GPU, or one a core without GPU")
        self.data = text("Data", "folder or s3://bucket/prefix", "Staged to every node")
        self.output = text("Output", "folder or s3://bucket/prefix", "Takes what runs leave")
        self.image = text("Image", "ami-… or empty to look one up", "What each node boots")
        self.prepare = page("Prepare script", "pip install …", "Each node runs it before it joins")
        self.ssh_from = text("ssh from", "nobody outside EC2", "This computer's own address")
        self.link = amount("Link, Gbit/s", 0.0, "To see a slow one; 0 for what this machine can")
        for box in (self.image, self.ssh_from):
            show(box, place is Place.EC2)
        show(self.link, place is Place.FAKE)
        self._boxes = row(
            self.slots, self.data, self.output, self.image, self.ssh_from, self.link, self.prepare
        )
        show(self._boxes, False)
        self.more = widgets.ToggleButton(
            value=False,
            layout=widgets.Layout(width="auto"),
            description="More settings",
            tooltip="Ranks a node, data, output, image, ssh, and a script that each node runs",
        )
        self.more.observe(self._on_more, "value")
        self.widget = widgets.VBox([row(self.more), self._boxes])

    def added_to(self, wish: FleetWish) -> FleetWish:
        """Return ``wish`` with what stands here.

        Raises:
            InputError: A number or a network will not do.
        """
        return replace(
            wish,
            slots=at_least(self.slots),
            data=self.data.value.strip(),
            output=self.output.value.strip(),
            image=self.image.value.strip(),
            ssh_from=str(check_door(door)) if (door := self.ssh_from.value.strip()) else "",
            link=at_least(self.link),
            prepare=self.prepare.value,
        )

    def show(self, wish: FleetWish) -> None:
        """Write what was asked for into the boxes."""
        fill(
            [
                (self.slots, wish.slots),
                (self.data, wish.data),
                (self.output, wish.output),
                (self.image, wish.image),
                (self.ssh_from, wish.ssh_from),
                (self.link, wish.link),
                (self.prepare, wish.prepare),
            ]
        )

    def _on_more(self, change: Any) -> None:
        show(self._boxes, change["new"])
