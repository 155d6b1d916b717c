"""Parts of EC2's answers: errors, times, and data of types."""

from __future__ import annotations

import functools
import json
from datetime import UTC, datetime
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

# A code and a message, as EC2 words them.
Refusal = tuple[str, str]


class Refused(ServiceException):
    """An answer of EC2's that is an error."""


def fleet_error(
    refusal: Refusal, override: dict[str, Any] | None = None, lifecycle: str = "spot"
) -> dict[str, Any]:
    """Return one entry of ``Errors`` in CreateFleet's 200."""
    code, message = refusal
    return {
        "ErrorCode": code, "ErrorMessage": message, "Lifecycle": lifecycle,
        "LaunchTemplateAndOverrides": {"Overrides": override or {}},
    }  # fmt: skip


def type_facts(type_: str) -> dict[str, Any]:
    """Return what DescribeInstanceTypes says of a type; nothing for an unknown one."""
    facts: dict[str, Any] = INSTANCE_TYPES.get(type_, {})
    return facts


def vcpus(type_: str) -> int:
    """Return a type's vCPUs."""
    return int(type_facts(type_)["VCpuInfo"]["DefaultVCpus"])


def gpus(type_: str) -> int:
    """Return a type's GPUs."""
    return sum(gpu.get("Count", 0) for gpu in type_facts(type_).get("GpuInfo", {}).get("Gpus", ()))


def zones_of(type_: str, region: str) -> list[str]:
    """Return the zones that offer a type."""
    return [*_zones_by_type(region).get(type_, ())]


@functools.cache
def _zones_by_type(region: str) -> dict[str, list[str]]:
    """Return the zones of all types that a region offers; the whole list asks for each."""
    found: dict[str, list[str]] = {}
    for row in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, ()):
        found.setdefault(row["InstanceType"], []).append(row["Location"])
    return {type_: sorted(zones) for type_, zones in found.items()}


def at(seconds: float) -> datetime:
    """Return epoch seconds as a time."""
    return datetime.fromtimestamp(seconds, UTC)


def plain(value: Any) -> Any:
    """Return what JSON can say of a value."""
    return json.loads(json.dumps(value, default=str))
