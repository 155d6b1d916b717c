"""Extend moto by fleets, prices, quotas, lags and interruptions, and correct its errors."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import moto.backends
import moto.core.responses
import moto.ec2.urls
import moto.kms.models
import moto.servicequotas.urls
from moto.core.responses import ActionResult
from moto.ec2.exceptions import DryRunClientError
from moto.ec2.models.amis import AmiBackend
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, random_id
from moto.iam.models import IAMBackend
from moto.ssm.models import SimpleSystemManagerBackend

from tests.rehearsal.ec2 import dryruns, gateways, images, late, throttling
from tests.rehearsal.ec2.answers import Refused, at, gpus, plain, vcpus
from tests.rehearsal.ec2.fleets import Fleets
from tests.rehearsal.ec2.images import PARAMETERS, Images
from tests.rehearsal.ec2.instances import begin_end, settle
from tests.rehearsal.ec2.market import MARKET
from tests.rehearsal.ec2.quotas import Quotas

PAGE = 60
CONSTANT = frozenset({"DescribeInstanceTypes", "DescribeInstanceTypeOfferings"})
_constant: dict[tuple[str, str, str], Any] = {}


class Rehearsed(Fleets, Images):
    """moto's EC2, as strict as AWS's."""

    def call_action(self) -> Any:
        action, params = self._get_action(), self._get_params()
        with MARKET.lock:
            MARKET.calls.append((action, plain(params)))
            images.publish(self.ec2_backend)
            gateways.attach(self.ec2_backend)
            self._settle()
            if refusal := throttling.refuse(action, self.region):
                return self._refuse(*refusal)
            if fault := MARKET.fault(action, after=False):
                return self._refuse(fault.code, fault.message)
            if self._get_param("DryRun", False):
                refusal = dryruns.refuse(action, self.ec2_backend, params)
                no = Refused(*refusal) if refusal else DryRunClientError()
                return self.serialized(ActionResult(no))
            answer = self._answer(action, params)
            if answer[0] == 200:
                late.note(action, self.region, params)
            if fault := MARKET.fault(action, after=True):
                return self._refuse(fault.code, fault.message)
            return answer

    def _answer(self, action: str, params: dict[str, Any]) -> Any:
        """Answer; what never changes, and takes long to write, is written once."""
        if action not in CONSTANT:
            return super().call_action()
        key = (self.region, action, json.dumps(plain(params), sort_keys=True))
        if key not in _constant:
            _constant[key] = super().call_action()
        status, headers, body = _constant[key]
        return status, dict(headers), body

    def _refuse(self, code: str, message: str) -> Any:
        return self.serialized(ActionResult(Refused(code, message)))

    def authorize_security_group_ingress(self) -> ActionResult:
        id_ = self._get_param("GroupId")
        group = self.ec2_backend.get_security_group_from_id(id_)
        if group is None or self._is_late(late.GROUP, group.name):
            raise Refused("InvalidGroup.NotFound", f"The security group '{id_}' does not exist")
        return super().authorize_security_group_ingress()

    def describe_security_groups(self) -> ActionResult:
        return self._without_late(super().describe_security_groups(), late.GROUP, "name")

    def describe_key_pairs(self) -> ActionResult:
        return self._without_late(super().describe_key_pairs(), late.KEY, "key_name")

    def _without_late(self, answer: ActionResult, kind: str, name: str) -> ActionResult:
        [(key, rows)] = answer.result.items()
        known = [row for row in rows if not self._is_late(kind, getattr(row, name))]
        return ActionResult({key: known})

    def _is_late(self, kind: str, name: str) -> bool:
        return late.is_late(self.region, kind, name)

    def describe_instances(self) -> ActionResult:
        ids = self._get_param("InstanceIds", [])
        self._check_known(ids)
        filters = self._filters_from_querystring()
        lifecycle = filters.pop("instance-lifecycle", None)
        backend = self.ec2_backend
        found = []
        for reservation in (
            backend.get_reservations_by_instance_ids(ids, filters=filters)
            if ids
            else backend.describe_instances(filters=filters)
        ):
            seen = copy.copy(reservation)
            seen.instances = [
                one
                for one in reservation.instances
                if MARKET.is_listed(one.id) and (not lifecycle or one.lifecycle in lifecycle)
            ]
            found += [seen] if seen.instances else []
        return self._page("Reservations", found)

    def terminate_instances(self) -> ActionResult:
        ids = self._get_param("InstanceIds", [])
        self._check_known(ids)
        before = {id_: self.ec2_backend.get_instance(id_).state for id_ in ids}
        for id_ in ids:
            self._begin_end(id_)
        self._settle()
        changes = [
            {
                "InstanceId": id_,
                "PreviousState": {"Name": before[id_]},
                "CurrentState": {"Name": self.ec2_backend.get_instance(id_).state},
            }
            for id_ in ids
        ]
        return ActionResult({"TerminatingInstances": changes})

    def describe_spot_instance_requests(self) -> ActionResult:
        return self._page("SpotInstanceRequests", self._find_tagged(MARKET.requests, "State"))

    def cancel_spot_instance_requests(self) -> ActionResult:
        ids = self._get_param("SpotInstanceRequestIds", [])
        for id_ in ids:
            if id_ not in MARKET.requests:
                raise Refused("InvalidSpotInstanceRequestID.NotFound", f"{id_} not found")
            MARKET.requests[id_]["State"] = "cancelled"
        reported = [{"SpotInstanceRequestId": id_, "State": "cancelled"} for id_ in ids]
        return ActionResult({"CancelledSpotInstanceRequests": reported})

    def create_placement_group(self) -> ActionResult:
        name = self._get_param("GroupName")
        if (self.region, name) in MARKET.groups:
            raise Refused("InvalidPlacementGroup.Duplicate", f"{name} exists")
        tags = self._parse_tag_specification().get("placement-group", {})
        group = {
            "GroupName": name, "GroupId": random_id("pg"), "State": "available",
            "Strategy": self._get_param("Strategy"), "Region": self.region,
        }  # fmt: skip
        MARKET.groups[self.region, name] = group
        self.ec2_backend.create_tags([group["GroupId"]], tags)
        return ActionResult({"PlacementGroup": group})

    def describe_placement_groups(self) -> ActionResult:
        groups = {
            group["GroupId"]: group
            for (_, name), group in MARKET.groups.items()
            if not self._is_late(late.PLACEMENT, name)
        }
        return ActionResult({"PlacementGroups": self._find_tagged(groups, "State")})

    def delete_placement_group(self) -> ActionResult:
        name = self._get_param("GroupName")
        if (self.region, name) not in MARKET.groups or self._is_late(late.PLACEMENT, name):
            raise Refused("InvalidPlacementGroup.Unknown", f"{name} does not exist")
        if any(one.placement.group_name == name for one in self._alive()):
            raise Refused("InvalidPlacementGroup.InUse", f"{name} is in use")
        group = MARKET.groups.pop((self.region, name))
        self.ec2_backend.tags.pop(group["GroupId"], None)
        return ActionResult({})

    def delete_security_group(self) -> Any:
        group = self._get_param("GroupId")
        if any(group == one.id for i in self._alive() for one in i.security_groups):
            raise Refused("DependencyViolation", f"{group} has a dependent object")
        return super().delete_security_group()

    def describe_instance_credit_specifications(self) -> ActionResult:
        ids = self._get_param("InstanceIds", [])
        self._check_known(ids)
        rows = [
            {"InstanceId": id_, "CpuCredits": MARKET.credits[id_]}
            for id_ in ids or MARKET.credits
            if id_ in MARKET.credits
        ]
        return ActionResult({"InstanceCreditSpecifications": rows})

    def describe_tags(self) -> ActionResult:
        filters = self._filters_from_querystring()
        rows = [
            {"ResourceId": id_, "ResourceType": _sort(id_), "Key": key, "Value": value}
            for id_, tags in self.ec2_backend.tags.items()
            if id_ not in MARKET.fleets or self._is_reported(MARKET.fleets[id_])
            for key, value in tags.items()
        ]
        names = {"resource-type": "ResourceType", "resource-id": "ResourceId"}
        found = [
            row
            for row in rows
            if all(
                row[names.get(name, name.capitalize())] in values
                for name, values in filters.items()
            )
        ]
        return self._page("Tags", found)

    def describe_launch_templates(self) -> ActionResult:
        templates = self.ec2_backend.describe_launch_templates(
            template_names=self._get_param("LaunchTemplateNames", []),
            template_ids=self._get_param("LaunchTemplateIds", []),
            filters=self._filters_from_querystring(),
        )
        reported = [
            {
                "LaunchTemplateId": one.id,
                "LaunchTemplateName": one.name,
                "CreateTime": at(MARKET.made[self.region, late.TEMPLATE, one.name]),
                "Tags": one.tags,
            }
            for one in templates
            if not self._is_late(late.TEMPLATE, one.name)
        ]
        return self._page("LaunchTemplates", reported)

    def describe_instance_types(self) -> ActionResult:
        types = self._get_param("InstanceTypes", [])
        filters = self._filters_from_querystring()
        found = self.ec2_backend.describe_instance_types(types, filters)
        return self._page("InstanceTypes", found)

    def describe_instance_type_offerings(self) -> ActionResult:
        kind = self._get_param("LocationType")
        filters = self._filters_from_querystring()
        found = self.ec2_backend.describe_instance_type_offerings(kind, filters)
        return self._page("InstanceTypeOfferings", found, 1000)

    def describe_spot_price_history(self) -> ActionResult:
        wanted = set(self._get_param("InstanceTypes", []))
        start = self._get_param("StartTime")
        since = start.timestamp() if isinstance(start, datetime) else MARKET.now
        offered = self.ec2_backend.describe_instance_type_offerings("availability-zone", {})
        rows = [
            {
                "InstanceType": row["InstanceType"],
                "AvailabilityZone": row["Location"],
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": f"{dollars:.6f}",
                "Timestamp": at(when),
            }
            for row in offered
            if not wanted or row["InstanceType"] in wanted
            for when, dollars in _history(row["InstanceType"], row["Location"], since)
        ]
        return self._page("SpotPriceHistory", rows, 1000)

    def _page(self, key: str, rows: Iterable[Any], size: int = PAGE) -> ActionResult:
        rows = list(rows)
        start = int(self._get_param("NextToken") or 0)
        stop = start + size
        more = {"NextToken": str(stop)} if stop < len(rows) else {}
        return ActionResult({key: rows[start:stop], **more})

    def _find_tagged(self, things: dict[str, dict[str, Any]], *fields: str) -> list[dict[str, Any]]:
        """Return what meets the filters, with its tags."""
        found = []
        for id_, thing in things.items():
            tags = self.ec2_backend.tags.get(id_, {})
            if thing["Region"] == self.region and all(
                _meets(name, values, thing, tags)
                for name, values in self._filters_from_querystring().items()
            ):
                reported = [{"Key": key, "Value": value} for key, value in tags.items()]
                found.append({**thing, "Tags": reported})
        return found

    def _is_reported(self, fleet: dict[str, Any]) -> bool:
        return MARKET.now - fleet["CreateTime"].timestamp() >= MARKET.lag

    def _check_known(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            if not MARKET.is_known(id_):
                raise Refused(
                    "InvalidInstanceID.NotFound", f"The instance ID '{id_}' does not exist"
                )

    def _alive(self) -> list[Any]:
        every = self.ec2_backend.all_instances()
        return [one for one in every if one.state != "terminated"]

    def _begin_end(self, id_: str) -> None:
        begin_end(self.ec2_backend.get_instance(id_))

    def _settle(self) -> None:
        settle(self.ec2_backend)


def _get_parameters(self: Any, names: list[str]) -> dict[str, Any]:
    found = _moto_get_parameters(self, [name for name in names if name not in PARAMETERS])
    for name in names:
        if name in PARAMETERS:
            found[name] = _Parameter(name, PARAMETERS[name])
    return found


class _Parameter:
    """A public parameter, as moto's SSM answers with one."""

    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value

    def response_object(self, decrypt: bool = False, region: str | None = None) -> dict[str, Any]:
        return {"Name": self.name, "Value": self.value, "Type": "String", "Version": 1}


def _create_instance_profile(self: Any, name: str, *args: Any, **options: Any) -> Any:
    profile = _moto_create_instance_profile(self, name, *args, **options)
    MARKET.made[late.EVERYWHERE, late.PROFILE, name] = MARKET.now
    return profile


_moto_create_instance_profile = IAMBackend.create_instance_profile
_moto_get_parameters = SimpleSystemManagerBackend.get_parameters


def install() -> None:
    """Put all of it in moto's place, in this process."""
    EC2_PREFIX_TO_RESOURCE.setdefault("pg", "placement-group")
    EC2_PREFIX_TO_RESOURCE.setdefault("sir", "spot-instances-request")
    moto.ec2.urls.url_paths = {"{0}/": Rehearsed.dispatch}
    moto.servicequotas.urls.url_paths = {"{0}/$": Quotas.dispatch}
    SimpleSystemManagerBackend.get_parameters = _get_parameters
    IAMBackend.create_instance_profile = _create_instance_profile
    # Nodes boot what `images` publishes; to make moto's thousand in each region takes a while.
    AmiBackend._load_amis = lambda backend: None
    _make_once()


def _make_once() -> None:
    """Have moto make once what it makes at each call or, a key of RSA, after each reset."""
    models, responses = moto.kms.models, moto.core.responses
    models.generate_private_key = functools.cache(models.generate_private_key)
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    names = frozenset(moto.backends.list_of_moto_modules())
    moto.backends.list_of_moto_modules = lambda: names


def _meets(name: str, values: list[str], thing: dict[str, Any], tags: dict[str, str]) -> bool:
    if name == "tag-key":
        return any(value in tags for value in values)
    if name.startswith("tag:"):
        return tags.get(name[4:]) in values
    return str(thing["".join(word.capitalize() for word in name.split("-"))]) in values


def _sort(id_: str) -> str:
    return EC2_PREFIX_TO_RESOURCE.get(id_.partition("-")[0], "")


def _history(type_: str, zone: str, since: float) -> list[tuple[float, float]]:
    return MARKET.history(type_, zone, vcpus(type_), gpus(type_), since)
