"""Answer for moto what it lacks or does wrong: fleets, prices, quotas, lags, interruptions."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import moto.ec2.urls
import moto.servicequotas.urls
from moto.core.exceptions import JsonRESTError, ServiceException
from moto.core.responses import ActionResult
from moto.ec2.exceptions import DryRunClientError
from moto.ec2.models import ec2_backends
from moto.ec2.models.elastic_block_store import Snapshot
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, convert_tag_spec, random_fleet_id, random_id
from moto.servicequotas.responses import ServiceQuotasResponse
from moto.ssm.models import SimpleSystemManagerBackend

from tests.rehearsal.ec2.market import Market
from workbench.cloud.inventory import quota_code
from workbench.cloud.preflight import GPU_IMAGES, PLAIN_IMAGES

MARKET = Market()
PAGE = 60
IMAGES = {GPU_IMAGES[0]: "ami-dca37ea5", PLAIN_IMAGES[0]: "ami-785db401"}
INTERRUPTED = "Server.SpotInstanceTermination"
# Told when a machine is launched, and when its end begins; a rehearsal with machines listens.
on_launch: list[Callable[[Any, float], None]] = []
on_end: list[Callable[[str], None]] = []
on_address: list[Callable[[], str]] = []
is_ready: list[Callable[[str], bool]] = []
on_image: list[Callable[[str, str], None]] = []


class Refused(ServiceException):
    """An answer of EC2's that is an error."""


class Growing(Snapshot):  # type: ignore[misc]  # moto has no types
    """A snapshot that takes its time."""

    done = "0%"

    @property
    def progress(self) -> str:
        return self.done


class Rehearsed(EC2Response):
    """moto's EC2, mended."""

    def call_action(self) -> Any:
        action = self._get_action()
        with MARKET.lock:
            MARKET.calls.append((action, _plain(self._params())))
            self._settle()
            if fault := MARKET.fault(action, after=False):
                return self.serialized(ActionResult(Refused(fault.code, fault.message)))
            if self._get_param("DryRun", False):
                return self.serialized(ActionResult(DryRunClientError()))
            answer = super().call_action()
            if fault := MARKET.fault(action, after=True):
                return self.serialized(ActionResult(Refused(fault.code, fault.message)))
            return answer

    def _params(self) -> dict[str, Any]:
        params: dict[str, Any] = self._get_params()
        return params

    def create_fleet(self) -> ActionResult:
        token = self._get_param("ClientToken") or random_id()
        asked = json.dumps(_plain(self._params()), sort_keys=True)
        if token in MARKET.tokens:
            before, answer = MARKET.tokens[token]
            if before != asked:
                raise Refused("IdempotentParameterMismatch", "The token was used before.")
            return ActionResult(answer)
        answer = self._fleet()
        MARKET.tokens[token] = (asked, answer)
        return ActionResult(answer)

    def _fleet(self) -> dict[str, Any]:
        [config] = self._get_param("LaunchTemplateConfigs")
        name = config["LaunchTemplateSpecification"]["LaunchTemplateName"]
        template = self.ec2_backend.get_launch_template_by_name(name).get_version("1").data
        options = self._get_param("SpotOptions", {})
        count = int(self._get_param("TargetCapacitySpecification")["TotalTargetCapacity"])
        least = int(options.get("MinTargetCapacity", 1))
        tags = convert_tag_spec(self._get_param("TagSpecifications", []))
        fleet = random_fleet_id()
        self.ec2_backend.create_tags([fleet], tags.get("fleet", {}))
        MARKET.fleets[fleet] = {
            "FleetId": fleet, "FleetState": "active", "Type": "instant", "Region": self.region,
            "CreateTime": _at(MARKET.now), "Instances": [],
        }  # fmt: skip
        if MARKET.refusals:
            errors = MARKET.refusals.pop(0)
            return {"FleetId": fleet, "Instances": [], "Errors": [_error(*one) for one in errors]}
        close = bool(template.get("Placement", {}).get("GroupName"))
        errors, pools = [], []
        for override in config["Overrides"]:
            type_, subnet = override["InstanceType"], override["SubnetId"]
            zone = self.ec2_backend.get_subnet(subnet).availability_zone
            free = min(MARKET.free(type_, zone, close=close), count)
            if refusal := self._refusal(override, type_, zone, free, least):
                errors.append(_error(*refusal, override))
            else:
                pools.append((-free, self._now_price(type_, zone), type_, subnet, override))
        if not pools:
            return {"FleetId": fleet, "Instances": [], "Errors": errors}
        free, _, type_, subnet, override = min(pools, key=lambda pool: pool[:4])
        ids = self._launch(template, type_, subnet, -free, tags.get("instance", {}), fleet)
        part = {
            "InstanceIds": ids, "InstanceType": type_, "Lifecycle": "spot",
            "LaunchTemplateAndOverrides": {"Overrides": override},
        }  # fmt: skip
        MARKET.fleets[fleet]["Instances"] = [part]
        return {"FleetId": fleet, "Instances": [part], "Errors": errors if -free < count else []}

    def _refusal(
        self, override: dict[str, Any], type_: str, zone: str, free: int, least: int
    ) -> tuple[str, str] | None:
        """Return why a pool does not take part."""
        if not self._offered(type_, zone):
            return "Unsupported", f"{type_} is not supported in {zone}."
        if float(override.get("MaxPrice") or 10**6) < self._now_price(type_, zone):
            return "SpotMaxPriceTooLow", "Your Spot request price is lower than the minimum."
        if free < least:
            return "InsufficientInstanceCapacity", f"There is no Spot capacity for {type_}."
        code = quota_code(type_)
        left = MARKET.quotas.get(code, 10**6) - self._used(code)
        if least * _vcpus(type_) > left:
            return "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"
        return None

    def _launch(
        self,
        template: dict[str, Any],
        type_: str,
        subnet: str,
        count: int,
        tags: dict[str, str],
        fleet: str,
    ) -> list[str]:
        told = convert_tag_spec(template.get("TagSpecifications", []))
        group = template.get("Placement", {}).get("GroupName")
        if group and (self.region, group) not in MARKET.groups:
            raise Refused("InvalidPlacementGroup.Unknown", f"{group} does not exist")
        ids = []
        for _ in range(count):
            reservation = self.ec2_backend.run_instances(
                template["ImageId"],
                1,
                template.get("UserData"),
                [],
                security_group_ids=list(template["SecurityGroupIds"]),
                instance_type=type_,
                is_instance_type_default=False,
                subnet_id=subnet,
                key_name=template.get("KeyName"),
                tags={
                    "instance": {**told.get("instance", {}), **tags, "aws:ec2:fleet-id": fleet},
                    "volume": told.get("volume", {}),
                },
                lifecycle="spot",
                metadata_options=template.get("MetadataOptions", {}),
                instance_initiated_shutdown_behavior=template.get(
                    "InstanceInitiatedShutdownBehavior"
                ),
                block_device_mappings=template["BlockDeviceMappings"],
                region_name=self.region,
            )
            [instance] = reservation.instances
            instance.instance_lifecycle = "spot"
            instance.placement.group_name = group or ""
            instance._state.name, instance._state.code = "pending", 0
            for nic in instance.nics.values():
                for give in on_address:  # where the hosts are, and moto's subnets are not
                    nic.private_ip_address = give()
                    nic.private_ip_addresses[0]["PrivateIpAddress"] = nic.private_ip_address
                self.ec2_backend.create_tags([nic.id], told.get("network-interface", {}))
            self._spot_request(instance, told.get("spot-instances-request", {}))
            MARKET.launched[instance.id] = MARKET.now
            MARKET.region_of[instance.id] = self.region
            MARKET.take(type_, instance.availability_zone, 1)
            for listener in on_launch:
                listener(instance, MARKET.now)
            ids.append(instance.id)
        self._settle()
        return ids

    def _spot_request(self, instance: Any, tags: dict[str, str]) -> None:
        request = f"sir-{random_id()[-8:]}"
        instance.spot_instance_request_id = request
        self.ec2_backend.create_tags([request], tags)
        MARKET.requests[request] = {
            "SpotInstanceRequestId": request, "InstanceId": instance.id, "State": "active",
            "Type": "one-time", "CreateTime": _at(MARKET.now), "Region": self.region,
        }  # fmt: skip

    def describe_fleets(self) -> ActionResult:
        ids = self._get_param("FleetIds", [])
        found = [MARKET.fleets[id_] for id_ in ids if id_ in MARKET.fleets]
        if len(found) < len(ids):
            raise Refused("InvalidFleetId.NotFound", f"{ids} not found")
        return self._page("Fleets", found)

    def delete_fleets(self) -> ActionResult:
        done, failed = [], []
        for id_ in self._get_param("FleetIds", []):
            fleet = MARKET.fleets.get(id_)
            if fleet is None:
                error = {"Code": "fleetIdDoesNotExist", "Message": "not there"}
                failed.append({"FleetId": id_, "Error": error})
                continue
            for part in fleet["Instances"]:
                for instance in part["InstanceIds"]:
                    self._begin_end(instance)
            fleet["FleetState"] = "deleted"
            done.append(
                {"FleetId": id_, "CurrentFleetState": "deleted", "PreviousFleetState": "active"}
            )
        return ActionResult(
            {"SuccessfulFleetDeletions": done, "UnsuccessfulFleetDeletions": failed}
        )

    def describe_instances(self) -> ActionResult:
        ids = self._get_param("InstanceIds", [])
        self._known(ids)
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
        self._known(ids)
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
        return self._page("SpotInstanceRequests", self._tagged(MARKET.requests, "State"))

    def cancel_spot_instance_requests(self) -> ActionResult:
        ids = self._get_param("SpotInstanceRequestIds", [])
        for id_ in ids:
            if id_ not in MARKET.requests:
                raise Refused("InvalidSpotInstanceRequestID.NotFound", f"{id_} not found")
            MARKET.requests[id_]["State"] = "cancelled"
        told = [{"SpotInstanceRequestId": id_, "State": "cancelled"} for id_ in ids]
        return ActionResult({"CancelledSpotInstanceRequests": told})

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
        groups = {group["GroupId"]: group for group in MARKET.groups.values()}
        return ActionResult({"PlacementGroups": self._tagged(groups, "State")})

    def delete_placement_group(self) -> ActionResult:
        name = self._get_param("GroupName")
        if (self.region, name) not in MARKET.groups:
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

    def create_image(self) -> ActionResult:
        told = self._get_param("TagSpecifications", [])
        instance = self._get_param("InstanceId")
        image = self.ec2_backend.create_image(instance, self._get_param("Name"), "", [])
        tags = convert_tag_spec(told)
        self.ec2_backend.create_tags([image.id], tags.get("image", {}))
        self.ec2_backend.create_tags([image.ebs_snapshot.id], tags.get("snapshot", {}))
        MARKET.images[image.id] = MARKET.now
        image.ebs_snapshot.__class__ = Growing
        self._settle()
        for listener in on_image:
            listener(image.id, instance)
        return ActionResult({"ImageId": image.id})

    def describe_tags(self) -> ActionResult:
        filters = self._filters_from_querystring()
        rows = [
            {"ResourceId": id_, "ResourceType": _sort(id_), "Key": key, "Value": value}
            for id_, tags in self.ec2_backend.tags.items()
            if id_ not in MARKET.fleets or self._is_told(MARKET.fleets[id_])
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
        told = [
            {
                "LaunchTemplateId": one.id,
                "LaunchTemplateName": one.name,
                "CreateTime": one.create_time,
                "Tags": one.tags,
            }
            for one in templates
        ]
        return self._page("LaunchTemplates", told)

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
                "Timestamp": _at(at),
            }
            for row in offered
            if not wanted or row["InstanceType"] in wanted
            for at, dollars in self._price_history(row["InstanceType"], row["Location"], since)
        ]
        return self._page("SpotPriceHistory", rows, 1000)

    def _page(self, key: str, rows: Iterable[Any], size: int = PAGE) -> ActionResult:
        rows = list(rows)
        start = int(self._get_param("NextToken") or 0)
        stop = start + size
        more = {"NextToken": str(stop)} if stop < len(rows) else {}
        return ActionResult({key: rows[start:stop], **more})

    def _tagged(self, things: dict[str, dict[str, Any]], *fields: str) -> list[dict[str, Any]]:
        """Return what meets the filters, with its tags."""
        found = []
        for id_, thing in things.items():
            tags = self.ec2_backend.tags.get(id_, {})
            if thing["Region"] == self.region and all(
                _meets(name, values, thing, tags)
                for name, values in self._filters_from_querystring().items()
            ):
                told = [{"Key": key, "Value": value} for key, value in tags.items()]
                found.append({**thing, "Tags": told})
        return found

    def _is_told(self, fleet: dict[str, Any]) -> bool:
        return MARKET.now - fleet["CreateTime"].timestamp() >= MARKET.lag

    def _known(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            if id_ not in MARKET.launched or not MARKET.is_listed(id_):
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

    def _offered(self, type_: str, zone: str) -> bool:
        filters = {"location": [zone], "instance-type": [type_]}
        return bool(self.ec2_backend.describe_instance_type_offerings("availability-zone", filters))

    def _used(self, code: str) -> int:
        return sum(
            _vcpus(one.instance_type)
            for one in self._alive()
            if one.lifecycle == "spot" and quota_code(one.instance_type) == code
        )

    def _now_price(self, type_: str, zone: str) -> float:
        return MARKET.price(type_, zone, _vcpus(type_), _gpus(type_), MARKET.now)

    def _price_history(self, type_: str, zone: str, since: float) -> list[tuple[float, float]]:
        return MARKET.history(type_, zone, _vcpus(type_), _gpus(type_), since)


class Quotas(ServiceQuotasResponse):
    """moto's service quotas, with those of EC2."""

    def list_service_quotas(self) -> str:
        if fault := MARKET.fault("ListServiceQuotas", after=False):
            raise JsonRESTError(fault.code, fault.message)
        asked = json.loads(self.body)
        start = int(asked.get("NextToken") or 0)
        rows = [
            {"QuotaCode": code, "ServiceCode": "ec2", "QuotaName": "All … Spot", "Value": value}
            for code, value in MARKET.quotas.items()
        ]
        more = {"NextToken": str(start + 4)} if start + 4 < len(rows) else {}
        return json.dumps({"Quotas": rows[start : start + 4], **more})


def begin_end(instance: Any, *, interrupted: bool = False) -> None:
    """Begin to end a machine; it is gone after a while."""
    if instance.state in ("shutting-down", "terminated"):
        return
    instance._state.name, instance._state.code = "shutting-down", 32
    instance.interrupted = interrupted
    MARKET.ends[instance.id] = MARKET.now + MARKET.ending
    MARKET.notices.pop(instance.id, None)
    for listener in on_end:
        listener(instance.id)


def settle(backend: Any) -> None:
    """Let happen what was to happen by now."""
    for image in backend.amis.values():
        if image.id in MARKET.images and image.state in ("pending", "available"):
            done = MARKET.now - MARKET.images[image.id] >= MARKET.imaging
            image.state = "available" if done else "pending"
            image.ebs_snapshot.done = "100%" if done else "40%"
    for instance in list(backend.all_instances()):
        if instance.id not in MARKET.launched:
            continue
        booted = MARKET.now - MARKET.launched[instance.id] >= MARKET.boot
        if instance.state == "pending" and booted and all(ask(instance.id) for ask in is_ready):
            instance._state.name, instance._state.code = "running", 16
        if MARKET.notices.get(instance.id, float("inf")) <= MARKET.now:
            begin_end(instance, interrupted=True)
        if instance.state == "shutting-down" and MARKET.ends[instance.id] <= MARKET.now:
            _finish(backend, instance)


def _finish(backend: Any, instance: Any) -> None:
    zone, nics = instance.availability_zone, list(instance.nics.values())
    instance.terminate()
    for nic in nics:
        backend.enis.pop(nic.id, None)
        backend.tags.pop(nic.id, None)
    MARKET.take(instance.instance_type, zone, -1)
    for request in MARKET.requests.values():
        if request["InstanceId"] == instance.id:
            request["State"] = "closed"
    when = datetime.fromtimestamp(MARKET.now, UTC)
    instance._reason = f"User initiated ({when:%Y-%m-%d %H:%M:%S} GMT)"
    if instance.interrupted:
        instance._reason = f"Server.SpotInstanceTermination ({when:%Y-%m-%d %H:%M:%S} GMT)"
        instance.state_reason.code = INTERRUPTED
        instance.state_reason.message = f"{INTERRUPTED}: Spot instance termination"


def instance_of(id_: str) -> Any:
    """Return moto's instance."""
    backends = ec2_backends["123456789012"]
    return backends[MARKET.region_of[id_]].get_instance(id_)


def user_data(instance: Any) -> str:
    """Return the user-data as it was given."""
    return base64.b64decode(str(instance.user_data or "")).decode()


def _get_parameters(self: Any, names: list[str]) -> dict[str, Any]:
    found = _moto_get_parameters(self, [name for name in names if name not in IMAGES])
    for name in names:
        if name in IMAGES:
            found[name] = _Parameter(name, IMAGES[name])
    return found


class _Parameter:
    """A public parameter, as moto's SSM answers with one."""

    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value

    def response_object(self, decrypt: bool = False, region: str | None = None) -> dict[str, Any]:
        return {"Name": self.name, "Value": self.value, "Type": "String", "Version": 1}


_moto_get_parameters = SimpleSystemManagerBackend.get_parameters


def install() -> None:
    """Put all of it in moto's place, in this process."""
    EC2_PREFIX_TO_RESOURCE.setdefault("pg", "placement-group")
    EC2_PREFIX_TO_RESOURCE.setdefault("sir", "spot-instances-request")
    moto.ec2.urls.url_paths = {"{0}/": Rehearsed.dispatch}
    moto.servicequotas.urls.url_paths = {"{0}/$": Quotas.dispatch}
    SimpleSystemManagerBackend.get_parameters = _get_parameters


def _meets(name: str, values: list[str], thing: dict[str, Any], tags: dict[str, str]) -> bool:
    if name == "tag-key":
        return any(value in tags for value in values)
    if name.startswith("tag:"):
        return tags.get(name[4:]) in values
    return str(thing["".join(word.capitalize() for word in name.split("-"))]) in values


def _sort(id_: str) -> str:
    return EC2_PREFIX_TO_RESOURCE.get(id_.partition("-")[0], "")


def _error(code: str, message: str, override: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "ErrorCode": code, "ErrorMessage": message, "Lifecycle": "spot",
        "LaunchTemplateAndOverrides": {"Overrides": override or {}},
    }  # fmt: skip


def _vcpus(type_: str) -> int:
    return int(INSTANCE_TYPES[type_]["VCpuInfo"]["DefaultVCpus"])


def _gpus(type_: str) -> int:
    gpus = INSTANCE_TYPES[type_].get("GpuInfo", {}).get("Gpus", ())
    return sum(gpu.get("Count", 0) for gpu in gpus)


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))
