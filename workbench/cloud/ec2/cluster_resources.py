"""Create a cluster's resources in EC2: security group, placement group, launch template."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from workbench.cloud.ec2 import launch_template
from workbench.cloud.ec2.api import Ec2Api, build_error
from workbench.cloud.ec2.description import NodeSettings
from workbench.cloud.ec2.image_lookup import Found, find_image
from workbench.cloud.ec2.network import WayOut, own_ssh_source
from workbench.cloud.ec2.offers import Ec2Offers
from workbench.cloud.ec2.removal import GONE
from workbench.cloud.ec2.tags import OwnerTags, resource_tags
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Purchase
from workbench.core.fleet.purchases import LAG_SECONDS
from workbench.errors import CloudError

log = logging.getLogger("workbench.supervisor")

POLL_SECONDS = 2.0
# A right that depends on the tags of a new resource is denied until EC2 knows the tags.
RIGHTS_SECONDS = 5.0
EXISTS = ("Duplicate", "AlreadyExists")
_MAKES = ("create_",)


class ResourceRetries:
    """Repeats calls about new resources, which EC2 does not list at once."""

    def __init__(
        self, calls: Ec2Api, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._sleep = sleep
        self._made = 0.0

    def call(
        self, operation: str, request: launch_template.Request, new: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Make a call that names resources which EC2 may not know everywhere yet.

        Args:
            new: Prefixes of error codes that mean so for this call, besides those of
                ``core.fleet.cloud_errors``.
        """
        deadline, is_second = self._clock() + LAG_SECONDS, False
        while True:
            try:
                answer = self._calls.call("ec2", operation, **request)
            except CloudError as error:
                if error.is_early or error.code.startswith(tuple(new)):
                    self.wait(deadline, error)
                elif is_second or not self.may_be_permitted(error.kind):
                    raise
                else:
                    self._sleep(RIGHTS_SECONDS)
                    is_second = True
            else:
                self._made = self._clock() if operation.startswith(_MAKES) else self._made
                return answer

    def may_be_permitted(self, kind: str) -> bool:
        """Return whether a denied right may depend on the tags of a resource that was just made."""
        return kind == ErrorKind.PERMISSION and self._clock() - self._made < LAG_SECONDS

    def first(self, operation: str, path: str, **request: Any) -> dict[str, Any]:
        """Return the first entry of a list that is known to have one, once it is listed."""
        deadline = self._clock() + LAG_SECONDS
        while not (found := list(self._calls.rows("ec2", operation, path, **request))):
            self.wait(deadline, build_error("NoAnswer", f"{path} are there and not listed"))
        return found[0]

    def until(self, seconds: float) -> float:
        """Return the deadline in ``seconds`` from now, for ``wait``."""
        return self._clock() + seconds

    def wait(self, deadline: float, error: CloudError, seconds: float = POLL_SECONDS) -> None:
        """Sleep, or raise ``error`` after ``deadline``.

        Raises:
            CloudError: ``error``, after the deadline.
        """
        if self._clock() >= deadline:
            raise error
        self._sleep(seconds)


class ClusterResources:
    """Creates the resources that a cluster's machines need.

    Args:
        settings: Returns what the nodes have in common.
        way: This computer's way to them.
        images: Earlier look-ups of images.
    """

    def __init__(
        self,
        calls: Ec2Api,
        catalogue: Ec2Offers,
        patience: ResourceRetries,
        settings: Callable[[], NodeSettings],
        way: WayOut,
        *,
        must_reach: bool,
        owner: str,
        images: Found,
    ) -> None:
        self._calls = calls
        self._catalogue = catalogue
        self._patience = patience
        self._settings = settings
        self._way = way
        self._must_reach = must_reach
        self._owner = owner
        self._images = images

    def template(
        self, purchase: Purchase, user_data: str, tags: launch_template.Tags, vpc: str
    ) -> dict[str, str]:
        """Create a purchase's launch template and all that it needs, and return its name."""
        whose = OwnerTags(purchase.cluster, self._owner)
        ours = resource_tags(whose, tags=tags)
        group = self._group(whose, vpc, ours)
        if purchase.placement:
            self._ensure_group(whose, purchase.zone, ours)
        gpus = any(self._catalogue.kind(type_).gpus for type_ in purchase.types)
        settings = self._settings()
        image = find_image(self._calls, settings.image, gpus=gpus, found=self._images)
        log.info("Nodes of %s boot %s %s", purchase.token, image.title, image.id)
        request = launch_template.build_template(
            purchase,
            user_data,
            tags,
            image=image,
            group_id=group,
            public=settings.public,
            profile=settings.profile,
            disk=settings.disk,
            owner=self._owner,
            credits=all(self._catalogue.kind(type_).credits for type_ in purchase.types),
            on_demand=settings.on_demand,
        )
        self._make("create_launch_template", request)
        return {"LaunchTemplateName": request["LaunchTemplateName"]}

    def _ensure_group(self, whose: OwnerTags, zone: str, tags: launch_template.Tags) -> None:
        """Create the placement group of a zone, and delete empty ones of other zones."""
        self._make(
            "create_placement_group", launch_template.build_placement_group(whose, zone, tags)
        )
        groups = self._calls.rows(
            "ec2", "describe_placement_groups", "PlacementGroups", Filters=whose.filters()
        )
        for group in groups:
            if group["GroupName"] != whose.name_in(zone):
                self._leave_group(str(group["GroupName"]))

    def _leave_group(self, name: str) -> None:
        """Delete a placement group; one with nodes in it is kept, and deleted later."""
        with contextlib.suppress(CloudError):
            self._calls.call("ec2", "delete_placement_group", GroupName=name)

    def admit(self, cluster: str, vpc: str) -> None:
        """Update the ssh rules of the cluster's security group, if there is one."""
        whose = OwnerTags(cluster, self._owner)
        rows = self._calls.rows("ec2", "describe_security_groups", "SecurityGroups",
                                Filters=_build_name_filters(whose, vpc))  # fmt: skip
        for group in rows:
            self._let_in(str(group["GroupId"]), self._ssh_sources(vpc), group)

    def _group(self, whose: OwnerTags, vpc: str, tags: launch_template.Tags) -> str:
        """Create the security group with its rules, unless it exists; return its id."""
        ssh_sources = self._ssh_sources(vpc)
        made = self._make("create_security_group", launch_template.build_group(whose, vpc, tags))
        found = made or self._patience.first(
            "describe_security_groups", "SecurityGroups", Filters=_build_name_filters(whose, vpc)
        )
        group = str(found["GroupId"])
        self._let_in(group, ssh_sources, found)
        return group

    def _ssh_sources(self, vpc: str) -> tuple[str, ...]:
        """Return the networks from which ssh is accepted.

        Raises:
            CloudError: None is given, and this computer is not in the nodes' network; or its
                public address is unknown.
        """
        ssh_sources = self._way.sources(self._settings().ssh_sources)
        if ssh_sources or not self._must_reach:
            return ssh_sources
        return (own_ssh_source(vpc, self._calls.region),)

    def _let_in(
        self, group: str, ssh_sources: Sequence[str], before: launch_template.Request
    ) -> None:
        """Accept ssh from these networks, and remove our rules for others; a user's rules stay."""
        # One by one: EC2 adds none of several rules if one of them exists.
        for rule in launch_template.build_ingress(group, ssh_sources):
            self._make("authorize_security_group_ingress", rule)
        for rule in launch_template.build_revocations(
            group, ssh_sources, before.get("IpPermissions", ())
        ):
            self._end_rule(rule)

    def _end_rule(self, rule: launch_template.Request) -> None:
        try:
            self._patience.call("revoke_security_group_ingress", rule)
        except CloudError as error:
            if not GONE.search(error.code):
                raise

    def _make(self, operation: str, request: launch_template.Request) -> dict[str, Any] | None:
        """Create a resource; returns None if it exists already."""
        try:
            return self._patience.call(operation, request)
        except CloudError as error:
            if any(word in error.code for word in EXISTS):
                return None
            raise

    def withdraw(self, purchase: Purchase, template: dict[str, str]) -> None:
        """Delete the resources of a purchase that failed; what cannot be deleted is left."""
        with contextlib.suppress(CloudError):
            self._calls.call("ec2", "delete_launch_template", **template)
        if purchase.placement:
            whose = OwnerTags(purchase.cluster, self._owner)
            self._leave_group(whose.name_in(purchase.zone))

    def withdraw_fleet(self, fleet: str) -> None:
        """Delete a fleet that failed; if that fails, it is left."""
        with contextlib.suppress(CloudError):
            self._calls.call("ec2", "delete_fleets", FleetIds=[fleet], TerminateInstances=True)


def _build_name_filters(whose: OwnerTags, vpc: str) -> list[dict[str, object]]:
    return [
        {"Name": "group-name", "Values": [whose.name]},
        {"Name": "vpc-id", "Values": [vpc]},
    ]
