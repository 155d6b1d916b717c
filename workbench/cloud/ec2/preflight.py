"""Find what a launch needs in a region, and test every permission by dry runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.cloud.ec2 import launch_template
from workbench.cloud.ec2.api import Ec2Api, build_error
from workbench.cloud.ec2.description import NodeSettings
from workbench.cloud.ec2.image_lookup import find_image
from workbench.cloud.ec2.network import WayOut, check_reach, find_network
from workbench.cloud.ec2.offers import Ec2Offers
from workbench.cloud.ec2.policy import profile_commands
from workbench.cloud.ec2.tags import OwnerTags, resource_tags
from workbench.core.fleet.cloud_errors import ErrorKind, asked_once
from workbench.core.fleet.model import Purchase
from workbench.core.node.findings import Finding
from workbench.errors import CloudError, InputError

# Resources that do not exist, but that the policy allows to delete: so a dry run is decided by the
# policy alone, and not by a condition on the tags of something absent.
NOTHING = "00000000000000000"
NO_FLEET = "fleet-00000000-0000-0000-0000-000000000000"
NO_NAME = "workbench-preflight"
DRY_RUN = "DryRunOperation"


@dataclass(frozen=True)
class _Trial:
    """One dry run.

    Args:
        absent: Pattern of error codes that only mean that a resource does not exist yet.
    """

    operation: str
    request: launch_template.Request
    absent: str = ""


def try_all(
    calls: Ec2Api, catalogue: Ec2Offers, purchase: Purchase, wish: NodeSettings, way: WayOut
) -> tuple[Finding, ...]:
    """Test all that ``purchase`` and its deletion need; without credentials, nothing else."""
    known = _build_finding("credentials", lambda: calls.call("sts", "get_caller_identity")["Arn"])
    if known.ok is False:
        return (known,)
    findings = [
        known,
        _build_finding("network", lambda: _network_text(calls, purchase, wish)),
        _build_finding("way to nodes", lambda: _way_text(way, wish)),
        _build_finding("image", lambda: _image_text(calls, catalogue, purchase, wish.image)),
        _build_finding("quota", lambda: _quota_text(catalogue, purchase)),
    ]
    findings += [
        _dry_run(calls, trial, wish.profile) for trial in _trials(calls, catalogue, purchase, wish)
    ]
    return tuple(findings)


def _network_text(calls: Ec2Api, purchase: Purchase, wish: NodeSettings) -> str:
    network = find_network(calls, wish.subnets)
    if purchase.zone and purchase.zone not in network.places:
        raise build_error("InvalidSubnetID.NotFound", f"{purchase.zone} has no subnet to launch in")
    if wish.public:
        check_reach(calls, network, purchase.zone)
    public = wish.public or all(one.public for one in network.within(purchase.zone).values())
    addresses = "public addresses" if public else "private addresses alone"
    return f"{network.vpc}, a subnet in {', '.join(sorted(network.places))}, {addresses}"


def _way_text(way: WayOut, wish: NodeSettings) -> str:
    if fault := way.fault(wish.ssh_sources):
        raise fault
    return "no obstacle to ssh is known"


def _image_text(calls: Ec2Api, catalogue: Ec2Offers, purchase: Purchase, image: str) -> str:
    gpus = any(catalogue.kind(type_).gpus for type_ in purchase.types)
    found = find_image(calls, image, gpus=gpus)
    called = f"{found.title}, " if found.title else ""
    return f"{called}{found.id}, root {found.root} of {found.size} GiB"


def _quota_text(catalogue: Ec2Offers, purchase: Purchase) -> str:
    left, code_of, over = catalogue.quotas(), catalogue.quota_code, catalogue.over_quota
    parts = []
    for type_ in purchase.types:
        needed = catalogue.kind(type_).vcpus * purchase.count
        have = left.get(code_of(type_))
        if have is not None and needed > have:
            raise build_error(
                over,
                f"{purchase.count} × {type_} need {needed} vCPUs, and {have} are left",
            )
        parts.append(f"{type_}: {needed} of {'unknown' if have is None else have} vCPUs")
    return ", ".join(parts)


def _trials(
    calls: Ec2Api, catalogue: Ec2Offers, purchase: Purchase, wish: NodeSettings
) -> Iterator[_Trial]:
    """Yield each call in the life of a purchase, in order."""
    try:
        network = find_network(calls, wish.subnets)
        gpus = any(catalogue.kind(type_).gpus for type_ in purchase.types)
        boots = find_image(calls, wish.image, gpus=gpus)
        group = _default_group(calls, network.vpc)
    except (CloudError, InputError):
        return  # reported already, and no request can be made without them
    whose = OwnerTags(purchase.cluster)
    tags = resource_tags(whose, purchase.token)
    template = launch_template.build_template(
        purchase,
        "",
        tags,
        image=boots,
        group_id=group,
        public=wish.public,
        profile=wish.profile,
        on_demand=wish.on_demand,
    )
    rule = launch_template.build_ingress(f"sg-{NOTHING}", ())[0]
    nothing = {"LaunchTemplateId": f"lt-{NOTHING}"}
    fleet = launch_template.build_fleet(
        purchase, nothing, network.subnets, (), on_demand=wish.on_demand
    )
    [subnet, *_] = network.within(purchase.zone).values()
    yield _Trial("create_security_group", launch_template.build_group(whose, network.vpc, tags))
    yield _Trial("authorize_security_group_ingress", rule, _NO_GROUP)
    yield _Trial("revoke_security_group_ingress", rule, _NO_GROUP)
    yield _Trial(
        "create_placement_group", launch_template.build_placement_group(whose, purchase.zone, tags)
    )
    yield _Trial("create_launch_template", template)
    yield _Trial("create_fleet", fleet, r"InvalidLaunchTemplate\w*\.NotFound")
    single = _build_single_launch(template["LaunchTemplateData"], purchase, subnet.id)
    market = {} if wish.on_demand else {"InstanceMarketOptions": {"MarketType": "spot"}}
    yield _Trial("run_instances", {**single, **market})
    yield from (_Trial(operation, request, _GONE) for operation, request in _DELETIONS.items())
    yield from (_Trial(operation, {}) for operation in _READS)


def _default_group(calls: Ec2Api, vpc: str) -> str:
    """Return an existing security group: EC2 looks each id up before it checks permissions.

    Raises:
        CloudError: EC2 does not answer, or denies the call.
    """
    filters = [
        {"Name": "vpc-id", "Values": [vpc]},
        {"Name": "group-name", "Values": ["default"]},
    ]
    rows = list(calls.rows("ec2", "describe_security_groups", "SecurityGroups", Filters=filters))
    if not rows:
        raise build_error("InvalidGroup.NotFound", f"{vpc} has no default security group")
    return str(rows[0]["GroupId"])


_NO_GROUP = r"Invalid(Group|SecurityGroupI[dD])\.NotFound"
_GONE = r"NotFound|\.Unknown|InvalidFleetId"
_DELETIONS: Mapping[str, launch_template.Request] = {
    "delete_fleets": {"FleetIds": [NO_FLEET], "TerminateInstances": True},
    "terminate_instances": {"InstanceIds": [f"i-{NOTHING}"]},
    "get_console_output": {"InstanceId": f"i-{NOTHING}"},
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
    "describe_route_tables",
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


def _build_single_launch(
    template: launch_template.Request, purchase: Purchase, subnet: str
) -> launch_template.Request:
    """Return the launch of one node without a fleet: CreateFleet's own dry run checks less.

    EC2 takes the subnet beside the groups: with an interface, both belong to the interface.
    """
    request = {key: value for key, value in template.items() if key != "Placement"}
    cards = [{**card, "SubnetId": subnet} for card in request.get("NetworkInterfaces", ())]
    where: launch_template.Request = {"NetworkInterfaces": cards} if cards else {"SubnetId": subnet}
    return {
        **request,
        **where,
        "InstanceType": purchase.types[0],
        "MinCount": 1,
        "MaxCount": 1,
    }


def _dry_run(calls: Ec2Api, trial: _Trial, profile: str) -> Finding:
    """Make one dry run: the call is allowed only if EC2 answers ``DryRunOperation``.

    EC2 looks up the named resources first, so for absent ones the result is unknown.
    """
    action = "ec2:" + "".join(word.capitalize() for word in trial.operation.split("_"))
    try:
        calls.call("ec2", trial.operation, **trial.request, DryRun=True)
    except CloudError as error:
        if error.code == DRY_RUN:
            return Finding(action, True, "allowed")
        if trial.absent and re.search(trial.absent, error.code):
            return Finding(action, None, f"unknown: what it names does not exist ({error.code})")
        if "Invalid IAM Instance Profile" in error.provider_message:
            return Finding(action, False, error.code, _no_profile(profile))
        if error.kind == ErrorKind.THROTTLING:
            return Finding(action, None, f"unknown: not tried ({error.code})")
        return Finding(action, False, error.code, str(asked_once(error)))
    return Finding(action, None, "unknown: EC2 took no notice of DryRun")


def _no_profile(profile: str) -> str:
    return (
        f"There is no instance profile {profile!r}, which gives nodes the right to your bucket; "
        f"make it once, or have an administrator do so: {' && '.join(profile_commands(profile))}; "
        "`workbench doctor --iam node` prints the policy that this role needs."
    )


def _build_finding(check: str, found: Callable[[], Any]) -> Finding:
    try:
        return Finding(check, True, str(found()))
    except CloudError as error:
        return Finding(check, False, error.code, str(asked_once(error)))
    except InputError as error:
        return Finding(check, False, "refused", str(error))
