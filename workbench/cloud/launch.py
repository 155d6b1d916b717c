"""Say what is asked of EC2 to launch nodes, as the requests that its API takes."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.cloud.tags import Whose, asked, borne
from workbench.core.doors import check_door
from workbench.core.fleet import Purchase
from workbench.errors import InputError

MAX_USER_DATA_NBYTES = 16 * 1024
TAGGED = ("instance", "volume", "network-interface", "spot-instances-request")
SSH = 22

Tags = Sequence[tuple[str, str]]
Request = dict[str, Any]


@dataclass(frozen=True)
class Image:
    """What a node boots.

    Args:
        root: Name of its root device, which is the image's own to say.
        nbytes: GiB that its root needs at least.
    """

    id: str
    root: str
    size: int = 8


def template_name(purchase: Purchase, owner: str = "") -> str:
    """Return the launch template's name; the same token has the same template."""
    name = Whose(purchase.cluster, owner).name
    return f"{name}-{re.sub(r'[^A-Za-z0-9]', '-', purchase.token)[:40]}"


def tagged(kind: str, tags: Tags) -> list[Request]:
    """Return what tags one thing inside the call that makes it."""
    return [{"ResourceType": kind, "Tags": asked(tags)}]


def group(whose: Whose, vpc: str, tags: Tags) -> Request:
    """Ask for the security group."""
    return {
        "GroupName": whose.name,
        "Description": f"Nodes of the workbench cluster {whose.cluster}; they reach each other.",
        "VpcId": vpc,
        "TagSpecifications": tagged("security-group", tags),
    }


def ingress(group_id: str, doors: Sequence[str]) -> list[Request]:
    """Ask that the group's members reach each other, and ``doors`` their ssh.

    Raises:
        InputError: A door is open to more than one address of the public network.
    """
    rules: list[Request] = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}]
    for door in doors:
        network = check_door(door)
        ranges, entry = (
            ("IpRanges", "CidrIp") if network.version == 4 else ("Ipv6Ranges", "CidrIpv6")
        )
        rules.append(
            {
                "IpProtocol": "tcp",
                "FromPort": SSH,
                "ToPort": SSH,
                ranges: [{entry: str(network), "Description": "ssh from the supervisor"}],
            }
        )
    return [{"GroupId": group_id, "IpPermissions": [rule]} for rule in rules]


def key_pair(whose: Whose, public_key: str, tags: Tags) -> Request:
    """Ask that the cluster's public user key be known."""
    return {
        "KeyName": whose.name,
        "PublicKeyMaterial": public_key.encode(),
        "TagSpecifications": tagged("key-pair", tags),
    }


def placement_group(whose: Whose, tags: Tags) -> Request:
    """Ask for nodes that stand close together."""
    return {
        "GroupName": whose.name,
        "Strategy": "cluster",
        "TagSpecifications": tagged("placement-group", tags),
    }


def template(
    purchase: Purchase,
    user_data: str,
    tags: Tags,
    *,
    image: Image,
    group_id: str,
    key_name: str = "",
    profile: str = "",
    disk: int = 0,
    owner: str = "",
) -> Request:
    """Ask for the launch template of one purchase.

    Args:
        key_name: Of the key pair; empty for none.
        profile: The instance profile of the nodes' role; empty for a node without any right.
        disk: GiB of the root volume, if the image needs no more.
        owner: Who buys it; empty where nobody else has the account.

    Raises:
        InputError: The user-data is longer than EC2 takes.
    """
    nbytes = len(user_data.encode())
    if nbytes > MAX_USER_DATA_NBYTES:
        raise InputError(
            f"What a node does when it boots takes {nbytes} bytes, and EC2 takes "
            f"{MAX_USER_DATA_NBYTES}; shorten the prepare script, or bake an image."
        )
    whose = Whose(purchase.cluster, owner)
    every = borne(whose, purchase.token, tags)
    root = {
        "VolumeType": "gp3",
        "VolumeSize": max(disk, image.size),
        "Encrypted": True,
        "DeleteOnTermination": True,
    }
    data: Request = {
        "ImageId": image.id,
        "SecurityGroupIds": [group_id],
        "UserData": base64.b64encode(user_data.encode()).decode(),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "BlockDeviceMappings": [{"DeviceName": image.root, "Ebs": root}],
        "MetadataOptions": {
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
            "HttpEndpoint": "enabled",
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": asked(every)} for kind in TAGGED],
    }
    if key_name:
        data["KeyName"] = key_name
    if profile:
        data["IamInstanceProfile"] = {"Arn" if profile.startswith("arn:") else "Name": profile}
    if purchase.placement:
        data["Placement"] = {"GroupName": whose.name}
    return {
        "LaunchTemplateName": template_name(purchase, owner),
        "LaunchTemplateData": data,
        "TagSpecifications": tagged("launch-template", every),
    }


def fleet(
    purchase: Purchase,
    template: Mapping[str, str],
    subnets: Mapping[str, str],
    tags: Tags,
    owner: str = "",
) -> Request:
    """Ask for the nodes: all of one type in one zone, at least ``least`` or none.

    Args:
        template: Its name, which the same token always has, or its id.
        subnets: Zone to the subnet in which to launch there.

    Raises:
        InputError: The zone has no subnet.
    """
    zones = [purchase.zone] if purchase.zone else sorted(subnets)
    if missing := [zone for zone in zones if zone not in subnets]:
        raise InputError(
            f"{missing[0]} has no default subnet; take one of {', '.join(sorted(subnets))}, "
            "or make one: aws ec2 create-default-subnet."
        )
    price = {"MaxPrice": f"{purchase.most_price:.6f}"} if purchase.most_price else {}
    every = borne(Whose(purchase.cluster, owner), purchase.token, tags)
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
        "SpotOptions": {
            "AllocationStrategy": "price-capacity-optimized",
            "InstanceInterruptionBehavior": "terminate",
            "SingleInstanceType": True,
            "SingleAvailabilityZone": True,
            "MinTargetCapacity": min(max(1, purchase.least), purchase.count),
        },
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": purchase.count,
            "DefaultTargetCapacityType": "spot",
        },
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": asked(every)} for kind in ("fleet", "instance")
        ],
    }
