"""The charges beside an EC2 instance: its root volume and its public IPv4 address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.cloud.ec2.api import Ec2Api
from workbench.cloud.ec2.cluster_resources import Settings
from workbench.cloud.ec2.image_lookup import find_image
from workbench.cloud.ec2.network import Network
from workbench.core.fleet.cost import extra_price
from workbench.core.fleet.model import Offer
from workbench.errors import CloudError


class Ec2Charges:
    """The charges beside the machines of one region; each image is looked up once."""

    def __init__(self, calls: Ec2Api, settings: Settings) -> None:
        self._calls = calls
        self._settings = settings
        self._sizes: dict[tuple[str, bool], int] = {}

    def offers(self, offers: tuple[Offer, ...], network: Network) -> tuple[Offer, ...]:
        """Return the offers with the present charges beside each."""
        return tuple(self._offer(offer, network) for offer in offers)

    def machine(self, row: Mapping[str, Any]) -> float:
        """Return the $/h beside a machine of DescribeInstances; 0 for one that has ended."""
        if row["State"]["Name"] == "terminated":
            return 0.0
        size = self._size(str(row.get("ImageId") or ""), gpus=False)
        return extra_price(size, public=bool(row.get("PublicIpAddress")))

    def _offer(self, offer: Offer, network: Network) -> Offer:
        public = self._settings.public or network.places[offer.zone].public
        size = self._size(self._settings.image(), gpus=bool(offer.gpus))
        return replace(offer, extra_price=extra_price(size, public=public), has_address=public)

    def _size(self, image: str, *, gpus: bool) -> int:
        """Return the GiB of a root volume; the default if the image cannot be looked up."""
        if (image, gpus) not in self._sizes:
            found = dict(self._settings.images)  # a copy: showing prices must not choose the image
            try:
                size = find_image(self._calls, image, gpus=gpus, found=found).size
            except CloudError:
                return self._settings.disk()
            self._sizes[image, gpus] = size
        return max(self._sizes[image, gpus], self._settings.disk())
