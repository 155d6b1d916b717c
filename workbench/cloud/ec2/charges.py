"""What EC2 bills beside its machines: volumes, addresses, snapshots and traffic."""

from __future__ import annotations

MONTH_HOURS = 730.0
# $ per GiB and hour of a general-purpose volume: gp3 in us-east-1, $0.08 a month, as in
# aws.amazon.com/ebs/pricing; no region costs twice as much.
STORAGE_PRICE = 0.08 / MONTH_HOURS
# $ per GiB and hour of a snapshot in the standard tier, $0.05 a month; empty blocks are free.
SNAPSHOT_PRICE = 0.05 / MONTH_HOURS
# $ per GB between two zones of a region, for both the sender and the receiver: "Data transfer
# within the same AWS Region", aws.amazon.com/ec2/pricing/on-demand, 2026.
ZONE_PRICE = 0.01
# $/h of a public IPv4 address in use, since 2024-02-01: "Public IPv4 address",
# aws.amazon.com/vpc/pricing, 2026.
ADDRESS_PRICE = 0.005
# $ per GB to the internet: the first 10 TB a month of us-east-1, beyond the 100 GB that are free,
# aws.amazon.com/ec2/pricing/on-demand, 2026. Inbound traffic is free.
OUT_PRICE = 0.09
# $ per GB to another region: "Data transfer out from EC2 to other AWS regions" of us-east-1.
REGION_PRICE = 0.02
# GiB of a node's root volume, unless its image needs more.
DISK_GIB = 50


def storage_price(gibibytes: float) -> float:
    """Return the $/h of a volume."""
    return STORAGE_PRICE * gibibytes


def extra_price(gibibytes: float, *, public: bool) -> float:
    """Return the $/h of what is billed beside a machine of EC2.

    Args:
        gibibytes: Size of its root volume.
        public: Whether it has a public IPv4 address.
    """
    return storage_price(gibibytes) + (ADDRESS_PRICE if public else 0.0)
