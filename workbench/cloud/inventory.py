"""Read EC2's answers into machines, offers and quotas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workbench.cloud.tags import TOKEN, read
from workbench.core.fleet import Machine, MachineState, Needs, Offer

MIB_PER_GIB = 1024
STATES = {
    "pending": MachineState.PENDING,
    "running": MachineState.RUNNING,
    "shutting-down": MachineState.STOPPING,
    "stopping": MachineState.STOPPING,
    "stopped": MachineState.STOPPING,
    "terminated": MachineState.GONE,
}
# Service Quotas' codes of "All … Spot Instance Requests", in vCPUs, by the letters of the family.
QUOTAS = {
    "a": "L-34B43A08",
    "c": "L-34B43A08",
    "d": "L-34B43A08",
    "h": "L-34B43A08",
    "i": "L-34B43A08",
    "m": "L-34B43A08",
    "r": "L-34B43A08",
    "t": "L-34B43A08",
    "z": "L-34B43A08",
    "g": "L-3819A6DF",
    "vt": "L-3819A6DF",
    "gr": "L-3819A6DF",
    "p": "L-7212CCBC",
    "p5": "L-C4BD4855",
    "dl": "L-85EED4F7",
    "inf": "L-B5D1601B",
    "trn": "L-6B0D517C",
    "f": "L-88CF9481",
    "x": "L-E3A00192",
}
# Prices of one type in one zone: epoch seconds and $/h, oldest first.
Prices = Mapping[tuple[str, str], Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Kind:
    """One type of machine; fields as in ``Offer``."""

    type: str
    vcpus: int
    cores: int
    memory: float
    gpus: int
    gpu: str
    gpu_memory: float
    network: float
    burst: float

    @property
    def slots(self) -> int:
        """Ranks that it carries: one a GPU, or one a core where there is none."""
        return self.gpus or self.cores


def kind(answer: Mapping[str, Any]) -> Kind:
    """Read one entry of DescribeInstanceTypes."""
    cards = answer.get("NetworkInfo", {}).get("NetworkCards", ())
    gpus = answer.get("GpuInfo", {}).get("Gpus", ())
    vcpus = answer["VCpuInfo"]["DefaultVCpus"]
    return Kind(
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
        network=sum(card.get("BaselineBandwidthInGbps", 0.0) for card in cards),
        burst=sum(card.get("PeakBandwidthInGbps", 0.0) for card in cards),
    )


def quota_code(type_: str) -> str:
    """Return the code of the quota that a type counts against; empty when it is not known."""
    family = type_.partition(".")[0]
    letters = re.match(r"[a-z]*", family)
    word = letters.group() if letters else ""
    if family.startswith(("p5", "p6")):
        return QUOTAS["p5"]
    if word.startswith("u") or word == "hpc":
        return ""
    known = [word[:length] for length in (3, 2, 1) if word[:length] in QUOTAS]
    return QUOTAS[known[0]] if known else ""


def offers(
    kinds: Iterable[Kind],
    zones: Iterable[tuple[str, str]],
    prices: Prices,
    quotas: Mapping[str, int],
    since: float,
) -> tuple[Offer, ...]:
    """Put together what was told of types, zones, prices and quotas; cheapest first.

    Args:
        zones: Type and zone in which it is offered.
        quotas: Quota code to the vCPUs that are left of it.
        since: Epoch seconds; of what was before only the price that stood then is told.
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
            quota=quotas.get(quota_code(type_)),
        )
        for type_, zone in zones
        if type_ in named and prices.get((type_, zone))
    ]
    return tuple(sorted(found, key=lambda offer: (offer.price, offer.type, offer.zone)))


def fits(needs: Needs, kind: Kind) -> bool:
    """Return whether a type has what each node must have at least."""
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
    answer: Mapping[str, Any], price: float = 0.0, slots: int = 0, public: bool = False
) -> Machine:
    """Read one entry of DescribeInstances.

    Args:
        public: Whether this computer reaches it by its public address.
    """
    tags = read(answer.get("Tags"))
    reason = answer.get("StateReason") or {}
    address = answer.get("PrivateIpAddress") or ""
    return Machine(
        id=answer["InstanceId"],
        state=STATES.get(answer["State"]["Name"], MachineState.STOPPING),
        address=address,
        reach=(answer.get("PublicIpAddress") or "") if public else address,
        type=answer.get("InstanceType", ""),
        zone=(answer.get("Placement") or {}).get("AvailabilityZone", ""),
        price=price,
        slots=slots,
        launched=epoch(answer.get("LaunchTime")),
        ended=ended(answer.get("StateTransitionReason") or ""),
        token=dict(tags).get(TOKEN, ""),
        tags=tags,
        reason=reason.get("Message", ""),
        interrupted=reason.get("Code", "").startswith("Server.Spot"),
    )


def ended(reason: str) -> float:
    """Return when a machine ended, of ``User initiated (2026-01-02 03:04:05 GMT)``; 0 if unsaid."""
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
