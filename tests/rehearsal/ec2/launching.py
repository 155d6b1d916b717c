"""Reject launches whose template names missing or incompatible resources.

What EC2 resolves before it launches anything, and before a dry run says ``DryRunOperation``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moto.iam.models import iam_backends

from tests.rehearsal.ec2 import late, placement
from tests.rehearsal.ec2.answers import Refusal, type_facts, zones_of
from tests.rehearsal.ec2.market import MARKET

ACCOUNT = "123456789012"


@dataclass(frozen=True)
class Launch:
    """One machine that is asked for.

    Args:
        backend: moto's EC2 of the region.
        data: The launch template's data, or the same fields of RunInstances.
        by_fleet: Whether CreateFleet asks; RunInstances words some refusals in another way.
        on_demand: Whether it is not on the spot market.
    """

    backend: Any
    data: dict[str, Any]
    type: str
    zone: str
    by_fleet: bool = True
    on_demand: bool = False

    @property
    def region(self) -> str:
        return str(self.backend.region_name)

    @property
    def interface(self) -> dict[str, Any]:
        """The first network interface, where the template has one."""
        return next(iter(self.data.get("NetworkInterfaces") or ()), {})

    @property
    def groups(self) -> list[str]:
        """The security groups' ids."""
        return [*self.data.get("SecurityGroupIds", ()), *self.interface.get("Groups", ())]

    @property
    def group(self) -> str:
        """The placement group's name."""
        return str((self.data.get("Placement") or {}).get("GroupName") or "")

    @property
    def credits(self) -> str:
        """The burstable types' mode; T2 apart they are unlimited unless asked otherwise."""
        asked = (self.data.get("CreditSpecification") or {}).get("CpuCredits")
        return str(asked or ("standard" if self.type.startswith("t2.") else "unlimited"))

    @property
    def public(self) -> bool | None:
        """Whether a public address is asked for; None where the subnet decides."""
        asked = self.interface.get("AssociatePublicIpAddress")
        return None if asked is None else str(asked).lower() == "true"


def refuse(launch: Launch) -> Refusal | None:
    """Return why EC2 does not launch this, leaving out capacity, price and quota."""
    return next((found for rule in RULES if (found := rule(launch))), None)


def refuse_template(launch: Launch) -> Refusal | None:
    """Refuse a launch template that the part of EC2 that launches does not know yet."""
    name = launch.data.get("TemplateName", "")
    if not late.is_late(launch.region, late.TEMPLATE, name):
        return None
    return (
        "InvalidLaunchTemplateName.NotFoundException",
        f"The specified launch template, with template name {name}, does not exist.",
    )


def refuse_image(launch: Launch) -> Refusal | None:
    """Refuse an image that the region does not have."""
    image = launch.data.get("ImageId", "")
    if image in launch.backend.amis:
        return None
    return "InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist"


def refuse_architecture(launch: Launch) -> Refusal | None:
    """Refuse a type whose processor is another than the image is for."""
    built = launch.backend.amis[launch.data["ImageId"]].architecture
    able = type_facts(launch.type)["ProcessorInfo"]["SupportedArchitectures"]
    if built in able:
        return None
    return (
        "InvalidParameterValue",
        f"The architecture '{', '.join(able)}' of the specified instance type does not match the "
        f"architecture '{built}' of the specified AMI. Specify an instance type and an AMI that "
        "have matching architectures, and try again. You can use 'describe-instance-types' or "
        "'describe-images' to discover the architecture of the instance type or AMI.",
    )


def refuse_disk(launch: Launch) -> Refusal | None:
    """Refuse a root that is smaller than the image's."""
    image = launch.backend.amis[launch.data["ImageId"]]
    [root] = image.block_device_mappings
    for mapping in launch.data.get("BlockDeviceMappings") or ():
        asked = int((mapping.get("Ebs") or {}).get("VolumeSize") or 0)
        if mapping["DeviceName"] == root["DeviceName"] and 0 < asked < root["Ebs"]["VolumeSize"]:
            return (
                "InvalidBlockDeviceMapping",
                f"Volume of size {asked}GB is smaller than snapshot '{image.ebs_snapshot.id}', "
                f"expect size>= {root['Ebs']['VolumeSize']}GB",
            )
    return None


def refuse_interfaces(launch: Launch) -> Refusal | None:
    """Refuse security groups beside a network interface, which has its own."""
    if not (launch.interface and launch.data.get("SecurityGroupIds")):
        return None
    return (
        "InvalidParameterCombination",
        "Network interfaces and an instance-level security groups may not be specified on the "
        "same request",
    )


def refuse_groups(launch: Launch) -> Refusal | None:
    """Refuse security groups that are not there, or not yet."""
    code = "InvalidSecurityGroupID" if launch.interface else "InvalidGroup"
    for id_ in launch.groups:
        group = launch.backend.get_security_group_from_id(id_)
        if group is None or late.is_late(launch.region, late.GROUP, group.name):
            return f"{code}.NotFound", f"The security group '{id_}' does not exist"
    return None


def refuse_key(launch: Launch) -> Refusal | None:
    """Refuse a key pair that is not there, or not yet."""
    name = launch.data.get("KeyName")
    if not name:
        return None
    if name in launch.backend.key_pairs and not late.is_late(launch.region, late.KEY, name):
        return None
    return "InvalidKeyPair.NotFound", f"The key pair '{name}' does not exist"


def refuse_profile(launch: Launch) -> Refusal | None:
    """Refuse an instance profile that is not there, or not yet (hashicorp/packer#9810)."""
    named = launch.data.get("IamInstanceProfile") or {}
    field, value = next(iter(named.items()), ("", ""))
    name = str(value).rpartition("/")[2]
    if not value:
        return None
    profiles = iam_backends[ACCOUNT]["aws"].instance_profiles
    if name in profiles and not late.is_late(late.EVERYWHERE, late.PROFILE, name):
        return None
    return (
        "InvalidParameterValue",
        f"Value ({value}) for parameter iamInstanceProfile.{field.lower()} is invalid. Invalid "
        f"IAM Instance Profile {field if field == 'ARN' else field.lower()}",
    )


def refuse_zone(launch: Launch) -> Refusal | None:
    """Refuse a type that the zone never has.

    A fleet says it as in hashicorp/packer#9946 and compiler-explorer/infra#601, RunInstances as
    in firesim/firesim#628.
    """
    zones = zones_of(launch.type, launch.region)
    if launch.zone in zones:
        return None
    said = (
        f"Your requested instance type ({launch.type}) is not supported in your requested "
        f"Availability Zone ({launch.zone})."
    )
    if launch.by_fleet:
        return "InvalidFleetConfiguration", said
    others = ", ".join(zones)
    rest = "Please retry your request by not specifying an Availability Zone or choosing"
    return "Unsupported", f"{said} {rest} {others}."


def refuse_placement(launch: Launch) -> Refusal | None:
    """Refuse a placement group that is not there, does not take the type, or is elsewhere."""
    name, key = launch.group, (launch.region, launch.group)
    if not name:
        return None
    if key not in MARKET.groups or late.is_late(launch.region, late.PLACEMENT, name):
        return "InvalidPlacementGroup.Unknown", f"The placement group '{name}' is unknown."
    return placement.refuse_type(launch.type) or placement.refuse_zone(
        name, launch.zone, launch.backend.all_instances()
    )


def refuse_type(launch: Launch) -> Refusal | None:
    """Refuse a type that is not there."""
    if type_facts(launch.type):
        return None
    return "InvalidParameterValue", f"Invalid value '{launch.type}' for InstanceType."


def refuse_tags(launch: Launch) -> Refusal | None:
    """Refuse tags for the spot request of a machine that has none."""
    tagged = [one.get("ResourceType") for one in launch.data.get("TagSpecifications") or ()]
    if not launch.on_demand or "spot-instances-request" not in tagged:
        return None
    return (
        "InvalidParameterValue",
        "'spot-instances-request' is not a valid taggable resource type for this operation.",
    )


def refuse_plan(launch: Launch) -> Refusal | None:
    """Refuse what an account on the free plan may not have (since July 2025)."""
    if not MARKET.free_plan or type_facts(launch.type).get("FreeTierEligible"):
        return None
    return (
        "InvalidParameterCombination",
        "The specified instance type is not eligible for Free Tier. For a list of Free Tier "
        "instance types, run 'describe-instance-types' with the filter 'free-tier-eligible=true'.",
    )


RULES: tuple[Callable[[Launch], Refusal | None], ...] = (
    refuse_type, refuse_image, refuse_architecture, refuse_disk, refuse_interfaces, refuse_groups,
    refuse_key, refuse_tags, refuse_profile, refuse_zone, refuse_plan, refuse_placement,
    refuse_template,
)  # fmt: skip
