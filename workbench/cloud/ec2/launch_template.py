"""Build the requests to the EC2 API that launch nodes."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.cloud.ec2.description import check_ssh_source
from workbench.cloud.ec2.tags import OwnerTags, encode_tags, resource_tags
from workbench.core.fleet.model import Purchase
from workbench.errors import InputError

MAX_USER_DATA_NBYTES = 16 * 1024
TAGGED = ("instance", "volume", "network-interface")
SPOT_REQUEST = "spot-instances-request"
SSH = 22
# Marks our rules; other rules were added by users.
_WHY = "ssh from the supervisor"

Tags = Sequence[tuple[str, str]]
Request = dict[str, Any]


@dataclass(frozen=True)
class Image:
    """An image that nodes boot.

    Args:
        root: Name of its root device; each image defines its own.
        size: GiB that its root volume needs at least.
        title: Its name for a reader.
    """

    id: str
    root: str
    size: int = 8
    title: str = ""


def template_name(purchase: Purchase, owner: str = "") -> str:
    """Return the launch template's name, which follows from the token."""
    name = OwnerTags(purchase.cluster, owner).name
    return f"{name}-{re.sub(r'[^A-Za-z0-9]', '-', purchase.token)[:40]}"


def build_tags(kind: str, tags: Tags) -> list[Request]:
    """Return the tags of one resource, for the call that creates it."""
    return [{"ResourceType": kind, "Tags": encode_tags(tags)}]


def build_group(whose: OwnerTags, vpc: str, tags: Tags) -> Request:
    """Return the request that creates the security group."""
    return {
        "GroupName": whose.name,
        "Description": f"Nodes of the workbench cluster {whose.cluster}; they reach each other.",
        "VpcId": vpc,
        "TagSpecifications": build_tags("security-group", tags),
    }


def build_ingress(group_id: str, ssh_sources: Sequence[str]) -> list[Request]:
    """Return the rules: all traffic between the group's members, and ssh from these networks.

    Raises:
        InputError: A network is not valid.
    """
    members = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}
    rules = [members, *(_ssh_from(str(check_ssh_source(ssh_source))) for ssh_source in ssh_sources)]
    return [{"GroupId": group_id, "IpPermissions": [rule]} for rule in rules]


def build_revocations(
    group_id: str, ssh_sources: Sequence[str], rules: Sequence[Mapping[str, Any]]
) -> list[Request]:
    """Return the requests that remove rules of ``build_ingress`` for networks no longer listed.

    Args:
        rules: The group's present ``IpPermissions``.
    """
    wished = {str(check_ssh_source(ssh_source)) for ssh_source in ssh_sources}
    let_in = [
        one["CidrIp"]
        for rule in rules
        if rule.get("FromPort") == SSH and rule.get("ToPort") == SSH
        for one in rule.get("IpRanges", ())
        if one.get("Description") == _WHY
    ]
    return [
        {"GroupId": group_id, "IpPermissions": [_ssh_from(ssh_source)]}
        for ssh_source in let_in
        if ssh_source not in wished
    ]


def _ssh_from(ssh_source: str) -> Request:
    return {
        "IpProtocol": "tcp",
        "FromPort": SSH,
        "ToPort": SSH,
        "IpRanges": [{"CidrIp": ssh_source, "Description": _WHY}],
    }


def build_placement_group(whose: OwnerTags, zone: str, tags: Tags) -> Request:
    """Return the request for a placement group, which keeps nodes close together in one zone."""
    return {
        "GroupName": whose.name_in(zone),
        "Strategy": "cluster",
        "TagSpecifications": build_tags("placement-group", tags),
    }


def build_template(
    purchase: Purchase,
    user_data: str,
    tags: Tags,
    *,
    image: Image,
    group_id: str,
    public: bool = False,
    profile: str = "",
    disk: int = 0,
    owner: str = "",
    credits: bool = False,
    on_demand: bool = False,
) -> Request:
    """Return the request that creates the launch template of one purchase.

    Args:
        public: Whether each node gets a public IPv4 address, whatever its subnet's default; if
            False, the subnet's default applies.
        profile: The instance profile of the nodes' role; empty for a node without any right.
        disk: GiB of the root volume, if the image needs no more.
        owner: The cluster's owner; empty in an account that is not shared.
        credits: Whether all its types compute by CPU credits. Use beyond earned credits would be
            billed, at many times a spot price; so such nodes slow down instead (EC2 guide,
            "Unlimited mode").
        on_demand: Whether they are bought on demand; EC2 then refuses tags for a spot request.

    Raises:
        InputError: The user-data is longer than EC2's limit.
    """
    nbytes = len(user_data.encode())
    if nbytes > MAX_USER_DATA_NBYTES:
        raise InputError(
            f"What a node does when it boots takes {nbytes} bytes, and EC2 takes "
            f"{MAX_USER_DATA_NBYTES}",
            "shorten the prepare script, or bake an image.",
        )
    whose = OwnerTags(purchase.cluster, owner)
    every = resource_tags(whose, purchase.token, tags)
    root = {
        "VolumeType": "gp3",
        "VolumeSize": max(disk, image.size),
        "Encrypted": True,
        "DeleteOnTermination": True,
    }
    data: Request = {
        "ImageId": image.id,
        **_build_interface(group_id, public=public),
        "UserData": base64.b64encode(user_data.encode()).decode(),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "BlockDeviceMappings": [{"DeviceName": image.root, "Ebs": root}],
        "MetadataOptions": {
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
            "HttpEndpoint": "enabled",
        },
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": encode_tags(every)}
            for kind in (*TAGGED, *([] if on_demand else [SPOT_REQUEST]))
        ],
    }
    if credits:
        data["CreditSpecification"] = {"CpuCredits": "standard"}
    if profile:
        data["IamInstanceProfile"] = {"Arn" if profile.startswith("arn:") else "Name": profile}
    if purchase.placement:
        data["Placement"] = {"GroupName": whose.name_in(purchase.zone)}
    return {
        "LaunchTemplateName": template_name(purchase, owner),
        "LaunchTemplateData": data,
        "TagSpecifications": build_tags("launch-template", every),
    }


def _build_interface(group_id: str, *, public: bool) -> Request:
    """Return a node's network settings.

    Only an interface can request a public address, and then it has the groups; its subnet is set at
    the launch (Karpenter's templates do so too).
    """
    if not public:
        return {"SecurityGroupIds": [group_id]}
    card = {
        "DeviceIndex": 0,
        "AssociatePublicIpAddress": True,
        "Groups": [group_id],
        "DeleteOnTermination": True,
    }
    return {"NetworkInterfaces": [card]}


def build_fleet(
    purchase: Purchase,
    template: Mapping[str, str],
    subnets: Mapping[str, str],
    tags: Tags,
    owner: str = "",
    *,
    on_demand: bool = False,
) -> Request:
    """Return the request for the nodes: all of one type in one zone, at least ``min_nodes``.

    Args:
        template: Its name or its id.
        subnets: Zone to the subnet for nodes in it.
        on_demand: Whether they are bought on demand, where prices are fixed and need no maximum.

    Raises:
        InputError: The zone has no subnet.
    """
    zones = [purchase.zone] if purchase.zone else sorted(subnets)
    if missing := [zone for zone in zones if zone not in subnets]:
        raise InputError(
            f"{missing[0]} has no subnet to launch in",
            f"take one of {', '.join(sorted(subnets))}, "
            "name one there (--subnet subnet-…), or make it: aws ec2 create-default-subnet "
            f"--availability-zone {missing[0]}.",
        )
    has_limit = purchase.max_price and not on_demand
    price = {"MaxPrice": f"{purchase.max_price:.6f}"} if has_limit else {}
    together = {
        "SingleInstanceType": True,
        "SingleAvailabilityZone": True,
        "MinTargetCapacity": min(max(1, purchase.min_nodes), purchase.count),
    }
    spot = {
        "AllocationStrategy": "price-capacity-optimized",
        "InstanceInterruptionBehavior": "terminate",
        **together,
    }
    options = (
        {"OnDemandOptions": {"AllocationStrategy": "lowest-price", **together}}
        if on_demand
        else {"SpotOptions": spot}
    )
    every = resource_tags(OwnerTags(purchase.cluster, owner), purchase.token, tags)
    return {
        "Type": "instant",
        "ClientToken": purchase.token[:64],
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {**template, "Version": "1"},
                "Overrides": [
                    {"InstanceType": type_, "SubnetId": subnets[zone], **price}
                    for type_ in purchase.types
                    for zone in zones
                ],
            }
        ],
        **options,
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": purchase.count,
            "DefaultTargetCapacityType": "on-demand" if on_demand else "spot",
        },
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": encode_tags(every)} for kind in ("fleet", "instance")
        ],
    }
