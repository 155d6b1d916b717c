"""Find what a launch needs in a region, and try every permission without doing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.cloud import launch
from workbench.cloud.calls import Calls, refused
from workbench.cloud.catalogue import Catalogue
from workbench.cloud.inventory import quota_code
from workbench.cloud.tags import Whose, borne
from workbench.core.diagnosis import Finding
from workbench.core.fleet import Purchase
from workbench.core.refusal import Kind
from workbench.errors import CloudRefused

# Public parameters, maintained by AWS and Canonical; the first one that a region has is taken.
_DEEP = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-{}/latest/ami-id"
_PLAIN = "/aws/service/canonical/ubuntu/server/{}/stable/current/amd64/hvm/{}/ami-id"
GPU_IMAGES = (_DEEP.format("ubuntu-24.04"), _DEEP.format("ubuntu-22.04"))
PLAIN_IMAGES = (_PLAIN.format("24.04", "ebs-gp3"), _PLAIN.format("22.04", "ebs-gp2"))
# Things that do not exist, which the policy lets be deleted: so a trial is answered by what the
# policy says, and not by what a condition on tags makes of nothing.
NOTHING = "00000000000000000"
NO_FLEET = "fleet-00000000-0000-0000-0000-000000000000"
NO_NAME = "workbench-preflight"
DRY_RUN = "DryRunOperation"


@dataclass(frozen=True)
class Network:
    """Where nodes are launched.

    Args:
        subnets: Zone to its default subnet.
    """

    vpc: str
    subnets: Mapping[str, str]


def find_network(calls: Calls) -> Network:
    """Return the default network of the region.

    Raises:
        CloudRefused: There is none, or the place does not answer.
    """
    default = [{"Name": "is-default", "Values": ["true"]}]
    vpcs = list(calls.rows("ec2", "describe_vpcs", "Vpcs", Filters=default))
    if not vpcs:
        raise refused("VPCIdNotSpecified", f"{calls.region} has no default VPC")
    vpc = str(vpcs[0]["VpcId"])
    filters = [
        {"Name": "vpc-id", "Values": [vpc]},
        {"Name": "default-for-az", "Values": ["true"]},
    ]
    rows = calls.rows("ec2", "describe_subnets", "Subnets", Filters=filters)
    subnets = {row["AvailabilityZone"]: row["SubnetId"] for row in rows}
    if not subnets:
        raise refused("InvalidSubnetID.NotFound", f"{vpc} has no default subnet in any zone")
    return Network(vpc, subnets)


def find_image(calls: Calls, wished: str, *, gpus: bool) -> launch.Image:
    """Return what nodes boot.

    Args:
        wished: An image's id, or the name of a parameter that holds one; empty to look it up.
        gpus: Whether the nodes have any, and need its driver.

    Raises:
        CloudRefused: There is no such image, or the place does not answer.
    """
    names = (wished,) if wished.startswith("/") else (GPU_IMAGES if gpus else PLAIN_IMAGES)
    id_ = wished if wished and not wished.startswith("/") else _looked_up(calls, names)
    found = calls.call("ec2", "describe_images", ImageIds=[id_])["Images"]
    if not found:
        raise refused("InvalidAMIID.NotFound", f"{id_} is not in {calls.region}")
    root = str(found[0].get("RootDeviceName") or "/dev/sda1")
    sizes = [
        mapping["Ebs"].get("VolumeSize", 0)
        for mapping in found[0].get("BlockDeviceMappings", ())
        if mapping.get("DeviceName") == root and "Ebs" in mapping
    ]
    return launch.Image(id_, root, max([8, *sizes]))


def try_all(
    calls: Calls, catalogue: Catalogue, purchase: Purchase, image: str, profile: str
) -> tuple[Finding, ...]:
    """Try what ``purchase`` and its deletion need; without credentials, nothing else is tried."""
    known = _tried("credentials", lambda: calls.call("sts", "get_caller_identity")["Arn"])
    if known.ok is False:
        return (known,)
    findings = [
        known,
        _tried("network", lambda: _told_network(calls, purchase)),
        _tried("image", lambda: _told_image(calls, catalogue, purchase, image)),
        _tried("quota", lambda: _told_quota(catalogue, purchase)),
    ]
    findings += [
        _permitted(calls, operation, request)
        for operation, request in _trials(calls, catalogue, purchase, image, profile)
    ]
    return tuple(findings)


def _looked_up(calls: Calls, names: tuple[str, ...]) -> str:
    answer = calls.call("ssm", "get_parameters", Names=list(names))
    found = {row["Name"]: row["Value"] for row in answer["Parameters"]}
    ids = [str(found[name]) for name in names if name in found]
    if not ids:
        raise CloudRefused(
            f"{calls.region} has no public image for these nodes (no SSM parameter "
            f"{' or '.join(names)}); name one that it has (--image ami-…), or choose another "
            "region.",
            Kind.CONFIGURATION,
            "InvalidAMIID.NotFound",
        )
    return ids[0]


def _told_network(calls: Calls, purchase: Purchase) -> str:
    network = find_network(calls)
    if purchase.zone and purchase.zone not in network.subnets:
        raise refused("InvalidSubnetID.NotFound", f"{purchase.zone} has no default subnet")
    return f"{network.vpc}, a subnet in {', '.join(sorted(network.subnets))}"


def _told_image(calls: Calls, catalogue: Catalogue, purchase: Purchase, image: str) -> str:
    gpus = any(catalogue.kind(type_).gpus for type_ in purchase.types)
    found = find_image(calls, image, gpus=gpus)
    return f"{found.id}, root {found.root} of {found.size} GiB"


def _told_quota(catalogue: Catalogue, purchase: Purchase) -> str:
    left = catalogue.quotas()
    told = []
    for type_ in purchase.types:
        needed = catalogue.kind(type_).vcpus * purchase.count
        have = left.get(quota_code(type_))
        if have is not None and needed > have:
            raise refused(
                "MaxSpotInstanceCountExceeded",
                f"{purchase.count} × {type_} need {needed} vCPUs, and {have} are left",
            )
        told.append(f"{type_}: {needed} of {'unknown' if have is None else have} vCPUs")
    return ", ".join(told)


def _trials(
    calls: Calls, catalogue: Catalogue, purchase: Purchase, image: str, profile: str
) -> Iterator[tuple[str, launch.Request]]:
    """Give each call of a purchase's life, in the order in which it would be made."""
    try:
        network = find_network(calls)
        gpus = any(catalogue.kind(type_).gpus for type_ in purchase.types)
        boots = find_image(calls, image, gpus=gpus)
    except CloudRefused:
        return  # told already, and without them there is nothing to ask for
    whose = Whose(purchase.cluster)
    tags = borne(whose, purchase.token)
    group = f"sg-{NOTHING}"
    template = launch.template(purchase, "", tags, image=boots, group_id=group, profile=profile)
    subnet = network.subnets.get(purchase.zone) or next(iter(network.subnets.values()))
    yield "create_security_group", launch.group(whose, network.vpc, tags)
    yield "authorize_security_group_ingress", launch.ingress(group, ())[0]
    yield "import_key_pair", launch.key_pair(whose, _A_KEY, tags)
    yield "create_placement_group", launch.placement_group(whose, tags)
    yield "create_launch_template", template
    nothing = {"LaunchTemplateId": f"lt-{NOTHING}"}
    yield "create_fleet", launch.fleet(purchase, nothing, network.subnets, ())
    yield "run_instances", _alone(template["LaunchTemplateData"], purchase, subnet)
    yield from _DELETIONS.items()
    yield from ((operation, {}) for operation in _READS)


_A_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
_DELETIONS: Mapping[str, launch.Request] = {
    "delete_fleets": {"FleetIds": [NO_FLEET], "TerminateInstances": True},
    "terminate_instances": {"InstanceIds": [f"i-{NOTHING}"]},
    "cancel_spot_instance_requests": {"SpotInstanceRequestIds": ["sir-00000000"]},
    "delete_volume": {"VolumeId": f"vol-{NOTHING}"},
    "delete_network_interface": {"NetworkInterfaceId": f"eni-{NOTHING}"},
    "delete_launch_template": {"LaunchTemplateId": f"lt-{NOTHING}"},
    "delete_placement_group": {"GroupName": NO_NAME},
    "delete_key_pair": {"KeyName": NO_NAME},
    "delete_security_group": {"GroupId": f"sg-{NOTHING}"},
}
_READS = (
    "describe_regions",
    "describe_instances",
    "describe_fleets",
    "describe_spot_instance_requests",
    "describe_volumes",
    "describe_network_interfaces",
    "describe_launch_templates",
    "describe_placement_groups",
    "describe_key_pairs",
    "describe_security_groups",
    "describe_tags",
    "describe_images",
    "describe_snapshots",
    "describe_instance_types",
    "describe_instance_type_offerings",
    "describe_spot_price_history",
)


def _alone(template: launch.Request, purchase: Purchase, subnet: str) -> launch.Request:
    """Return the launch of one node without a fleet: CreateFleet's own trial looks no deeper."""
    left_out = ("Placement", "KeyName")
    return {
        **{key: value for key, value in template.items() if key not in left_out},
        "InstanceType": purchase.types[0],
        "SubnetId": subnet,
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceMarketOptions": {"MarketType": "spot"},
    }


def _permitted(calls: Calls, operation: str, request: launch.Request) -> Finding:
    """Try one call with ``DryRun``; any answer but a refusal of permission is a permission."""
    action = "ec2:" + "".join(word.capitalize() for word in operation.split("_"))
    try:
        calls.call("ec2", operation, **request, DryRun=True)
    except CloudRefused as error:
        if error.kind in (Kind.PERMISSION, Kind.CREDENTIALS):
            return Finding(action, False, error.code, str(error))
        if error.kind == Kind.THROTTLING and error.code != "InvalidInstanceID.NotFound":
            return Finding(action, None, f"not tried: {error.code}")
    return Finding(action, True, "allowed")


def _tried(check: str, found: Callable[[], Any]) -> Finding:
    try:
        return Finding(check, True, str(found()))
    except CloudRefused as error:
        return Finding(check, False, error.code, str(error))
