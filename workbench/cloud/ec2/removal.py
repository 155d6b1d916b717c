"""List all resources with our tags in a region, and delete them in the order that EC2 allows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from workbench.cloud.ec2.api import Ec2Api
from workbench.cloud.ec2.description import SNAPSHOT_PRICE, storage_price
from workbench.cloud.ec2.inventory import epoch
from workbench.cloud.ec2.tags import IMAGE, TOKEN, OwnerTags, decode_tags
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Leftover
from workbench.core.fleet.node_provider import CLUSTER, OWNER
from workbench.core.fleet.purchases import LAG_SECONDS
from workbench.errors import CloudError

GONE = re.compile(r"NotFound|\.Unknown|InvalidFleetId")
LATER = re.compile(
    r"DependencyViolation|InUse|IncorrectState|IncorrectInstanceState|incorrectState"
)
PriceOf = Callable[[Mapping[str, Any]], float]


@dataclass(frozen=True)
class _Sort:
    """One sort of resource: how to list and delete it.

    Args:
        path: The key of the entries in the answer.
        id: The field with the id.
        created: The field with the time of creation; empty if there is none.
        filters: Filters beside the tag.
        delete: Operation, and the argument for the id.
        many: Whether that argument is a list.
    """

    kind: str
    list: str
    path: str
    id: str
    created: str
    delete: tuple[str, str]
    many: bool = False
    filters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    more: tuple[tuple[str, object], ...] = ()


# Failed purchases leave fleets whose tags are listed for a while: one call handles many.
MOST_NAMED = 100
# The tag that EC2 sets on the machines of a fleet.
_FLEET = "aws:ec2:fleet-id"
_NO_DELETION = ("fleetIdDoesNotExist", "fleetNotInDeletableState")
_ALIVE = ("pending", "running", "shutting-down", "stopping", "stopped")
# In this order: billed resources first, then those that others depend on last.
SORTS = (
    _Sort(
        "fleet", "describe_fleets", "Fleets", "FleetId", "CreateTime",
        ("delete_fleets", "FleetIds"), many=True, more=(("TerminateInstances", True),),
    ),
    _Sort(
        "instance", "describe_instances", "Reservations.Instances", "InstanceId", "LaunchTime",
        ("terminate_instances", "InstanceIds"), many=True,
        filters=(("instance-state-name", _ALIVE),),
    ),
    _Sort(
        "spot request", "describe_spot_instance_requests", "SpotInstanceRequests",
        "SpotInstanceRequestId", "CreateTime",
        ("cancel_spot_instance_requests", "SpotInstanceRequestIds"), many=True,
        filters=(("state", ("open", "active")),),
    ),
    _Sort(
        "volume", "describe_volumes", "Volumes", "VolumeId", "CreateTime",
        ("delete_volume", "VolumeId"),
    ),
    _Sort(
        "network interface", "describe_network_interfaces", "NetworkInterfaces",
        "NetworkInterfaceId", "", ("delete_network_interface", "NetworkInterfaceId"),
    ),
    _Sort(
        "launch template", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId",
        "CreateTime", ("delete_launch_template", "LaunchTemplateId"),
    ),
    _Sort(
        "placement group", "describe_placement_groups", "PlacementGroups", "GroupName", "",
        ("delete_placement_group", "GroupName"), filters=(("state", ("pending", "available")),),
    ),
    _Sort(
        "key pair", "describe_key_pairs", "KeyPairs", "KeyName", "CreateTime",
        ("delete_key_pair", "KeyName"),
    ),
    _Sort(
        "security group", "describe_security_groups", "SecurityGroups", "GroupId", "",
        ("delete_security_group", "GroupId"),
    ),
)  # fmt: skip
# Baked images outlive clusters; they are deleted only on request.
IMAGE_SORTS = (
    _Sort(
        "image", "describe_images", "Images", "ImageId", "CreationDate",
        ("deregister_image", "ImageId"),
    ),
    _Sort(
        "snapshot", "describe_snapshots", "Snapshots", "SnapshotId", "StartTime",
        ("delete_snapshot", "SnapshotId"),
    ),
)  # fmt: skip


def leftovers(
    calls: Ec2Api,
    whose: OwnerTags,
    price_of: PriceOf,
    *,
    images: bool = False,
    settled: Collection[str] = (),
) -> tuple[Leftover, ...]:
    """Return all resources with our tags, without machines that have ended.

    Args:
        settled: Fleets that cannot be deleted; they are left out unless a machine of them is alive.
    """
    found = [
        (sort, row)
        for sort in (*SORTS, *(IMAGE_SORTS if images else ()))
        for row in _list_resources(calls, sort, whose)
    ]
    of_living = {dict(_tags(row)).get(_FLEET) for sort, row in found if sort.kind == "instance"}
    return tuple(
        Leftover(
            kind=sort.kind,
            id=row[sort.id],
            cluster=dict(_tags(row)).get(CLUSTER, dict(_tags(row)).get(IMAGE, "")),
            region=calls.region,
            price=_price(sort, row, price_of),
            created=_parse_creation(row.get(sort.created)),
            owner=dict(_tags(row)).get(OWNER, ""),
        )
        for sort, row in found
        if row[sort.id] not in settled or row[sort.id] in of_living
    )


def remove(calls: Ec2Api, whose: OwnerTags, now: float, *, images: bool = False) -> frozenset[str]:
    """Begin to delete all these resources, as far as possible now.

    Returns:
        The fleets that cannot be deleted.

    Raises:
        CloudError: A resource may not be deleted; the others were, as far as possible.
    """
    refused: list[CloudError] = []
    settled: list[str] = []
    for sort in (*SORTS, *(IMAGE_SORTS if images else ())):
        try:
            rows = list(_list_resources(calls, sort, whose))
            if sort.kind == "launch template":
                tokens = _tokens(calls, whose)
                rows = [row for row in rows if _is_answered(row, tokens, now)]
        except CloudError as error:
            refused.append(error)
            continue
        for row in rows:
            if not _held(row):
                refused += _delete_resource(calls, sort, row[sort.id], settled)
    for one in refused:
        if one.kind != ErrorKind.THROTTLING:
            raise one
    return frozenset(settled)


def _tokens(calls: Ec2Api, whose: OwnerTags) -> set[str]:
    """Return the purchase tokens of all listed machines, including recently ended ones."""
    rows = calls.rows(
        "ec2", "describe_instances", "Reservations.Instances", Filters=whose.filters()
    )
    return {dict(_tags(row)).get(TOKEN, "") for row in rows}


def _is_answered(row: Mapping[str, Any], tokens: set[str], now: float) -> bool:
    """Return whether all machines of a launch template's purchase are sure to be listed.

    A purchase creates its template first. While the template is young and no machine with its
    token is listed, there may be some that are not listed yet: the template stays, and is reported.
    """
    seen = dict(_tags(row)).get(TOKEN, "") in tokens
    return seen or now - epoch(row.get("CreateTime")) > LAG_SECONDS


def _held(row: Mapping[str, Any]) -> bool:
    """Return whether a resource ends with its machine, or is being deleted already."""
    if row.get("State") in ("in-use", "deleting") or row.get("Status") == "in-use":
        return True
    state = row.get("State")
    return isinstance(state, dict) and state.get("Name") == "shutting-down"


def _list_resources(calls: Ec2Api, sort: _Sort, whose: OwnerTags) -> Iterator[dict[str, Any]]:
    if sort.kind == "fleet":
        yield from _fleets(calls, sort, whose)
        return
    key = IMAGE if sort in IMAGE_SORTS else CLUSTER
    filters = whose.filters(key)
    filters += [{"Name": name, "Values": list(values)} for name, values in sort.filters]
    more = {"OwnerIds": ["self"]} if sort.kind == "snapshot" else {}
    more |= {"Owners": ["self"]} if sort.kind == "image" else {}
    yield from calls.rows("ec2", sort.list, sort.path, Filters=filters, **more)


def _fleets(calls: Ec2Api, sort: _Sort, whose: OwnerTags) -> Iterator[dict[str, Any]]:
    """Yield the fleets; ``instant`` ones are listed only by id."""
    owners = _fleet_tags(calls, OWNER, whose.owner)
    found = {
        id_: [tag, *([owners[id_]] if id_ in owners else [])]
        for id_, tag in _fleet_tags(calls, CLUSTER, whose.cluster).items()
        if not whose.owner or id_ in owners
    }
    ids = list(found)
    for first in range(0, len(ids), MOST_NAMED):
        for row in _describe_fleets(calls, sort, ids[first : first + MOST_NAMED]):
            if _is_left(row):
                yield {**row, "Tags": found[row[sort.id]]}


def _describe_fleets(calls: Ec2Api, sort: _Sort, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the existing fleets of these ids; EC2 fails for all if one is unknown."""
    try:
        return list(calls.rows("ec2", sort.list, sort.path, FleetIds=list(ids)))
    except CloudError as error:
        if not GONE.search(error.code):
            raise
    if len(ids) == 1:
        return []
    half = len(ids) // 2
    return _describe_fleets(calls, sort, ids[:half]) + _describe_fleets(calls, sort, ids[half:])


def _is_left(fleet: Mapping[str, Any]) -> bool:
    """Return whether a fleet may have machines; one that failed has none, and costs nothing.

    States: ``FleetStateCode`` of the EC2 API reference.
    """
    return "deleted" not in fleet["FleetState"] and fleet["FleetState"] != "failed"


def _fleet_tags(calls: Ec2Api, key: str, value: str) -> dict[str, dict[str, Any]]:
    """Return the tags of the fleets with this key, by fleet id."""
    filters = [
        {"Name": "resource-type", "Values": ["fleet"]},
        {"Name": "key", "Values": [key]},
        *([{"Name": "value", "Values": [value]}] if value else []),
    ]
    rows = calls.rows("ec2", "describe_tags", "Tags", Filters=filters)
    return {row["ResourceId"]: row for row in rows}


def _delete_resource(calls: Ec2Api, sort: _Sort, id_: str, settled: list[str]) -> list[CloudError]:
    """Delete one resource; return the error if that is not permitted.

    Args:
        settled: The fleet's id is appended if it cannot be deleted.
    """
    operation, argument = sort.delete
    value: object = [id_] if sort.many else id_
    try:
        answer = calls.call("ec2", operation, **{argument: value}, **dict(sort.more))
        settled += _read_failures(answer)
    except CloudError as error:
        if not GONE.search(error.code) and not LATER.search(error.code):
            return [error]
    return []


def _read_failures(answer: Mapping[str, Any]) -> list[str]:
    """Return the fleets that cannot be deleted, from a 200 of DeleteFleets."""
    failures = answer.get("UnsuccessfulFleetDeletions", ())
    for failed in failures:
        error = failed.get("Error", {})
        if error.get("Code") not in _NO_DELETION:
            raise CloudError(
                f"The fleet {failed.get('FleetId')} was not deleted: {error.get('Message')}",
                ErrorKind.UNKNOWN,
                error.get("Code", ""),
                remedy="try again, or delete it in the AWS console.",
            )
    return [str(failed.get("FleetId")) for failed in failures]


def _tags(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return decode_tags(row.get("Tags") or row.get("TagSet"))


def _price(sort: _Sort, row: Mapping[str, Any], price_of: PriceOf) -> float:
    if sort.kind == "instance":
        return price_of(row)
    if sort.kind == "snapshot":
        return float(row.get("VolumeSize", 0)) * SNAPSHOT_PRICE
    return storage_price(row["Size"]) if sort.kind == "volume" else 0.0


def _parse_creation(value: Any) -> float:
    if isinstance(value, str):
        return datetime.fromisoformat(value).timestamp()
    return epoch(value)
