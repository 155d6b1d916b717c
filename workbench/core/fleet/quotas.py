"""The EC2 quota of spot vCPUs that a type counts against, by its name in the console."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Quota:
    """One quota of Service Quotas, in vCPUs.

    Args:
        name: As in "All … Spot Instance Requests".
        code: The code of Service Quotas; empty if spot requests have none.
        families: A pattern of the families that share it.
    """

    name: str
    code: str
    families: str


# As in DescribeServiceQuotas and the EC2 guide's "Spot Instance quotas".
QUOTAS = (
    Quota("Standard (A, C, D, H, I, M, R, T, Z)", "L-34B43A08", r"([acdhmrtz]|i[ms]?)\d"),
    Quota("G and VT", "L-3819A6DF", r"(gr?|vt)\d"),
    Quota("P4, P3 and P2", "L-7212CCBC", r"p[2-4]"),
    Quota("P5", "L-C4BD4855", r"p[56]"),
    Quota("DL", "L-85EED4F7", r"dl\d"),
    Quota("Inf", "L-B5D1601B", r"inf\d"),
    Quota("Trn", "L-6B0D517C", r"trn\d"),
    Quota("F", "L-88CF9481", r"f\d"),
    Quota("X", "L-E3A00192", r"x\d"),
    Quota("HPC", "", r"hpc\d"),
    Quota("High Memory", "", r"u[\d-]"),
)
CODES = frozenset(quota.code for quota in QUOTAS if quota.code)


def quota_class(type_name: str) -> str:
    """Return the name of the quota that a type counts against, such as ``G and VT``.

    For an unknown family it is the family itself.
    """
    found = _quota(type_name)
    if found:
        return found.name
    family = re.match(r"[a-z]+\d*", type_name)
    return family[0] if family else "unknown"


def quota_code(type_name: str) -> str:
    """Return the code of the quota that a type counts against; empty if unknown."""
    found = _quota(type_name)
    return found.code if found else ""


def _quota(type_name: str) -> Quota | None:
    return next((one for one in QUOTAS if re.match(one.families, type_name)), None)
