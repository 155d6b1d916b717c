"""Answer CreateFleet, DescribeFleets and DeleteFleets for instant fleets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response
from moto.ec2.utils import convert_tag_spec, random_fleet_id, random_id

from tests.rehearsal.ec2 import instances, launching
from tests.rehearsal.ec2.answers import Refusal, Refused, at, fleet_error, gpus, plain, vcpus
from tests.rehearsal.ec2.dryruns import refuse_template
from tests.rehearsal.ec2.launching import Launch
from tests.rehearsal.ec2.market import MARKET, list_price
from tests.rehearsal.ec2.quotas import count_used
from workbench.cloud.ec2.inventory import quota_code


@dataclass(frozen=True)
class Asked:
    """What one call of CreateFleet asks for."""

    backend: Any
    data: dict[str, Any]
    overrides: list[dict[str, Any]]
    count: int
    min_nodes: int
    on_demand: bool

    @property
    def lifecycle(self) -> str:
        """What the answer calls it."""
        return "on-demand" if self.on_demand else "spot"


class Fleets(EC2Response):  # type: ignore[misc]  # moto has no types
    """The calls that concern fleets."""

    def create_fleet(self) -> ActionResult:
        token = self._get_param("ClientToken") or random_id()
        asked = json.dumps(plain(self._get_params()), sort_keys=True)
        if token in MARKET.tokens:
            before, answer = MARKET.tokens[token]
            if before != asked:
                raise Refused("IdempotentParameterMismatch", "The token was used before.")
            return ActionResult(answer)
        answer = self._fleet()
        MARKET.tokens[token] = (asked, answer)
        return ActionResult(answer)

    def _fleet(self) -> dict[str, Any]:
        asked = self._read_request()
        tags = convert_tag_spec(self._get_param("TagSpecifications", []))
        id_ = random_fleet_id()
        self.ec2_backend.create_tags([id_], tags.get("fleet", {}))
        fleet = MARKET.fleets[id_] = {
            "FleetId": id_, "FleetState": "active", "Type": "instant", "Region": self.region,
            "CreateTime": at(MARKET.now), "Instances": [],
        }  # fmt: skip
        if MARKET.refusals:
            refusals = MARKET.refusals.pop(0)
            errors = [fleet_error(one, lifecycle=asked.lifecycle) for one in refusals]
            chosen = None
        else:
            errors, chosen = choose(asked)
        if chosen is None:
            fleet["FleetState"] = "failed"
            return {"FleetId": id_, "Instances": [], "Errors": errors}
        of_instances = {**tags.get("instance", {}), "aws:ec2:fleet-id": id_}
        part = _launch(asked, chosen, of_instances)
        fleet["Instances"] = [part]
        missing = chosen.free < asked.count
        return {"FleetId": id_, "Instances": [part], "Errors": errors if missing else []}

    def _read_request(self) -> Asked:
        [config] = self._get_param("LaunchTemplateConfigs")
        named = config["LaunchTemplateSpecification"]
        if refusal := refuse_template(self.ec2_backend, named):
            raise Refused(*refusal)
        if "LaunchTemplateId" in named:
            template = self.ec2_backend.get_launch_template(named["LaunchTemplateId"])
        else:
            template = self.ec2_backend.get_launch_template_by_name(named["LaunchTemplateName"])
        capacity = self._get_param("TargetCapacitySpecification")
        on_demand = capacity["DefaultTargetCapacityType"] == "on-demand"
        options = self._get_param("OnDemandOptions" if on_demand else "SpotOptions", {})
        if on_demand and any("MaxPrice" in one for one in config["Overrides"]):
            raise Refused("InvalidParameterCombination", "MaxPrice is for Spot Instances.")
        return Asked(
            self.ec2_backend,
            {**template.get_version("1").data, "TemplateName": template.name},
            config["Overrides"],
            int(capacity["TotalTargetCapacity"]),
            int(options.get("MinTargetCapacity", 1)),
            on_demand,
        )

    def describe_fleets(self) -> ActionResult:
        ids = self._get_param("FleetIds", [])
        found = [MARKET.fleets[id_] for id_ in ids if id_ in MARKET.fleets]
        if len(found) < len(ids):
            raise Refused("InvalidFleetId.NotFound", f"{ids} not found")
        return ActionResult({"Fleets": [self._describe_fleet(fleet) for fleet in found]})

    def delete_fleets(self) -> ActionResult:
        done, failed = [], []
        for id_ in self._get_param("FleetIds", []):
            if refusal := _undeletable(id_):
                error = dict(zip(("Code", "Message"), refusal, strict=True))
                failed.append({"FleetId": id_, "Error": error})
                continue
            fleet = MARKET.fleets[id_]
            for instance in _ids(fleet):
                instances.begin_end(self.ec2_backend.get_instance(instance))
            before, fleet["FleetState"] = fleet["FleetState"], "deleted"
            after = self._describe_fleet(fleet)["FleetState"]
            done.append({"FleetId": id_, "CurrentFleetState": after, "PreviousFleetState": before})
        return ActionResult(
            {"SuccessfulFleetDeletions": done, "UnsuccessfulFleetDeletions": failed}
        )

    def _describe_fleet(self, fleet: dict[str, Any]) -> dict[str, Any]:
        """Return a fleet as EC2 describes it: one that is deleted ends its machines first."""
        alive = [
            id_ for id_ in _ids(fleet) if self.ec2_backend.get_instance(id_).state != "terminated"
        ]
        if fleet["FleetState"] == "deleted" and alive:
            return {**fleet, "FleetState": "deleted_terminating"}
        return fleet


def _ids(fleet: dict[str, Any]) -> list[str]:
    return [id_ for part in fleet["Instances"] for id_ in part["InstanceIds"]]


def _undeletable(id_: str) -> Refusal | None:
    """Refuse to delete a fleet that is not there, or that never had machines."""
    fleet = MARKET.fleets.get(id_)
    if fleet is None:
        return "fleetIdDoesNotExist", f"The fleet ID '{id_}' does not exist."
    if fleet["FleetState"] == "failed":
        return "fleetNotInDeletableState", f"The fleet '{id_}' is not in a deletable state."
    return None


@dataclass(frozen=True)
class Pool:
    """Machines of one type in one zone that may be had."""

    free: int
    price: float
    launch: Launch
    subnet: Any
    override: dict[str, Any]


def choose(asked: Asked) -> tuple[list[dict[str, Any]], Pool | None]:
    """Return why pools do not take part, and the fullest and cheapest of those that do."""
    errors, pools = [], []
    for override in asked.overrides:
        pool = _pool(asked, override)
        if refusal := next((found for rule in RULES if (found := rule(asked, pool))), None):
            errors.append(fleet_error(refusal, override, asked.lifecycle))
        else:
            pools.append(pool)
    best = min(pools, key=lambda one: (-one.free, one.price, one.launch.type), default=None)
    return errors, best


def _pool(asked: Asked, override: dict[str, Any]) -> Pool:
    subnet = asked.backend.get_subnet(override["SubnetId"])
    type_, zone = override["InstanceType"], subnet.availability_zone
    launch = Launch(asked.backend, asked.data, type_, zone, on_demand=asked.on_demand)
    close = bool(launch.group)
    free = min(MARKET.free(launch.type, launch.zone, close=close), asked.count)
    price = list_price(vcpus(type_), gpus(type_)) if asked.on_demand else now_price(type_, zone)
    return Pool(free, price, launch, subnet, override)


def _launch(asked: Asked, pool: Pool, tags: dict[str, str]) -> dict[str, Any]:
    ids = [instances.launch(pool.launch, pool.subnet, tags) for _ in range(pool.free)]
    instances.settle(asked.backend)
    return {
        "InstanceIds": ids, "InstanceType": pool.launch.type, "Lifecycle": asked.lifecycle,
        "LaunchTemplateAndOverrides": {"Overrides": pool.override},
    }  # fmt: skip


def now_price(type_: str, zone: str) -> float:
    """Return $/h of a type in a zone."""
    return MARKET.price(type_, zone, vcpus(type_), gpus(type_), MARKET.now)


def refuse_launch(asked: Asked, pool: Pool) -> Refusal | None:
    """Refuse what cannot be launched at all."""
    return launching.refuse(pool.launch)


def refuse_price(asked: Asked, pool: Pool) -> Refusal | None:
    """Refuse less than the price."""
    if float(pool.override.get("MaxPrice") or 10**6) >= pool.price:
        return None
    return (
        "SpotMaxPriceTooLow",
        f"Your Spot request price of {pool.override['MaxPrice']} is lower than the minimum "
        f"required Spot request fulfillment price of {pool.price}.",
    )


def refuse_capacity(asked: Asked, pool: Pool) -> Refusal | None:
    """Refuse more machines than are free."""
    if pool.free >= asked.min_nodes:
        return None
    return (
        "InsufficientInstanceCapacity",
        f"There is no {'On-Demand' if asked.on_demand else 'Spot'} capacity available that matches "
        "your request.",
    )


def refuse_quota(asked: Asked, pool: Pool) -> Refusal | None:
    """Refuse more vCPUs than the account may have."""
    code = quota_code(pool.launch.type, on_demand=asked.on_demand)
    left = MARKET.quotas.get(code, 10**6) - count_used(asked.backend, code)
    if asked.min_nodes * vcpus(pool.launch.type) <= left:
        return None
    if asked.on_demand:
        return "VcpuLimitExceeded", "You have requested more vCPU capacity than your current limit."
    return "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"


RULES: tuple[Callable[[Asked, Pool], Refusal | None], ...] = (
    refuse_launch, refuse_price, refuse_capacity, refuse_quota,
)  # fmt: skip
