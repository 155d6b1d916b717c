"""Answer dry runs: names are resolved before the answer ``DryRunOperation``.

Only a dry run with real ids is sure to answer DryRunOperation or UnauthorizedOperation (Karpenter
makes its launch template before it tries CreateFleet).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.rehearsal.ec2 import late, launching
from tests.rehearsal.ec2.answers import Refusal
from tests.rehearsal.ec2.market import MARKET

Params = dict[str, Any]


def refuse(action: str, backend: Any, params: Params) -> Refusal | None:
    """Return what a dry run answers instead of DryRunOperation."""
    if action == "RunInstances":
        return _refuse_launch(backend, params)
    if action == "CreateFleet":
        return _refuse_fleet(backend, params)
    if action not in NAMED:
        return None
    parameter, code, known = NAMED[action]
    for id_ in _as_list(params.get(parameter)):
        if not known(backend, id_):
            return code, f"The {parameter} '{id_}' does not exist"
    return None


def _refuse_launch(backend: Any, params: Params) -> Refusal | None:
    subnet_id = params.get("SubnetId") or launching.Launch(backend, params, "", "").interface.get(
        "SubnetId"
    )
    subnet = next((one for one in _subnets(backend) if one.id == subnet_id), None)
    if subnet is None:
        return "InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist"
    zone = subnet.availability_zone
    spot = (params.get("InstanceMarketOptions") or {}).get("MarketType") == "spot"
    launch = launching.Launch(
        backend, params, params["InstanceType"], zone, by_fleet=False, on_demand=not spot
    )
    return launching.refuse(launch)


def _refuse_fleet(backend: Any, params: Params) -> Refusal | None:
    for config in params["LaunchTemplateConfigs"]:
        named = config["LaunchTemplateSpecification"]
        if refusal := refuse_template(backend, named):
            return refusal
    return None


def refuse_template(backend: Any, named: dict[str, str]) -> Refusal | None:
    """Refuse a launch template that is not there, or not yet."""
    id_, name = named.get("LaunchTemplateId"), named.get("LaunchTemplateName")
    known = backend.launch_templates.get(id_ or backend.launch_template_name_to_ids.get(name))
    if known and not late.is_late(backend.region_name, late.TEMPLATE, known.name, 0.5):
        return None
    if id_:
        return (
            "InvalidLaunchTemplateId.NotFound",
            f"The specified launch template, with template ID {id_}, does not exist.",
        )
    return (
        "InvalidLaunchTemplateName.NotFoundException",
        f"The specified launch template, with template name {name}, does not exist.",
    )


def _as_list(value: Any) -> Iterable[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _subnets(backend: Any) -> Iterable[Any]:
    return [one for by_id in backend.subnets.values() for one in by_id.values()]


def _has_group(backend: Any, id_: str) -> bool:
    return backend.get_security_group_from_id(id_) is not None


# The parameter that names what is there already, the code where it is not, and the look.
NAMED: dict[str, tuple[str, str, Callable[[Any, str], bool]]] = {
    "AuthorizeSecurityGroupIngress": ("GroupId", "InvalidGroup.NotFound", _has_group),
    "RevokeSecurityGroupIngress": ("GroupId", "InvalidGroup.NotFound", _has_group),
    "DeleteSecurityGroup": ("GroupId", "InvalidGroup.NotFound", _has_group),
    "TerminateInstances": (
        "InstanceIds", "InvalidInstanceID.NotFound", lambda _, id_: MARKET.is_known(id_),
    ),
    "GetConsoleOutput": (
        "InstanceId", "InvalidInstanceID.NotFound", lambda _, id_: MARKET.is_known(id_),
    ),
    "CreateImage": (
        "InstanceId", "InvalidInstanceID.NotFound", lambda _, id_: MARKET.is_known(id_),
    ),
    "CancelSpotInstanceRequests": (
        "SpotInstanceRequestIds", "InvalidSpotInstanceRequestID.NotFound",
        lambda _, id_: id_ in MARKET.requests,
    ),
    "DeleteVolume": (
        "VolumeId", "InvalidVolume.NotFound", lambda backend, id_: id_ in backend.volumes,
    ),
    "DeleteNetworkInterface": (
        "NetworkInterfaceId", "InvalidNetworkInterfaceID.NotFound",
        lambda backend, id_: id_ in backend.enis,
    ),
    "DeleteLaunchTemplate": (
        "LaunchTemplateId", "InvalidLaunchTemplateId.NotFound",
        lambda backend, id_: id_ in backend.launch_templates,
    ),
    "DeletePlacementGroup": (
        "GroupName", "InvalidPlacementGroup.Unknown",
        lambda backend, name: (backend.region_name, name) in MARKET.groups,
    ),
    "DeregisterImage": (
        "ImageId", "InvalidAMIID.NotFound", lambda backend, id_: id_ in backend.amis,
    ),
    "DeleteSnapshot": (
        "SnapshotId", "InvalidSnapshot.NotFound", lambda backend, id_: id_ in backend.snapshots,
    ),
}  # fmt: skip
