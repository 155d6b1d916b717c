"""Parse EC2's answers into machines, offers and quotas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workbench.cloud.ec2.tags import TOKEN, decode_tags
from workbench.core.fleet.model import Machine, MachineState, Needs, Offer
from workbench.core.fleet.offers import is_driven


@dataclass(frozen=True)
class Quota:
    """One quota of Service Quotas, in vCPUs.

    Args:
        name: As in "All … Spot Instance Requests".
        code: The code of Service Quotas; empty if spot requests have none.
        families: A pattern of the families that share it.
        running: The code of the quota of running on-demand instances.
        group: As in "Running On-Demand … instances", where it is not ``name``.
    """

    name: str
    code: str
    families: str
    running: str
    group: str = ""


# As in DescribeServiceQuotas and the EC2 guide's "Spot Instance quotas" and "On-Demand Instance
# quotas".
QUOTAS = (
    Quota(
        "Standard (A, C, D, H, I, M, R, T, Z)", "L-34B43A08", r"([acdhmrtz]|i[ms]?)\d",
        "L-1216C47A",
    ),
    Quota("G and VT", "L-3819A6DF", r"(gr?|vt)\d", "L-DB2E81BA"),
    Quota("P4, P3 and P2", "L-7212CCBC", r"p[2-4]", "L-417A185B", "P"),
    Quota("P5", "L-C4BD4855", r"p[56]", "L-417A185B", "P"),
    Quota("DL", "L-85EED4F7", r"dl\d", "L-6E869C2A"),
    Quota("Inf", "L-B5D1601B", r"inf\d", "L-1945791B"),
    Quota("Trn", "L-6B0D517C", r"trn\d", "L-2C3B7624"),
    Quota("F", "L-88CF9481", r"f\d", "L-74FC7D96"),
    Quota("X", "L-E3A00192", r"x\d", "L-7295265B"),
    Quota("HPC", "", r"hpc\d", "L-F7808C92"),
    Quota("High Memory", "", r"u[\d-]", "L-43DA4232"),
)  # fmt: skip


def quota_class(type_name: str, *, on_demand: bool = False) -> str:
    """Return the name of the quota that a type counts against, such as ``G and VT``.

    For an unknown family it is the family itself.
    """
    found = _quota(type_name)
    if found:
        return (on_demand and found.group) or found.name
    family = re.match(r"[a-z]+\d*", type_name)
    return family[0] if family else "unknown"


def quota_name(type_name: str, *, on_demand: bool = False) -> str:
    """Return the whole name of the quota that a type counts against."""
    named = quota_class(type_name, on_demand=on_demand)
    return (
        f"Running On-Demand {named} instances"
        if on_demand
        else f"All {named} Spot Instance Requests"
    )


def quota_code(type_name: str, *, on_demand: bool = False) -> str:
    """Return the code of the quota that a type counts against; empty if unknown."""
    found = _quota(type_name)
    if found is None:
        return ""
    return found.running if on_demand else found.code


def _quota(type_name: str) -> Quota | None:
    return next((one for one in QUOTAS if re.match(one.families, type_name)), None)


MIB_PER_GIB = 1024
STATES = {
    "pending": MachineState.PENDING,
    "running": MachineState.RUNNING,
    "shutting-down": MachineState.STOPPING,
    "stopping": MachineState.STOPPING,
    "stopped": MachineState.STOPPING,
    "terminated": MachineState.GONE,
}
# EC2 limits one flow (addresses, ports and protocol) between two instances to so many Gbit/s, and
# to twice that within a cluster placement group: EC2 guide, "Amazon EC2 instance network
# bandwidth".
APART_GBITS = 5.0
CLOSE_GBITS = 10.0
# Flexible types may use 40 % of their vCPUs all the time, and more for 95 % of a day: EC2 guide,
# "Flex instances".
FLEX = 0.4
_BURSTABLE = re.compile(r"t\d")
# EC2 guide, "Key concepts for burstable performance instances": baseline utilization per vCPU.
_T3 = {
    "nano": 0.05, "micro": 0.1, "small": 0.2, "medium": 0.2, "large": 0.3, "xlarge": 0.4,
    "2xlarge": 0.4,
}  # fmt: skip
_T2 = _T3 | {"xlarge": 0.225, "2xlarge": 0.17}
_BASELINES = {"t2": _T2, "t3": _T3, "t3a": _T3, "t4g": _T3}
_SLOWEST = 0.05  # of a family that the table does not have
# Accelerators that no framework here supports, and no image here has a driver for.
_STRANGE = {
    "NeuronInfo", "InferenceAcceleratorInfo", "FpgaInfo", "MediaAcceleratorInfo",
}  # fmt: skip
# For a machine that ends at its launch; EC2 user guide, "Troubleshoot instance launch issues" and
# "Grant access to customer managed keys for use with encrypted AMIs and EBS snapshots".
KMS_KEY_DENIED = (
    "its disk is encrypted with a KMS key that spot may not use; run: aws kms create-grant "
    "--key-id KEY --grantee-principal arn:aws:iam::ACCOUNT:role/aws-service-role/"
    "spot.amazonaws.com/AWSServiceRoleForEC2Spot --operations Decrypt Encrypt GenerateDataKey "
    "GenerateDataKeyWithoutPlaintext CreateGrant DescribeKey ReEncryptFrom ReEncryptTo; KEY is "
    "what aws ec2 get-ebs-default-kms-key-id prints"
)
# Prices of one type in one zone: epoch seconds and $/h, oldest first.
Prices = Mapping[tuple[str, str], Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class InstanceType:
    """One type of machine; fields as in ``Offer``.

    Args:
        credits: Whether it computes by CPU credits, as T types do.
        is_current: Whether it has EC2's network of the years since 2016; the others (m1, m3, c3,
            i2 …) have processors of 2014 and before.
    """

    type: str
    vcpus: int
    cores: int
    memory: float
    gpus: int
    gpu: str
    gpu_memory: float
    network: float
    burst: float
    placement: bool = True
    sustained: float = 1.0
    credits: bool = False
    has_driver: bool = True
    is_current: bool = True

    @property
    def slots(self) -> int:
        """The ranks that it runs: one per GPU, or one per core without GPUs."""
        return self.gpus or self.cores


def kind(answer: Mapping[str, Any]) -> InstanceType:
    """Read one entry of DescribeInstanceTypes.

    A node has one network interface, on the type's default card; the bandwidth of other cards does
    not count.
    """
    card = _card(answer.get("NetworkInfo", {}))
    gpus = answer.get("GpuInfo", {}).get("Gpus", ())
    vcpus = answer["VCpuInfo"]["DefaultVCpus"]
    return InstanceType(
        type=answer["InstanceType"],
        vcpus=vcpus,
        cores=answer["VCpuInfo"].get("DefaultCores", max(1, vcpus // 2)),
        memory=answer["MemoryInfo"]["SizeInMiB"] / MIB_PER_GIB,
        gpus=sum(gpu.get("Count", 0) for gpu in gpus),
        gpu=gpus[0].get("Name", "") if gpus else "",
        gpu_memory=min(
            (gpu.get("MemoryInfo", {}).get("SizeInMiB", 0) / MIB_PER_GIB for gpu in gpus),
            default=0.0,
        ),
        network=card.get("BaselineBandwidthInGbps", 0.0),
        burst=card.get("PeakBandwidthInGbps", 0.0),
        placement="cluster" in answer.get("PlacementGroupInfo", {}).get("SupportedStrategies", ()),
        sustained=sustained(answer["InstanceType"]),
        credits=answer.get("BurstablePerformanceSupported", False),
        is_current=answer.get("NetworkInfo", {}).get("EnaSupport") != "unsupported",
        has_driver=not _STRANGE & answer.keys()
        and all(
            gpu.get("Count", 0) >= 1 and is_driven(gpu.get("Manufacturer", ""), gpu.get("Name", ""))
            for gpu in gpus
        ),
    )


def sustained(type_: str) -> float:
    """Return the share of its vCPUs' time that a type can use permanently."""
    family, _, size = type_.partition(".")
    if family.endswith("-flex"):
        return FLEX
    return _BASELINES.get(family, {}).get(size, _SLOWEST) if _BURSTABLE.match(family) else 1.0


def _card(network: Mapping[str, Any]) -> Mapping[str, Any]:
    cards = network.get("NetworkCards", ())
    index = network.get("DefaultNetworkCardIndex", 0)
    return next((card for card in cards if card.get("NetworkCardIndex", 0) == index), {})


def one_flow_gbits(placement: bool) -> float:
    """Return the limit of one connection between two EC2 nodes, in Gbit/s.

    Args:
        placement: Whether both are in the same cluster placement group.
    """
    return CLOSE_GBITS if placement else APART_GBITS


def offers(
    kinds: Iterable[InstanceType],
    zones: Iterable[tuple[str, str]],
    prices: Prices,
    quotas: Mapping[str, int],
    since: float,
    *,
    on_demand: bool = False,
) -> tuple[Offer, ...]:
    """Combine types, zones, prices and quotas into offers, cheapest first.

    Args:
        zones: Pairs of a type and a zone that offers it.
        quotas: The vCPUs left, by quota code.
        since: Epoch seconds; of earlier prices only the one at that moment is included.
        on_demand: Whether they are bought on demand rather than on the spot market.
    """
    named = {kind.type: kind for kind in kinds}
    found = [
        Offer(
            type=type_,
            zone=zone,
            price=prices[type_, zone][-1][1],
            vcpus=named[type_].vcpus,
            memory=named[type_].memory,
            gpus=named[type_].gpus,
            gpu=named[type_].gpu,
            gpu_memory=named[type_].gpu_memory,
            network=named[type_].network,
            burst=named[type_].burst,
            history=_since(prices[type_, zone], since),
            quota=quotas.get(quota_code(type_, on_demand=on_demand)),
            quota_name=quota_name(type_, on_demand=on_demand),
            slots=named[type_].slots,
            flow=one_flow_gbits(named[type_].placement),
            placement=named[type_].placement,
            sustained=named[type_].sustained,
            has_driver=named[type_].has_driver,
            is_current=named[type_].is_current,
        )
        for type_, zone in zones
        if type_ in named and prices.get((type_, zone))
    ]
    return tuple(sorted(found, key=lambda offer: (offer.price, offer.type, offer.zone)))


def fits(needs: Needs, kind: InstanceType) -> bool:
    """Return whether a type meets the needs of each node."""
    return (
        (not needs.types or kind.type in needs.types)
        and kind.gpus >= needs.gpus
        and kind.gpu_memory >= needs.gpu_memory
        and kind.memory >= needs.memory
        and kind.vcpus >= needs.vcpus
        and kind.network >= needs.network
    )


def prices(answer: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Read DescribeSpotPriceHistory."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in answer:
        key = (row["InstanceType"], row["AvailabilityZone"])
        found.setdefault(key, []).append((epoch(row["Timestamp"]), float(row["SpotPrice"])))
    return {key: sorted(points) for key, points in found.items()}


def machine(
    answer: Mapping[str, Any],
    price: float = 0.0,
    slots: int = 0,
    public: bool = False,
    network: float = 0.0,
) -> Machine:
    """Read one entry of DescribeInstances.

    Args:
        public: Whether this computer reaches it by its public address.
        network: Gbit/s that its type sustains; 0 if unknown.
    """
    tags = decode_tags(answer.get("Tags"))
    reason = answer.get("StateReason") or {}
    address = answer.get("PrivateIpAddress") or ""
    place = answer.get("Placement") or {}
    return Machine(
        id=answer["InstanceId"],
        state=STATES.get(answer["State"]["Name"], MachineState.STOPPING),
        address=address,
        reach=(answer.get("PublicIpAddress") or "") if public else address,
        type=answer.get("InstanceType", ""),
        zone=place.get("AvailabilityZone", ""),
        price=price,
        slots=slots,
        launched=epoch(answer.get("LaunchTime")),
        ended=parse_end_time(answer.get("StateTransitionReason") or ""),
        token=dict(tags).get(TOKEN, ""),
        tags=tags,
        reason=_reason(reason),
        interrupted=reason.get("Code", "").startswith("Server.Spot"),
        network=network,
        flow=one_flow_gbits(placement=bool(place.get("GroupName"))),
    )


def _reason(state_reason: Mapping[str, str]) -> str:
    """Return why a machine is in its state, with the remedy if one is known."""
    message = state_reason.get("Message", "")
    is_key = state_reason.get("Code") == "Client.InternalError"
    return f"{KMS_KEY_DENIED} ({message})" if is_key else message


def parse_end_time(reason: str) -> float:
    """Return the end in ``User initiated (2026-01-02 03:04:05 GMT)`` in epoch seconds, or 0."""
    found = re.search(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)", reason)
    if not found:
        return 0.0
    return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def epoch(time: datetime | None) -> float:
    """Return epoch seconds; 0 for no time."""
    return time.timestamp() if time else 0.0


def _since(points: Sequence[tuple[float, float]], since: float) -> tuple[tuple[float, float], ...]:
    before = [point for point in points if point[0] < since]
    return (*((since, price) for _, price in before[-1:]), *points[len(before) :])
