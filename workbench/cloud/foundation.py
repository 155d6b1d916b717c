"""Make what a cluster has once in EC2, and what one purchase is launched from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.cloud import launch
from workbench.cloud.calls import Calls, refused
from workbench.cloud.catalogue import Catalogue
from workbench.cloud.doors import own_door
from workbench.cloud.preflight import find_image
from workbench.cloud.tags import Whose, borne
from workbench.core.fleet import Purchase
from workbench.core.orders import LAG_SECONDS
from workbench.errors import CloudRefused

POLL_SECONDS = 2.0
EXISTS = ("Duplicate", "AlreadyExists")
NEW = ("InvalidLaunchTemplate", "InvalidGroup", "InvalidPlacementGroup", "InvalidKeyPair")


@dataclass(frozen=True)
class Settings:
    """What is the same for all purchases of a cluster; fields as of ``Ec2``."""

    public_key: str
    doors: Callable[[], Sequence[str]]
    must_reach: bool
    profile: Callable[[], str]
    image: Callable[[], str]
    disk: int
    owner: str


class Patience:
    """Calls about things that were just made, which EC2 does not list at once."""

    def __init__(
        self, calls: Calls, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._sleep = sleep

    def call(
        self, operation: str, request: launch.Request, new: Sequence[str] = NEW
    ) -> dict[str, Any]:
        """Make a call that names what may not be listed yet: its codes begin as ``new`` says."""
        deadline = self._clock() + LAG_SECONDS
        while True:
            try:
                return self._calls.call("ec2", operation, **request)
            except CloudRefused as error:
                if not error.code.startswith(tuple(new)) or "NotFound" not in error.code:
                    raise
                self.wait(deadline, error)

    def first(self, operation: str, path: str, **request: Any) -> dict[str, Any]:
        """Return what is known to be there, as soon as it is listed."""
        deadline = self._clock() + LAG_SECONDS
        while not (found := list(self._calls.rows("ec2", operation, path, **request))):
            self.wait(deadline, refused("NoAnswer", f"{path} are there and not listed"))
        return found[0]

    def wait(self, deadline: float, error: CloudRefused) -> None:
        """Wait a little, or give up when ``deadline`` has come.

        Raises:
            CloudRefused: ``error``, as it is then.
        """
        if self._clock() >= deadline:
            raise error
        self._sleep(POLL_SECONDS)


class Foundation:
    """What the machines of a cluster stand on."""

    def __init__(
        self, calls: Calls, catalogue: Catalogue, patience: Patience, settings: Settings
    ) -> None:
        self._calls = calls
        self._catalogue = catalogue
        self._patience = patience
        self.settings = settings

    def template(
        self, purchase: Purchase, user_data: str, tags: launch.Tags, vpc: str
    ) -> dict[str, str]:
        """Make what the nodes of a purchase are launched from, or find it made; name it."""
        whose = Whose(purchase.cluster, self.settings.owner)
        ours = borne(whose, tags=tags)
        group = self._group(whose, vpc, ours)
        if self.settings.public_key:
            self._make(
                "import_key_pair",
                launch.key_pair(whose, self.settings.public_key, ours),
            )
        if purchase.placement:
            self._make("create_placement_group", launch.placement_group(whose, ours))
        gpus = any(self._catalogue.kind(type_).gpus for type_ in purchase.types)
        request = launch.template(
            purchase,
            user_data,
            tags,
            image=find_image(self._calls, self.settings.image(), gpus=gpus),
            group_id=group,
            key_name=whose.name if self.settings.public_key else "",
            profile=self.settings.profile(),
            disk=self.settings.disk,
            owner=self.settings.owner,
        )
        self._make("create_launch_template", request)
        return {"LaunchTemplateName": request["LaunchTemplateName"]}

    def admit(self, cluster: str, vpc: str) -> None:
        """Let in who is to be let in by now, where the cluster has a security group."""
        whose = Whose(cluster, self.settings.owner)
        rows = self._calls.rows("ec2", "describe_security_groups", "SecurityGroups",
                                Filters=_named(whose, vpc))  # fmt: skip
        for group in rows:
            self._let_in(str(group["GroupId"]), self._doors(vpc))

    def _group(self, whose: Whose, vpc: str, tags: launch.Tags) -> str:
        """Make the security group and let its members in, or find it made; return its id."""
        doors = self._doors(vpc)
        made = self._make("create_security_group", launch.group(whose, vpc, tags))
        if made is None:
            made = self._patience.first(
                "describe_security_groups", "SecurityGroups", Filters=_named(whose, vpc)
            )
        group = str(made["GroupId"])
        self._let_in(group, doors)
        return group

    def _doors(self, vpc: str) -> tuple[str, ...]:
        """Return whose ssh is let in.

        Raises:
            CloudRefused: No door is named, and this computer is not in the network itself.
        """
        doors = tuple(self.settings.doors())
        if doors or not self.settings.must_reach:
            return doors
        return (own_door(vpc, self._calls.region),)

    def _let_in(self, group: str, doors: Sequence[str]) -> None:
        # One by one: a rule that is there already keeps EC2 from making those beside it.
        for rule in launch.ingress(group, doors):
            self._make("authorize_security_group_ingress", rule)

    def _make(self, operation: str, request: launch.Request) -> dict[str, Any] | None:
        """Make a thing of the cluster's; None when it is there already."""
        try:
            return self._patience.call(operation, request)
        except CloudRefused as error:
            if any(word in error.code for word in EXISTS):
                return None
            raise

    def withdraw(self, template: dict[str, str], fleet: str = "") -> None:
        """Delete what a purchase that came to nothing has left; what fails is left to clean."""
        try:
            if fleet:
                self._calls.call("ec2", "delete_fleets", FleetIds=[fleet], TerminateInstances=True)
            self._calls.call("ec2", "delete_launch_template", **template)
        except CloudRefused:
            return


def _named(whose: Whose, vpc: str) -> list[dict[str, object]]:
    return [
        {"Name": "group-name", "Values": [whose.name]},
        {"Name": "vpc-id", "Values": [vpc]},
    ]
